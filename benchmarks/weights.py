"""What a call costs that reads 200 weights, against one that reads 2: the same 200 additions, weights taken in turn.

``ratio`` is that of the two replays, awaited one at a time; 1.0 is the bound, since the kernels are the same.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp
from benchmarks._measure import interleaved

WEIGHTS = (2, 200)
KERNELS = 200
ROUNDS = 41
CALLS = 50


def run() -> dict[str, object]:
    return asyncio.run(_run())


async def _run() -> dict[str, object]:
    x = anp.asarray(np.ones(16, np.float32))
    cases: list[Callable[[], Awaitable[float]]] = []
    for count in WEIGHTS:
        function = _reader(count)
        await function.prepare(aj.spec((16,)))
        cases.append(_sample(function, x))
    medians = await interleaved(cases, ROUNDS)
    rows = [{"weights": count, "replay_us": round(us, 1)} for count, us in zip(WEIGHTS, medians, strict=True)]
    return {"ratio": round(medians[1] / medians[0], 3), "rows": rows}


def _reader(count: int) -> Any:
    weights = [anp.asarray(np.full(16, index, np.float32)) for index in range(count)]

    @aj.jit
    def total(x: Any) -> Any:
        for index in range(KERNELS):
            x = anp.add(x, weights[index % count])
        return x

    return total


def _sample(function: Any, x: Any) -> Callable[[], Awaitable[float]]:
    async def sample() -> float:
        taken = []
        for _ in range(CALLS):
            start = time.perf_counter()
            await function(x)
            taken.append((time.perf_counter() - start) * 1e6)
        return statistics.median(taken)

    return sample
