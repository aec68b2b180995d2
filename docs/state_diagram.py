"""Draws the life of a replay from the scheduler's own table, and puts the drawing into docs/execution_model.md.

Run ``python docs/state_diagram.py`` after a change of ``TRANSITIONS``; a test compares the page with the table.

Law: reads the table, decides nothing. The one thing that the table cannot say is how a replay comes into being, because
there is no state before the first: that stands in ``BIRTHS``, and a test asks the scheduler whether it is so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from asyncjit.runs import FINISHED, TRANSITIONS, Arrive, State, Stimulus, Submit

PAGE = Path(__file__).with_name("execution_model.md")
BEGIN, END = "<!-- state diagram: made by docs/state_diagram.py -->", "<!-- end of the state diagram -->"

#: The first state of a call. Of the calls of a signature that is not captured, the first captures and the others wait.
BIRTHS: Mapping[type[Stimulus], tuple[State, ...]] = {
    Arrive: (State.CAPTURING, State.AWAITING_CAPTURE),
    Submit: (State.QUEUED,),
}


def diagram() -> str:
    """A Mermaid state diagram: one line a state, one an edge, stimuli that lead the same way together."""
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{state.value}" as {state.name}' for state in State]
    for stimulus, states in BIRTHS.items():
        lines += [f"    [*] --> {state.name}: {stimulus.__name__}" for state in states]
    for state, moves in TRANSITIONS.items():
        targets: dict[State, list[str]] = {}
        for stimulus, target in moves.items():
            targets.setdefault(target, []).append(stimulus.__name__)
        lines += [f"    {state.name} --> {target.name}: {', '.join(names)}" for target, names in targets.items()]
    lines += [f"    {state.name} --> [*]" for state in State if state in FINISHED]
    return "\n".join(lines)


def section() -> str:
    """What stands between the markers, markers included."""
    return f"{BEGIN}\n```mermaid\n{diagram()}\n```\n{END}"


def replaced(page: str) -> str:
    """``page`` with a fresh drawing between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} has lost its markers; put back {BEGIN!r} and {END!r}")
    return before + section() + after


def main() -> None:
    """Rewrite the page where it differs."""
    page = PAGE.read_text(encoding="utf-8")
    fresh = replaced(page)
    if fresh != page:
        PAGE.write_text(fresh, encoding="utf-8")
    print(f"{PAGE.name}: {'drawn anew' if fresh != page else 'as the table says'}")


if __name__ == "__main__":
    main()
