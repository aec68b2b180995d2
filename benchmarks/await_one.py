"""One awaited replay of one tiny kernel with five arrays: inline, through a worker, and ``run_in_executor`` of the
same.

The replay through a worker is one on a device with ``inline_s_max=0``; the executor makes the same NumPy call in a pool
of one thread, in turns with it. Their lower bound is the hop to a thread and back, which both pay.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice
from benchmarks._measure import interleaved

ROUNDS = 25
CALLS = 200


def run() -> dict[str, object]:
    return asyncio.run(_run())


async def _run() -> dict[str, object]:
    hosts = [np.full(16, index, np.float32) for index in range(5)]
    arrays = [anp.asarray(host) for host in hosts]

    @aj.jit
    def inline(a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
        return anp.add(a, b)

    await inline(*arrays)
    [inline_us] = await interleaved([_sample(lambda: inline(*arrays))], ROUNDS)
    out = np.empty(16, np.float32)
    loop = asyncio.get_running_loop()
    async with aj.Engine([CpuDevice(inline_s_max=0)]) as engine:
        away = [anp.asarray(host) for host in hosts]
        await inline(*away)
        with ThreadPoolExecutor(1) as pool:
            worker_us, executor_us = await interleaved(
                [
                    _sample(lambda: inline(*away)),
                    _sample(lambda: loop.run_in_executor(pool, np.add, hosts[0], hosts[1], out)),
                ],
                ROUNDS,
            )
        assert engine.statistics().inline == 0
    return {
        "inline_us": round(inline_us, 2),
        "worker_us": round(worker_us, 2),
        "run_in_executor_us": round(executor_us, 2),
        "worker_ratio": round(worker_us / executor_us, 3),
    }


def _sample(call: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[float]]:
    async def sample() -> float:
        start = time.perf_counter()
        for _ in range(CALLS):
            await call()
        return (time.perf_counter() - start) / CALLS * 1e6

    return sample
