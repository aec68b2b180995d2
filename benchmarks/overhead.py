"""What the engine adds to a chain of tiny kernels: replays of 1 to 1,000 additions of 16 floats, against bare NumPy
calls.

``engine_us_per_kernel`` and ``numpy_us_per_kernel`` are slopes between 100 and 1,000 kernels. The lower bound of the
first is the second: the executor makes the same NumPy calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp
from benchmarks._measure import interleaved

KERNELS = (1, 10, 100, 1000)
ROUNDS = 15


def run() -> dict[str, object]:
    return asyncio.run(_run())


async def _run() -> dict[str, object]:
    host = np.ones(16, np.float32)
    x, step = anp.asarray(host), anp.asarray(host)
    cases: list[Callable[[], Awaitable[float]]] = []
    for kernels in KERNELS:
        chain = _chain(kernels)
        await chain.prepare(aj.spec((16,)), aj.spec((16,)))
        cases.append(_replays(chain, x, step, max(1, 2000 // kernels)))
        cases.append(_bare(kernels, host, max(1, 2000 // kernels)))
        cases.extend(_tinyjit(kernels))
    medians = await interleaved(cases, ROUNDS)
    width = len(cases) // len(KERNELS)
    rows: list[dict[str, float]] = []
    for index, kernels in enumerate(KERNELS):
        row = {"kernels": kernels, "replay_us": medians[index * width], "numpy_us": medians[index * width + 1]}
        if width > 2:
            row["tinyjit_us"] = medians[index * width + 2]
        rows.append(row)
    slope = {
        name: (rows[-1][name] - rows[-2][name]) / (KERNELS[-1] - KERNELS[-2]) for name in ("replay_us", "numpy_us")
    }
    return {
        "engine_us_per_kernel": round(slope["replay_us"], 3),
        "numpy_us_per_kernel": round(slope["numpy_us"], 3),
        "rows": [{name: round(value, 2) for name, value in row.items()} for row in rows],
    }


def _chain(kernels: int) -> Any:
    @aj.jit
    def chain(x: Any, step: Any) -> Any:
        for _ in range(kernels):
            x = anp.add(x, step)
        return x

    return chain


def _replays(chain: Any, x: Any, step: Any, count: int) -> Callable[[], Awaitable[float]]:
    async def sample() -> float:
        start = time.perf_counter()
        for _ in range(count):
            await chain(x, step)
        return (time.perf_counter() - start) / count * 1e6

    return sample


def _bare(kernels: int, host: np.ndarray[Any, Any], count: int) -> Callable[[], Awaitable[float]]:
    buffers = [host.copy(), host.copy()]

    async def sample() -> float:
        add, step = np.add, host
        start = time.perf_counter()
        for _ in range(count):
            for index in range(kernels):
                add(buffers[index & 1], step, buffers[~index & 1])
        return (time.perf_counter() - start) / count * 1e6

    return sample


def _tinyjit(kernels: int) -> list[Callable[[], Awaitable[float]]]:
    """The same chain under tinygrad's TinyJit, where tinygrad is installed."""
    try:
        import tinygrad
    except ImportError:
        return []

    @tinygrad.TinyJit
    def chain(x: Any, step: Any) -> Any:
        for _ in range(kernels):
            x = (x + step).contiguous()
        return x.realize()

    x, step = (tinygrad.Tensor(np.ones(16, np.float32)).realize() for _ in range(2))
    for _ in range(3):
        chain(x, step)

    async def sample() -> float:
        count = max(1, 200 // kernels)
        start = time.perf_counter()
        for _ in range(count):
            chain(x, step)
        return (time.perf_counter() - start) / count * 1e6

    return [sample]
