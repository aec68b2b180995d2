"""What a jitted function holds: its captures, told, drawn, checked, forgotten.

Law: everything that a user may ask of a function besides calling it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

from asyncjit.errors import CaptureError, NothingCapturedError
from asyncjit.jit.body import is_inlining
from asyncjit.jit.captures import Entry
from asyncjit.jit.checking import CheckReport, check
from asyncjit.jit.drawing import drawing_of
from asyncjit.jit.explain import explain_table
from asyncjit.jit.matching import Matching
from asyncjit.jit.options import Statistics

__all__ = ["Holding", "draw_all"]

P = ParamSpec("P")
R = TypeVar("R")


class Holding(Matching, Generic[P, R]):
    """Base of ``JitFunction``."""

    @property
    def captures(self) -> list[str]:
        """The signatures that are captured now, in words."""
        return [self._describe(entry) for table in self._tables.all() for entry in table]

    def _describe(self, entry: Entry) -> str:
        return f"{self._name}({self._parameters.describe(entry.key)})"

    def statistics(self) -> Statistics:
        """Counts since the function was made or ``reset``."""
        tables = self._tables.all()
        return Statistics(
            captures=sum(len(list(table)) for table in tables),
            captures_made=sum(table.made for table in tables),
            captures_dropped=sum(table.dropped for table in tables),
            replays=sum(table.replays() for table in tables),
        )

    def explain(self) -> str:
        """What each capture does: its calls, streams, waits, bytes and estimates, as a table to read."""
        return "\n\n".join(
            explain_table(self._describe(entry), entry) for table in self._tables.all() for entry in table
        )

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Write what each capture does as a drawing to ``path``, an SVG file: streams as lanes, waits as arrows.

        Raises:
            NothingCapturedError: nothing is captured yet. OSError: the file cannot be written.
        """
        draw_all([self], path)

    async def check(self, *args: P.args, **kwargs: P.kwargs) -> CheckReport:
        """Replay a call, run the function's Python code beside it on the same contents, and report every difference.

        Compared are what is returned, and all arguments and state that either of them writes, bit by bit (a nan equals
        a nan). So it finds what a capture has fixed and Python has changed since where no guard looks: an attribute, a
        list, a branch. Afterwards everything is as after one call by the function itself. Nothing else may use
        the arrays that are written meanwhile; Python side effects happen once.

        Raises:
            CaptureError: it is called while a function is recorded. Else as a call; a difference does not raise, see
                ``CheckReport.raise_if_different``.
        """
        if is_inlining():
            raise CaptureError(
                f"{self._name}.check() compares values, and there are none while a function is recorded; call it "
                "outside of any recording",
                function=self._name,
            )
        return await check(self, args, kwargs)

    def reset(self) -> None:
        """Forget all captures; replays under way are not touched. The next call records anew."""
        self._tables.clear()

    def free_intermediates(self) -> None:
        """Free the memory of intermediates that no replay uses at the moment; the next replays take new memory.

        State, outputs and captures stay, and so does what ``prune`` has computed once. May be called at any time and
        again; replays under way give their memory back when they end, for the next ones.
        """
        for table in self._tables.all():
            with table.engine._lock:
                table.group.drop_frames()
                for entry in table:
                    for program in entry.programs():
                        program.loaded.inline = None


def draw_all(functions: Sequence[Holding[Any, Any]], path: str | os.PathLike[str]) -> None:
    """Draw every capture of ``functions`` into one file; see ``Holding.draw``."""
    entries = [
        (each._describe(entry), entry.programs()[0].plan)
        for each in functions
        for table in each._tables.all()
        for entry in table
    ]
    if not entries:
        name = functions[0]._name
        raise NothingCapturedError(
            f"{name!r} has no capture that could be drawn; call it, or await {name}.prepare(…), first", function=name
        )
    Path(path).write_text(drawing_of(entries), encoding="utf-8")
