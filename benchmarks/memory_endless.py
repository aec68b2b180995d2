"""A million replays, plain, stateful and batched: does the process grow?

``growth`` is the largest resident size after the warm-up (the first tenth) over the one at its end, less one.
"""

from __future__ import annotations

import asyncio
import gc
import resource
from pathlib import Path
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp

REPLAYS = 1_000_000
SAMPLES = 20

#: Calls that are awaited together.
WAVE = 10

PAGES = Path("/proc/self/statm")


def run(replays: int | None = None) -> dict[str, object]:
    return asyncio.run(_run(REPLAYS if replays is None else replays))


async def _run(replays: int) -> dict[str, object]:
    async with aj.Engine() as engine:
        wave = _waves()
        taken: list[int] = []
        for sample in range(SAMPLES):
            while engine.statistics().tickets < replays * (sample + 1) // SAMPLES:
                await wave()
            gc.collect()
            taken.append(resident_bytes())
        steady = taken[SAMPLES // 10 :]
        return {
            "replays": engine.statistics().tickets,
            "resident_mib_warm": round(steady[0] / 2**20, 2),
            "resident_mib_max": round(max(steady) / 2**20, 2),
            "growth": round(max(steady) / steady[0] - 1, 4),
        }


def _waves() -> Any:
    x, host = anp.ones(64), np.ones((1, 64))
    state = anp.zeros(64)

    @aj.jit
    def pure(x: Any) -> Any:
        return x * 2 + 1

    @aj.jit
    def count(x: Any) -> Any:
        state[...] = state + x
        return state + 0

    batched = pure.batched(8, 0.001)

    async def wave() -> None:
        """A hundred calls, ten of them on host arrays that share batches where they can."""
        for _ in range(4):
            await asyncio.gather(*(pure(x) for _ in range(WAVE)))
            await asyncio.gather(*(count(x) for _ in range(WAVE)))
        await asyncio.gather(*(pure(host) for _ in range(WAVE)), *(batched(host) for _ in range(WAVE)))

    return wave


def resident_bytes() -> int:
    """What the process occupies now; where the system does not say, the most that it ever did."""
    if PAGES.exists():
        return int(PAGES.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
