"""One soak run in virtual time: statements, device steps, waits, cancellations and reads in an order that is chosen.

Law: what happens next comes from ``choices``; what came of it is judged by ``oracle``. One thread, one event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np

from asyncjit.errors import AsyncJitError, DependencyError, WouldBlockError
from asyncjit.numpy import Array
from asyncjit.records import FINISHED, STARTED
from asyncjit.replay import Replay
from asyncjit.testing.soak.choices import Choices
from asyncjit.testing.soak.oracle import Oracle
from asyncjit.testing.soak.program import Program, Source
from asyncjit.testing.soak.simulation import SimulatedEngine
from asyncjit.testing.soak.stage import Read, Record, Stage

__all__ = ["Play"]

#: Turns of the loop after which whoever was woken has run.
TURNS = 4


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


class Play:
    """Plays a program. ``lines`` is what happened, to be read by people; ``oracle`` holds the outcomes."""

    def __init__(self, program: Program, choices: Choices, *, verifies: bool = True) -> None:
        self.program = program
        self.choose = choices.choose
        self.engine = SimulatedEngine(program, verifies=verifies)
        self.stage = Stage(program, self.engine, [device.name for device in self.engine.simulated])
        self.oracle = Oracle(program)
        self.order: list[Record | Read] = []
        self.waits: list[Wait] = []
        self.views: list[tuple[np.ndarray, bytes, str]] = []
        self.lines: list[object] = []
        self.next = 0
        #: What ended the run before its time; what tasks raise after that counts for nothing.
        self.failure: BaseException | None = None

    def note(self, line: str) -> None:
        """Add a line to the trace."""
        self.lines.append(line)

    # What can happen.

    async def run(self) -> None:
        """Let things happen until nothing can; then everybody who waits has been woken, and the engine is idle.

        Raises:
            AssertionError: somebody waits for ever.
        """
        try:
            await self._run()
        except BaseExceptionGroup as errors:
            self._raise_violations()
            first: BaseException = self.failure or errors
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            raise first from None

    async def _run(self) -> None:
        async with anyio.create_task_group() as tasks:
            try:
                while (action := self._next_action()) is not None:
                    await action(tasks)
                    self._raise_violations()
                await _turns(TURNS * (2 + len(self.waits)))
                waiting = [wait.record for wait in self.waits if not wait.ended]
                assert not waiting, f"nothing happens any more, and somebody waits for {waiting}"
                assert self.engine._scheduler.is_idle, "nothing happens any more, and the engine is not idle"
                pending = [each for each in self._arrays() if each._storage.writer is not None]  # type: ignore[attr-defined]
                assert not pending, f"nothing happens any more, and arrays are pending: {pending}"
            except BaseException as error:
                self.failure = error if isinstance(error, Exception) else None
                self._give_up()
                raise
            finally:
                tasks.cancel_scope.cancel()

    def _raise_violations(self) -> None:
        for violation in self.engine._scheduler.violations:
            raise violation

    def _arrays(self) -> list[Array]:
        return [*self.stage.bases, *(array for record in self._taken() for array in record.arrays or ())]

    def _give_up(self) -> None:
        """Let go whoever waits, so that tasks can be cancelled: the engine may be too broken to end anything."""
        for wait in self.waits:
            wait.replay.settled.signal()
        for array in self._arrays():
            while (writer := array._storage.writer) is not None:  # type: ignore[attr-defined]
                array._storage.leave(writer)  # type: ignore[attr-defined]
                writer.settled.signal()

    def _next_action(self) -> Callable[[Any], Awaitable[None]] | None:
        devices = [device for device in self.engine.simulated if device._timeline.next_s is not None]
        possible: list[Callable[[Any], Awaitable[None]]] = []
        if self.next < len(self.program.statements):
            possible.append(self._perform)
        if devices:
            possible.append(self._step)
        if self.engine.helper.jobs:
            possible.append(self._help)
        if not possible:
            return None
        if self.stage.records:
            possible += [self._wait, self._turn, self._read, self._disturb]
        weighted = [each for each in possible for _ in range(WEIGHTS.get(each.__name__, 1))]
        return weighted[self.choose(len(weighted))]

    # Making it happen.

    async def _perform(self, tasks: Any) -> None:
        index, self.next = self.next, self.next + 1
        record = self.stage.perform(index)
        if record is None:
            self.note(f"statement {index} is left out: an array of it does not exist")
            return
        self.note(f"statement {index}: {record.refusal or record.replay!r}   {record.statement}")
        self.order.append(record)
        if record.run is not None and record.refusal is None:
            last = max((other.run.ticket for other in self._taken() if other is not record and other.run), default=0)
            assert record.run.ticket > last, f"{record.replay!r} took its ticket out of turn, after {last}"

    def _taken(self) -> list[Record]:
        return [each for each in self.order if isinstance(each, Record) and each.run is not None]

    def _replays(self) -> list[Record]:
        """The latest statements whose replay a user would hold; of an eager operation nobody has one."""
        return [each for each in self._taken()[-5:] if each.replay is not None and each.statement.kind != "eager"]

    async def _step(self, tasks: Any) -> None:
        devices = [device for device in self.engine.simulated if device._timeline.next_s is not None]
        device = devices[self.choose(len(devices))]
        count = len(device.trace)
        device.step()
        self.lines += [(device.name, entry) for entry in device.trace[count:]]

    async def _help(self, tasks: Any) -> None:
        self.note("the helper thread does a job")
        self.engine.helper.jobs.popleft()()

    async def _turn(self, tasks: Any) -> None:
        await _turns(1)

    async def _wait(self, tasks: Any) -> None:
        held = self._replays()
        if held:
            record = held[self.choose(len(held))]
            assert record.replay is not None
            wait = Wait(record, record.replay)
            self.waits.append(wait)
            tasks.start_soon(self._wait_for, wait)

    async def _wait_for(self, wait: Wait) -> None:
        record = wait.record
        assert record.run is not None
        try:
            with wait.scope:
                wait.begun = True
                self._read_outputs(record, await wait.replay or ())
        except AsyncJitError as error:
            self.note(f"a wait for statement {record.index} ends with {error!r}")
        finally:
            wait.ended = True
        if wait.scope.cancelled_caught:
            self.note(f"a wait for statement {record.index} is let go: {record.run}")
            assert not wait.shielded or record.run.state in FINISHED, f"{record.run} was to be finished first"

    async def _read(self, tasks: Any) -> None:
        sources = [Source("base", index) for index in range(self.program.bases)]
        source = sources[self.choose(len(sources))]
        tasks.start_soon(self._read_soon, source)

    async def _read_soon(self, source: Source) -> None:
        array = self.stage.bases[source.index]
        try:
            await array
        except DependencyError as error:
            self._note_read(source, error)
            return
        self._read_now(source, array)

    def _read_now(self, source: Source, array: Any) -> None:
        """Between the end of the wait and here nobody has had a turn, so nothing can be pending."""
        try:
            values = self.stage.read(array)
        except AsyncJitError as error:
            self._note_read(source, error)
            return
        self.views.append((values, values.tobytes(), f"the view of {source} that was read as number {len(self.views)}"))
        self._note_read(source, values.copy())

    def _note_read(self, source: Source, found: Any) -> None:
        where = f"reading {source.of} {source.index} part {source.part}, after {len(self.order)} entries,"
        self.lines.append((where, found))
        self.order.append(Read(source, found, where))

    def _read_outputs(self, record: Record, outputs: Sequence[Array]) -> None:
        for part, array in enumerate(outputs if record.statement.shapes else ()):
            # A later statement may be writing into it: then this is no time to read.
            try:
                values = self.stage.read(array)
            except WouldBlockError:
                continue
            except AsyncJitError as error:
                self._note_read(Source("output", record.index, part), error)
                continue
            self._note_read(Source("output", record.index, part), values.copy())

    async def _disturb(self, tasks: Any) -> None:
        kind = self.choose(8)
        waiting = [wait for wait in self.waits if wait.begun and not wait.ended]
        records = self._replays()
        if kind >= 4 and waiting:
            self._cancel_wait(waiting[self.choose(len(waiting))])
            if kind >= 6:
                await _turns(TURNS)
        elif kind >= 2 and records:
            record = records[self.choose(len(records))]
            record.cancels += 1
            assert record.replay is not None
            self.note(f"statement {record.index} is cancelled: {record.replay.cancel()}")
        elif kind == 1 and records:
            # Nobody holds it any more; what it does goes on.
            record = records[self.choose(len(records))]
            record.replay, record.arrays = None, None
            record.replays.clear()

    def _cancel_wait(self, wait: Wait) -> None:
        record, run = wait.record, wait.record.run
        assert run is not None
        body = self.program.bodies[record.statement.body]
        is_call = record.statement.kind == "call"
        wait.shielded = run.state in STARTED and is_call and not body.is_pure and body.on_cancel == "shield"
        record.cancels += 1
        self.note(f"a wait for statement {record.index} is cancelled: {run}")
        wait.scope.cancel()

    # Judging it.

    def finish(self) -> None:
        """Outside of the loop: read what there is to read, close the engine, and have all of it judged.

        Raises:
            AssertionError: something is not as in the serial run.
        """
        for index, array in enumerate(self.stage.bases):
            self._read_now(Source("base", index), array)
        for record in [each for each in self._taken() if each.arrays is not None]:
            for part, array in enumerate(record.arrays or ()):
                self._read_now(Source("output", record.index, part), array)
        self.engine.close(10.0)
        self._raise_violations()
        self.engine._scheduler.verify()
        for each in self.order:
            if isinstance(each, Record):
                self.oracle.play(each)
            else:
                self.oracle.check_read(each.source, each.found, each.where)
        for values, content, what in self.views:
            assert values.tobytes() == content, f"{what} has changed"


WEIGHTS = {"_perform": 4, "_step": 6, "_help": 1, "_wait": 2, "_turn": 2, "_read": 1, "_disturb": 2}


async def _turns(count: int) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()
