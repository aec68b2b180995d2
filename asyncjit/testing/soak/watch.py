"""What is known of a run in virtual time while it goes on: records in their order, reads, and tasks that wait.

Law: notes, and has them judged; what happens next is decided in ``play``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import numpy as np

from asyncjit.errors import AsyncJitError, DependencyError, WouldBlockError
from asyncjit.numpy import Array
from asyncjit.records import FINISHED, STARTED
from asyncjit.replay import Replay
from asyncjit.testing.soak.flows import FlowRun, RowsCall
from asyncjit.testing.soak.oracle import Oracle
from asyncjit.testing.soak.program import Source
from asyncjit.testing.soak.records import Read, Record
from asyncjit.testing.soak.stage import Stage

__all__ = ["Task", "Wait", "Watch"]

#: How many of the latest replays a user would still hold.
HELD = 5


@dataclass(eq=False)
class Task:
    """A task that does what a user would: a flow, or a call with rows."""

    what: str
    run: FlowRun | RowsCall
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    begun: bool = False

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.run.is_over


@dataclass(eq=False)
class Wait:
    """A task that waits for a replay."""

    record: Record
    replay: Replay[Any]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    begun: bool = False
    ended: bool = False
    #: It was cancelled while the replay ran, and must not be let go before that has ended.
    shielded: bool = False


class Watch:
    """The records of one run. ``lines`` is for people."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.oracle = Oracle(stage.program)
        self.order: list[Record | Read] = []
        self.tasks: list[Task | Wait] = []
        self.views: list[tuple[np.ndarray, bytes, str]] = []
        self.lines: list[object] = []

    def note(self, line: str) -> None:
        """Add a line to the trace."""
        self.lines.append(line)

    def enlist(self, record: Record) -> None:
        """The next record, in the order of the tickets."""
        self.note(f"statement {record.index}: {record.refusal or record.replay!r}   {record.statement}")
        self.order.append(record)

    def check_ticket(self, record: Record) -> None:
        """It is the latest that was made, so it has the last ticket."""
        assert record.run is not None
        last = max((other.run.ticket for other in self._taken() if other is not record and other.run), default=0)
        assert record.run.ticket > last, f"{record.replay!r} took its ticket out of turn, after {last}"

    def _taken(self) -> list[Record]:
        return [each for each in self.order if isinstance(each, Record) and each.run is not None]

    def held(self) -> list[Record]:
        """The latest statements whose replay a user would hold; of an eager operation nobody has one."""
        return [
            each for each in self._taken()[-HELD:] if each.replay is not None and each.statement.kind in _WITH_REPLAY
        ]

    def waiting(self) -> list[Task | Wait]:
        """Tasks that have not ended."""
        return [task for task in self.tasks if not task.ended]

    # Ends.

    def check_idle(self, engine: Any) -> None:
        """Nothing happens any more.

        Raises:
            AssertionError: and something should.
        """
        waiting = self.waiting()
        assert not waiting, f"nothing happens any more, and somebody waits: {waiting}"
        assert engine._scheduler.is_idle, "nothing happens any more, and the engine is not idle"
        pending = [each for each in self._arrays() if each._storage.writer is not None]  # type: ignore[attr-defined]
        assert not pending, f"nothing happens any more, and arrays are pending: {pending}"

    def _arrays(self) -> list[Array]:
        state = [array for each in self.stage.generations for array in each.arrays()]
        return [*state, *(array for record in self._taken() for array in record.arrays or ())]

    def give_up(self) -> None:
        """Let go whoever waits, so that tasks can be cancelled: the engine may be too broken to end anything."""
        replays = [task.replay for task in self.tasks if isinstance(task, Wait)]
        replays += [replay for record in self._taken() for replay in record.replays]
        for replay in replays:
            replay.settled.signal()
        for array in self._arrays():
            while (writer := array._storage.writer) is not None:  # type: ignore[attr-defined]
                array._storage.leave(writer)  # type: ignore[attr-defined]
                writer.settled.signal()

    # Waiting.

    async def wait_for(self, wait: Wait) -> None:
        """A user's ``await replay``, and then what it gives is read."""
        record = wait.record
        assert record.run is not None
        try:
            with wait.scope:
                wait.begun = True
                self.read_outputs(record, await wait.replay or ())
        except AsyncJitError as error:
            self.note(f"a wait for statement {record.index} ends with {error!r}")
        finally:
            wait.ended = True
        if wait.scope.cancelled_caught:
            self.note(f"a wait for statement {record.index} is let go: {record.run}")
            assert not wait.shielded or record.run.state in FINISHED, f"{record.run} was to be finished first"

    def cancel(self, task: Task | Wait) -> None:
        """Cancel a task."""
        if isinstance(task, Wait):
            record, run = task.record, task.record.run
            assert run is not None
            body = self.stage.program.bodies[record.statement.body]
            is_call = record.statement.kind == "call"
            task.shielded = run.state in STARTED and is_call and not body.is_pure and body.on_cancel == "shield"
            record.cancels += 1
            self.note(f"a wait for statement {record.index} is cancelled: {run}")
        else:
            self.note(f"{task.what} is cancelled")
        task.scope.cancel()

    # Reading.

    def readable(self) -> list[Source]:
        """What there is to read at any time, of the present generation."""
        return self._state(len(self.stage.generations) - 1)

    def _state(self, generation: int) -> list[Source]:
        program = self.stage.program
        found = [Source("base", index, generation) for index in range(program.bases)]
        return found + [Source("generator", index, generation) for index in range(program.generators)]

    def _array_of(self, source: Source) -> Any:
        generation = self.stage.generations[source.part]
        return generation.bases[source.index] if source.of == "base" else generation.generators[source.index].state

    async def read_soon(self, source: Source) -> None:
        """A user's ``await array``, and then it is read."""
        array = self._array_of(source)
        try:
            await array
        except DependencyError as error:
            self._note_found(source, error)
            return
        self._read_now(source, array)

    def _read_now(self, source: Source, array: Any) -> None:
        """Between the end of the wait and here nobody has had a turn, so nothing can be pending."""
        try:
            values = self.stage.read(array)
        except AsyncJitError as error:
            self._note_found(source, error)
            return
        self.views.append((values, values.tobytes(), f"the view of {source} that was read as number {len(self.views)}"))
        self._note_found(source, values.copy())

    def _note_found(self, source: Source, found: Any) -> None:
        where = f"reading {source.of} {source.index} part {source.part}, after {len(self.order)} entries,"
        self.note_read(Read(source, found, where))

    def note_read(self, read: Read) -> None:
        """The next read."""
        self.lines.append((read.where, read.found))
        self.order.append(read)

    def read_outputs(self, record: Record, outputs: Sequence[Array]) -> None:
        """Read what was awaited just now."""
        for part, array in enumerate(outputs if record.statement.shapes else ()):
            # A later statement may be writing into it: then this is no time to read.
            try:
                values = self.stage.read(array)
            except WouldBlockError:
                continue
            except AsyncJitError as error:
                self._note_found(Source("output", record.index, part), error)
                continue
            self._note_found(Source("output", record.index, part), values.copy())

    def read_all(self) -> None:
        """In the end: all state of all generations, and outputs that somebody has."""
        for generation in range(len(self.stage.generations)):
            for source in self._state(generation):
                self._read_now(source, self._array_of(source))
        for record in [each for each in self._taken() if each.arrays is not None]:
            for part, array in enumerate(record.arrays or ()):
                self._read_now(Source("output", record.index, part), array)

    # Judging.

    def judge(self) -> None:
        """Have all of it judged, in its order.

        Raises:
            AssertionError: something is not as in the serial run.
        """
        for task in self.tasks:
            if isinstance(task, Task):
                _excuse(task.run)
        for each in self.order:
            self.oracle.judge(each)
        for values, content, what in self.views:
            assert values.tobytes() == content, f"{what} has changed"


#: Statements that give a replay.
_WITH_REPLAY = ("call", "assign", "snapshot")


def _excuse(run: FlowRun | RowsCall) -> None:
    """Replays that a task may have had removed, by ending before its time."""
    if isinstance(run, FlowRun):
        for record in run.records:
            record.cancels += run.is_cut
    elif run.is_cancelled:
        for batch in run.batches():
            batch.cancels += 1
