"""The same programs on real threads: workers of cpu devices, and several threads that call, each with its own loop.

Law: nothing is decided here but by the machine, so a seed that fails may do well the next time. Who calls what, which
waits are cut short and how long kernels sleep follows from the seed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.abc
import numpy as np

from asyncjit.devices.cpu import INLINE_S_MAX, CpuDevice
from asyncjit.errors import AsyncJitError
from asyncjit.numpy import Array
from asyncjit.testing.soak.choices import SeededChoices
from asyncjit.testing.soak.flows import FlowRun, RowsCall
from asyncjit.testing.soak.generate import generate_program
from asyncjit.testing.soak.oracle import Oracle
from asyncjit.testing.soak.program import Program, Source
from asyncjit.testing.soak.records import Read, Record
from asyncjit.testing.soak.stage import Recording, Stage

__all__ = ["play_threads"]

#: Only ever reached by a run that fails.
PATIENCE_S = 60.0


def play_threads(seed: int, *, threads: int = 3, length_max: int = 30) -> Counter[str]:
    """One soak run on cpu devices; returns how many statements ended how.

    Raises:
        AssertionError: something is not as in the serial run in the order of the tickets, or a thread does not end.
    """
    choices = SeededChoices(seed)
    workers, is_inline = 2 + choices.choose(3), bool(choices.choose(2))
    program = generate_program(choices, threads=threads, length_max=length_max)
    devices = [
        CpuDevice(f"cpu:{index}", workers=workers, inline_s_max=INLINE_S_MAX if is_inline else 0.0)
        for index in range(len(program.devices))
    ]
    engine = Recording(devices, replays_queued_max=program.replays_queued_max)
    try:
        run = _Run(program, engine, [choices.choose(1 << 16) for _ in range(threads)])
        run.join()
        # What nobody waits for any more, such as batches whose callers have left, is to end too.
        engine.close(PATIENCE_S)
        run.judge()
    except BaseException as error:
        command = f"python -m asyncjit.testing soak --device cpu --first {seed} --seeds 1"
        error.add_note(f"seed {seed} on threads; again: {command}")
        raise
    finally:
        engine.close(PATIENCE_S)
    return run.oracle.outcomes


class _Run:
    def __init__(self, program: Program, engine: Recording, seeds: list[int]) -> None:
        self.program = program
        names = [f"cpu:{index}" for index in range(len(program.devices))]
        self.stage = Stage(program, engine, names, has_own_engine=False)
        self.oracle = Oracle(program)
        self.errors: list[BaseException] = []
        #: Judged behind the statement of which they are.
        self.reads: list[Read] = []
        self.flows: list[FlowRun] = []
        self.rows: list[RowsCall] = []
        self.threads = [
            threading.Thread(target=self._work, args=(index, seed), name=f"soak-{index}", daemon=True)
            for index, seed in enumerate(seeds)
        ]
        for thread in self.threads:
            thread.start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), f"{thread.name} waits for ever: {self.stage.engine.story()[-40:]}"
        if self.errors:
            raise self.errors[0]

    def _work(self, thread: int, seed: int) -> None:
        try:
            anyio.run(self._script, thread, SeededChoices(seed))
        except BaseException as error:
            self.errors.append(error)

    async def _script(self, thread: int, choices: SeededChoices) -> None:
        records: list[Record] = []
        async with anyio.create_task_group() as tasks:
            for index, statement in enumerate(self.program.statements):
                if statement.thread == thread and statement.by is None:
                    record = await self._perform(index, tasks, choices)
                    if record is not None and record.run is not None:
                        records.append(record)
                        if choices.choose(3) == 0:
                            await self._await(record, choices.choose(400) * 1e-6)
            for record in records:
                await self._await(record, PATIENCE_S)

    async def _perform(self, index: int, tasks: anyio.abc.TaskGroup, choices: SeededChoices) -> Record | None:
        statement = self.program.statements[index]
        match statement.kind:
            case "flow":
                flow = FlowRun(self.stage, index, self._seen, threads=True)
                self.flows.append(flow)
                tasks.start_soon(flow.run)
            case "rows":
                call = RowsCall(self.stage, index)
                self.rows.append(call)
                tasks.start_soon(self._limited, call, choices.choose(4) * 200e-6 or PATIENCE_S)
            case "settle":
                for record in list(self.stage.records.values()):
                    if record.statement.thread == statement.thread and record.replay is not None:
                        await self._await(record, PATIENCE_S)
            case "close":
                self.oracle.is_closed, self.oracle.is_cut_short = True, statement.n != 0
                await self.stage.engine.aclose(0.0 if statement.n else PATIENCE_S)
            case _:
                return self.stage.perform(index)
        return None

    async def _limited(self, call: RowsCall, limit_s: float) -> None:
        with anyio.move_on_after(limit_s):
            await call.run(self.reads.append)

    async def _await(self, record: Record, limit_s: float) -> None:
        replay = record.replay
        assert replay is not None
        if record.statement.kind == "eager":
            for array in record.outputs():
                await self._read(record, [array])
            return
        with anyio.move_on_after(limit_s) as scope:
            try:
                outputs = await replay
            except AsyncJitError:
                return
            if record.statement.shapes:
                await self._read(record, outputs)
        if scope.cancelled_caught:
            record.cancels += 1

    async def _read(self, record: Record, arrays: Sequence[Array]) -> None:
        try:
            for array in arrays:
                await array
        except AsyncJitError:
            return
        self._seen(record, arrays)

    def _seen(self, record: Record, arrays: Sequence[Any]) -> None:
        """Read what was awaited, into which no thread writes."""
        try:
            found = [self.stage.read(array).copy() for array in arrays]
        except AsyncJitError:
            return
        where = f"statement {record.index}"
        self.reads += [Read(Source("output", record.index, part), values, where) for part, values in enumerate(found)]

    def judge(self) -> None:
        """Play what happened in the order of the tickets."""
        self._excuse()
        reads: dict[int, list[Read]] = {}
        for read in self.reads:
            reads.setdefault(read.source.index, []).append(read)
        records = [record for record in self.stage.records.values() if record.run is not None]
        for record in sorted(records, key=lambda record: record.run.ticket if record.run else 0):
            self.oracle.judge(record)
            for read in reads.get(record.index, ()):
                self.oracle.check_read(read)
        arrays = {Source("base", index): base for index, base in enumerate(self.stage.now.bases)}
        arrays |= {Source("generator", index): each.state for index, each in enumerate(self.stage.now.generators)}
        for source, array in arrays.items():
            try:
                found: np.ndarray | BaseException = self.stage.read(array)
            except AsyncJitError as error:
                found = error
            self.oracle.check_read(Read(source, found, f"{source} in the end"))

    def _excuse(self) -> None:
        for flow in self.flows:
            for record in flow.records:
                record.cancels += flow.is_cut
        for call in self.rows:
            for batch in call.batches() if call.is_cancelled else ():
                batch.cancels += 1
