"""Soak runs in virtual time and on threads: whatever happens when, all is as in the serial run in ticket order.

Law: few seeds, quickly; ``python -m asyncjit.testing soak`` plays as many as there is time for.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncjit.testing.__main__ import main
from asyncjit.testing.soak import RecordedChoices, SeededChoices, play_choices, play_seed, play_threads
from asyncjit.testing.soak.generate import generate_program
from asyncjit.testing.soak.play import Play
from asyncjit.testing.soak.program import Body
from asyncjit.testing.soak.themes import THEMES

#: 300 seeds, in blocks so that a failure costs no more than its block.
BLOCKS, BLOCK = 12, 25


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_programs_equal_the_serial_run_in_ticket_order(block: int) -> None:
    total: Counter[str] = Counter()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        total += play_seed(seed)
    assert all(total[outcome] for outcome in ("done", "failed", "dropped")), "a block that meets one outcome only"


def test_random_programs_equal_the_serial_run_on_trio() -> None:
    for seed in range(1000, 1015):
        play_seed(seed, backend="trio")


class DrawnChoices:
    """Choices that Hypothesis makes, so that what fails shrinks."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def choose(self, count: int) -> int:
        return self._data.draw(st.integers(0, count - 1)) if count > 1 else 0


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_programs_equal_the_serial_run_and_shrink_when_they_do_not(data: st.DataObject) -> None:
    play_choices(DrawnChoices(data), length_max=6)


def test_a_seed_does_the_same_every_time_and_so_does_the_list_of_its_choices() -> None:
    def trace(choices: SeededChoices | RecordedChoices) -> list[str]:
        import anyio

        play = Play(generate_program(choices), choices)
        anyio.run(play.run)
        play.finish()
        return [str(line) for line in play.lines]

    for seed in range(40, 40 + len(THEMES)):
        seeded = SeededChoices(seed)
        first = trace(seeded)
        assert trace(SeededChoices(seed)) == first
        assert trace(RecordedChoices(seeded.taken)) == first


def test_a_failing_seed_says_how_to_replay_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncjit.testing.soak.trial.churned", lambda values: values)
    failures: dict[int, AssertionError] = {}
    for seed in range(20):
        try:
            play_seed(seed)
        except AssertionError as error:
            failures[seed] = error
    seed, failure = failures.popitem()
    notes = "\n".join(failure.__notes__)
    assert failure.__notes__[-1].endswith(f"python -m asyncjit.testing soak --first {seed} --seeds 1")
    with pytest.raises(AssertionError) as on_trio:
        play_seed(seed, backend="trio")
    assert on_trio.value.__notes__[-1].endswith(f" --first {seed} --seeds 1 --backend trio")
    assert "what happened:" in notes
    assert "statements: " in notes


def test_programs_make_use_of_everything() -> None:
    """Each kind of step and of statement, and what a function or a flow may be besides; on threads all but saving."""
    for threads in (0, 3):
        programs = [generate_program(SeededChoices(seed), threads=threads, length_max=30) for seed in range(60)]
        statements = [each for program in programs for each in program.statements]
        bodies = [body for program in programs for body in program.bodies]
        steps = {step.kind for body in bodies for step in body.steps}
        assert steps >= {"new", "write", "update", "fold", "stir", "churn", "check", "draw"}
        assert steps >= {"move", "spread", "meet", "share"}
        kinds = {each.kind for each in statements}
        assert kinds >= {"call", "eager", "assign", "snapshot", "seed", "flow", "rows", "close"}
        assert ("reload" in kinds) is not bool(threads)
        assert all(any(flags) for flags in zip(*map(_flags, bodies), strict=True))
        flows = [each.flow for each in statements if each.flow is not None]
        assert {len(flow.bodies) for flow in flows} == {1, 2, 3}
        assert any(flow.prefetched for flow in flows)
        assert any(flow.pauses for flow in flows)


def _flags(body: Body) -> tuple[bool, ...]:
    return body.has_variable, body.of_rows, body.prune, len(body.reach) > 1, not body.is_pure


def test_no_program_assigns_to_one_target_twice() -> None:
    """It would be one key of the dictionary, and the oracle would count a read that does not happen."""
    programs = [generate_program(SeededChoices(seed)) for seed in range(300)]
    assigned = [each.sources for program in programs for each in program.statements if each.kind == "assign"]
    targets = [sources[: len(sources) // 2] for sources in assigned]
    assert any(len(each) > 1 for each in targets)
    assert all(len(set(each)) == len(each) for each in targets)


def test_the_command_plays_seeds_and_small_worlds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soak", "--seeds", "3", "--first", "7"]) == 0
    assert main(["worlds", "--segments", "1", "--every", "13"]) == 0
    out = capsys.readouterr().out
    assert "3 seeds from 7 on are as in the serial run" in out
    assert "ends, all as in the serial run" in out


@pytest.mark.parametrize("arguments", [["--seeds", "0"], ["--seeds", "5", "--seconds", "-1"]])
def test_the_command_does_not_say_that_all_is_well_when_it_has_played_nothing(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["soak", *arguments]) == 2
    said = capsys.readouterr()
    assert "as in the serial run" not in said.out
    assert "no seed was played" in said.err


def test_the_command_tells_of_a_seed_that_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncjit.testing.soak.trial.churned", lambda values: values)
    assert main(["soak", "--seeds", "50"]) == 1
    assert "fails" in capsys.readouterr().err


# Real threads.


@pytest.fixture
def hasty_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_programs_on_workers_called_by_several_threads_equal_the_serial_run() -> None:
    for seed in range(12):
        play_threads(seed)


@pytest.mark.usefixtures("hasty_switches")
def test_programs_on_workers_equal_the_serial_run_when_threads_are_switched_all_the_time() -> None:
    for seed in range(20, 26):
        play_threads(seed)
