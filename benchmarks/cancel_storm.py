"""Thousands of replays, pure, stateful and batched, queued and running, with cancellations at random awaits.

Every replay that was not removed counts in a serial run in ticket order; ``wrong`` counts results that differ from it,
bit for bit, and totals that do. ``leaked_bytes`` is what the engine holds more after all of it than after the first
wave, when everybody has let go and idle frames are freed; ``leaked_threads`` are left when the engine is closed.
"""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice

REPLAYS = 6_000
WAVE = 60
SEED = 7
SIZE = 64

#: What a thread that was told to end may take.
ENDING_S = 5.0

#: Turns of the loop until a call is cancelled, at most; those that are not cancelled in time just end.
TURNS_MAX = 12


def run(replays: int | None = None) -> dict[str, object]:
    before = set(threading.enumerate())
    figures = asyncio.run(_run(REPLAYS if replays is None else replays))
    left = set(threading.enumerate()) - before
    for thread in left:
        # Told to end, and about to.
        thread.join(ENDING_S)
    return {**figures, "leaked_threads": sum(thread.is_alive() for thread in left)}


class _Storm:
    """Functions over one shared state, and what became of their calls."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.cancelled = 0
        self.wrong = 0
        self.total = 0
        self.state = total = anp.zeros(SIZE, dtype="int64")

        @aj.jit(in_flight_max=2)
        def pure(x: Any) -> Any:
            return (x * 3 - 1) @ x.T

        @aj.jit(in_flight_max=1)
        def add(x: Any) -> Any:
            total[...] = total + x
            return total + 0

        @aj.jit
        def rows(x: Any) -> Any:
            return x * x + 1

        self.pure, self.add = pure, add
        self.batched = rows.batched(16, 0.001)

    async def wave(self, count: int) -> None:
        """Calls of all kinds at once, every other one cancelled somewhere."""
        adds: list[tuple[Any, int]] = []
        tasks = []
        for _ in range(count):
            value = self.dice.randrange(1000)
            kind = self.dice.choice((self._pure, self._add, self._rows))
            tasks.append(asyncio.create_task(kind(value, adds)))
            if self.dice.random() < 0.5:
                tasks.append(asyncio.create_task(self._cancel(tasks[-1], self.dice.randrange(TURNS_MAX))))
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, asyncio.CancelledError):
                self.cancelled += 1
            elif isinstance(outcome, BaseException):
                raise outcome
        await self._judge(adds)

    async def held_bytes(self, engine: aj.Engine) -> int:
        """What the engine holds besides idle frames, once replays that nobody waits for any more have ended."""
        while True:
            # Once at least: the turn that woke this task still holds what it was woken with.
            await asyncio.sleep(0.001)
            statistics = engine.statistics()
            if not statistics.in_flight and not statistics.queued:
                break
        gc.collect()
        for function in (self.pure, self.add, self.batched.function):
            function.free_intermediates()
        return engine.statistics().memory_bytes

    async def _cancel(self, task: asyncio.Task[None], turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()

    async def _judge(self, adds: list[tuple[Any, int]]) -> None:
        """Replays of ``add`` in ticket order: each gives the sum of those before it that were not removed."""
        for replay, value in sorted(adds, key=lambda entry: int(entry[0].ticket)):
            try:
                result = await replay
            except aj.ReplayCancelledError:
                continue
            self.total += value
            self._check(result, np.full(SIZE, self.total))
        self._check(await self.state, np.full(SIZE, self.total))

    def _check(self, result: Any, expected: np.ndarray[Any, Any]) -> None:
        self.wrong += not np.array_equal(np.asarray(result), expected)

    async def _pure(self, value: int, _: list[tuple[Any, int]]) -> None:
        x = np.arange(SIZE * 4).reshape(SIZE, 4) + value
        self._check(await self.pure(x), (x * 3 - 1) @ x.T)

    async def _add(self, value: int, adds: list[tuple[Any, int]]) -> None:
        replay = self.add(np.full(SIZE, value))
        adds.append((replay, value))
        await replay

    async def _rows(self, value: int, _: list[tuple[Any, int]]) -> None:
        x = np.full((1 + value % 3, SIZE), value)
        self._check(await self.batched(x), x * x + 1)


async def _run(replays: int) -> dict[str, object]:
    # Nothing runs inline, so that there is something to cancel.
    async with aj.Engine([CpuDevice(inline_s_max=0)]) as engine:
        storm = _Storm(SEED)
        await storm.batched.prepare(aj.spec((1, SIZE), "int64"))
        await storm.wave(WAVE)
        held = await storm.held_bytes(engine)
        for _ in range(max(1, replays // WAVE)):
            await storm.wave(WAVE)
        leaked = await storm.held_bytes(engine) - held
    return {
        "replays": engine.statistics().tickets,
        "cancelled": storm.cancelled,
        "leaked_bytes": leaked,
        "wrong": storm.wrong,
    }
