"""The same programs on real threads: workers of the cpu device, and several threads that call, each with its own loop.

Law: nothing is decided here but by the machine, so a seed that fails may do well the next time. Who calls what, which
waits are cut short and how long kernels sleep follows from the seed.
"""

from __future__ import annotations

import threading
from collections import Counter

import anyio
import numpy as np

from asyncjit.devices.cpu import INLINE_S_MAX, CpuDevice
from asyncjit.errors import AsyncJitError
from asyncjit.numpy import Array
from asyncjit.testing.soak.choices import SeededChoices
from asyncjit.testing.soak.generate import generate_program
from asyncjit.testing.soak.oracle import Oracle
from asyncjit.testing.soak.program import Program, Source
from asyncjit.testing.soak.stage import Record, Recording, Stage

__all__ = ["play_threads"]

#: Only ever reached by a run that fails.
PATIENCE_S = 60.0


def play_threads(seed: int, *, threads: int = 3, length_max: int = 30) -> Counter[str]:
    """One soak run on the cpu device; returns how many statements ended how.

    Raises:
        AssertionError: something is not as in the serial run in the order of the tickets, or a thread does not end.
    """
    choices = SeededChoices(seed)
    workers, is_inline = 2 + choices.choose(3), bool(choices.choose(2))
    program = generate_program(choices, threads=threads, length_max=length_max)
    device = CpuDevice("cpu", workers=workers, inline_s_max=INLINE_S_MAX if is_inline else 0.0)
    engine = Recording([device], replays_queued_max=program.replays_queued_max)
    try:
        run = _Run(program, engine, [choices.choose(1 << 16) for _ in range(threads)])
        run.join()
        run.judge()
    except BaseException as error:
        command = f"python -m asyncjit.testing soak --device cpu --first {seed} --seeds 1"
        error.add_note(f"seed {seed} on threads; again: {command}")
        raise
    finally:
        engine.close(PATIENCE_S)
    return Counter(run.oracle.outcomes)


class _Run:
    def __init__(self, program: Program, engine: Recording, seeds: list[int]) -> None:
        self.program = program
        self.stage = Stage(program, engine, ["cpu"])
        self.oracle = Oracle(program)
        self.errors: list[BaseException] = []
        self.seen: list[tuple[int, list[np.ndarray]]] = []
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
        mine = [index for index, each in enumerate(self.program.statements) if each.thread == thread]
        records = []
        for index in mine:
            record = self.stage.perform(index)
            if record is not None and record.run is not None:
                records.append(record)
                if choices.choose(3) == 0:
                    await self._await(record, choices.choose(400) * 1e-6)
        for record in records:
            await self._await(record, PATIENCE_S)

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

    async def _read(self, record: Record, arrays: list[Array]) -> None:
        try:
            for array in arrays:
                await array
            self.seen.append((record.index, [self.stage.read(array).copy() for array in arrays]))
        except AsyncJitError:
            return

    def judge(self) -> None:
        """Play what happened in the order of the tickets."""
        records = [record for record in self.stage.records.values() if record.run is not None]
        seen = dict(self.seen)
        for record in sorted(records, key=lambda record: record.run.ticket if record.run else 0):
            self.oracle.play(record)
            if record.index in seen:
                self.oracle.check_outputs(record.index, seen[record.index], f"statement {record.index}")
        for index, base in enumerate(self.stage.bases):
            try:
                found: np.ndarray | BaseException = self.stage.read(base)
            except AsyncJitError as error:
                found = error
            self.oracle.check_read(Source("base", index), found, f"base {index} in the end")
