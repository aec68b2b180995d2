"""One soak run in virtual time: statements, device steps, waits, cancellations and reads in an order that is chosen.

Law: what happens next comes from ``choices``; what came of it is judged by ``oracle``. One event loop; where another
thread has to block, this one blocks until it has ended or has said how far it is.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel

from asyncjit.errors import AsyncJitError
from asyncjit.testing.soak.choices import Choices
from asyncjit.testing.soak.flows import FlowRun, RowsCall
from asyncjit.testing.soak.program import Program
from asyncjit.testing.soak.simulation import SimulatedEngine, loops_paced_by
from asyncjit.testing.soak.stage import Stage
from asyncjit.testing.soak.watch import Task, Wait, Watch

__all__ = ["Play"]

#: Turns of the loop after which whoever was woken has run; and after which a flow has gone on.
TURNS, FLOW_TURNS = 4, 25

#: Only ever reached by a run that fails.
PATIENCE_S = 60.0

WEIGHTS = {"_perform": 4, "_step": 6, "_help": 1, "_wait": 2, "_turn": 2, "_read": 1, "_disturb": 2}

Action = Callable[[Any], Awaitable[None]]


class Play:
    """Plays a program. ``lines`` is what happened, to be read by people; ``oracle`` holds the outcomes."""

    def __init__(self, program: Program, choices: Choices, *, verifies: bool = True) -> None:
        self.program = program
        self.choose = choices.choose
        self.engine = SimulatedEngine(program, verifies=verifies)
        self.stage = Stage(program, self.engine, [device.name for device in self.engine.simulated])
        self.watch = Watch(self.stage)
        self.stage.enlist = self.watch.enlist
        self.lines = self.watch.lines
        self.oracle = self.watch.oracle
        self.next = 0
        self._closing: threading.Thread | None = None
        #: What ended the run before its time; what tasks raise after that counts for nothing.
        self.failure: BaseException | None = None

    # What can happen.

    async def run(self) -> None:
        """Let things happen until nothing can; then everybody who waits has been woken, and the engine is idle.

        Raises:
            AssertionError: somebody waits for ever.
        """
        try:
            with loops_paced_by(self.engine.clock):
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
                while (action := await self._next_action()) is not None:
                    await action(tasks)
                    self._raise_violations()
                    self._end_closing()
                self.watch.check_idle(self.engine)
            except BaseException as error:
                self.failure = error if isinstance(error, Exception) else None
                self.watch.give_up()
                if self.engine._idle is not None:
                    self.engine._idle.signal()
                raise
            finally:
                tasks.cancel_scope.cancel()

    def _raise_violations(self) -> None:
        for violation in self.engine._scheduler.violations:
            raise violation

    async def _next_action(self) -> Action | None:
        """What happens next; None when nothing can any more, however often the loop turns."""
        possible = self._possible()
        if not possible:
            tasks = self.watch.waiting()
            flows = sum(not isinstance(task, Wait) for task in tasks)
            await _turns(TURNS * (2 + len(tasks)) + FLOW_TURNS * flows)
            possible = self._possible()
            if not possible:
                return None
        if self.stage.records:
            possible += [self._wait, self._turn, self._read, self._disturb]
        weighted = [each for each in possible for _ in range(WEIGHTS.get(each.__name__, 1))]
        return weighted[self.choose(len(weighted))]

    def _possible(self) -> list[Action]:
        possible: list[Action] = []
        if self.next < len(self.program.statements):
            possible.append(self._perform)
        if self.engine.busy:
            possible.append(self._step)
        if self.engine.helper.jobs:
            possible.append(self._help)
        return possible

    # Making it happen.

    async def _perform(self, tasks: Any) -> None:
        index, self.next = self.next, self.next + 1
        statement = self.program.statements[index]
        match statement.kind:
            case "flow":
                run = FlowRun(self.stage, index, self.watch.read_outputs)
                self._start(tasks, Task(f"flow {index}", run), run.run)
            case "rows":
                call = RowsCall(self.stage, index)
                self._start(tasks, Task(f"call {index} of rows", call), lambda: call.run(self.watch.note_read))
            case "reload":
                self._reload(index)
            case "settle":
                while self._pump():
                    pass
            case "close":
                self._close(statement.n == 0)
            case _ if statement.by is not None:
                # A flow has it made, or has not come to it.
                return
            case _:
                self._carry_out(index)

    def _start(self, tasks: Any, task: Task, work: Callable[[], Awaitable[None]]) -> None:
        self.watch.note(f"{task.what} begins: {self.program.statements[task.run.index]}")
        self.watch.tasks.append(task)
        tasks.start_soon(self._in_scope, task, work)

    async def _in_scope(self, task: Task, work: Callable[[], Awaitable[None]]) -> None:
        with task.scope:
            task.begun = True
            await work()

    def _carry_out(self, index: int) -> None:
        record = self.stage.perform(index)
        if record is None:
            self.watch.note(f"statement {index} is left out: an array of it does not exist")
            return
        self.watch.enlist(record)
        if record.run is not None and record.refusal is None:
            self.watch.check_ticket(record)

    async def _step(self, tasks: Any) -> None:
        devices = self.engine.busy
        device = devices[self.choose(len(devices))]
        count = len(device.trace)
        device.step()
        self.lines += [(device.name, entry) for entry in device.trace[count:]]

    async def _help(self, tasks: Any) -> None:
        self.watch.note("the helper thread does a job")
        self.engine.helper.jobs.popleft()()

    async def _turn(self, tasks: Any) -> None:
        await _turns(1)

    async def _wait(self, tasks: Any) -> None:
        held = self.watch.held()
        if held:
            record = held[self.choose(len(held))]
            assert record.replay is not None
            wait = Wait(record, record.replay)
            self.watch.tasks.append(wait)
            tasks.start_soon(self.watch.wait_for, wait)

    async def _read(self, tasks: Any) -> None:
        sources = self.watch.readable()
        tasks.start_soon(self.watch.read_soon, sources[self.choose(len(sources))])

    async def _disturb(self, tasks: Any) -> None:
        kind = self.choose(8)
        # Tasks that make calls live long; if they were cancelled as often as waits, hardly one would come to its end.
        waiting = [task for task in self.watch.waiting() if task.begun and (kind == 7 or isinstance(task, Wait))]
        records = self.watch.held()
        if kind >= 4 and waiting:
            self.watch.cancel(waiting[self.choose(len(waiting))])
            if kind >= 6:
                await _turns(TURNS)
        elif kind >= 2 and records:
            record = records[self.choose(len(records))]
            record.cancels += 1
            assert record.replay is not None
            self.watch.note(f"statement {record.index} is cancelled: {record.replay.cancel()}")
        elif kind == 1 and records:
            # Nobody holds it any more; what it does goes on.
            record = records[self.choose(len(records))]
            record.replay, record.arrays = None, None
            record.replays.clear()

    # On other threads.

    def _reload(self, index: int) -> None:
        """Save and load, which block: whatever has to happen for that happens meanwhile, and nobody has a turn."""
        record = self.stage.begin(index)
        errors: list[BaseException] = []

        def work() -> None:
            try:
                self.stage.reload()
            except BaseException as error:
                errors.append(error)

        self.engine.pump = self._pump
        try:
            thread = threading.Thread(target=work, name="soak-reload", daemon=True)
            thread.start()
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), f"saving waits for ever: {self.engine.story()[-40:]}"
        finally:
            self.engine.pump = None
        record.refusal = errors[0] if errors else None
        if not isinstance(record.refusal, AsyncJitError | None):
            raise record.refusal
        self.watch.enlist(record)

    def _pump(self) -> bool:
        if devices := self.engine.busy:
            return devices[self.choose(len(devices))].step()
        if self.engine.helper.jobs:
            self.engine.helper.jobs.popleft()()
            return True
        return False

    def _close(self, with_time: bool) -> None:
        """Close the engine, with all the time for what was taken, or with none."""
        self.watch.note(f"the engine is closed, {'with all the time' if with_time else 'at once'}")
        self.oracle.is_closed, self.oracle.is_cut_short = True, not with_time
        limit_s = PATIENCE_S if with_time else 0.0
        self._closing = threading.Thread(target=self.engine.close, args=(limit_s,), name="soak-close", daemon=True)
        self._closing.start()
        assert self.engine._scheduler.closing.wait(PATIENCE_S)
        self._end_closing()

    def _end_closing(self) -> None:
        """Where the closing has what it waited for, let it end before anything else happens."""
        idle = self.engine._idle
        if self._closing is not None and idle is not None and (idle.done or self.oracle.is_cut_short):
            self._closing.join(PATIENCE_S)
            assert not self._closing.is_alive(), f"closing waits for ever: {self.engine.story()[-40:]}"

    def finish(self) -> None:
        """Outside of the loop: read what there is to read, close the engine, and have all of it judged.

        Raises:
            AssertionError: something is not as in the serial run.
        """
        self.watch.read_all()
        self.engine.close(10.0)
        self._raise_violations()
        self.engine._scheduler.verify()
        self.watch.judge()


async def _turns(count: int) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()
