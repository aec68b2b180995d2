"""How late a 1 ms ticker wakes while replays keep the device full, against an idle loop, in the same run."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp
from benchmarks._measure import lateness_ms, percentile

SECONDS = 4.0
IN_FLIGHT = 4


def run() -> dict[str, object]:
    return asyncio.run(_run())


async def _run() -> dict[str, object]:
    loads = {
        "100 tiny kernels": (_chain(100), np.ones(16, np.float32)),
        "100 kernels of 1e5 floats": (_chain(100), np.ones(100_000, np.float32)),
        "4 matmuls of 512": (_matmuls(4), np.full((512, 512), 1 / 512, np.float32)),
    }
    rows = []
    for name, (function, host) in loads.items():
        x = anp.asarray(host)
        await function.prepare(aj.spec(host.shape, "float32"))
        await function(x)
        idle = await lateness_ms(SECONDS / 2)
        stop = asyncio.Event()
        tasks = [asyncio.create_task(_keep_busy(function, x, stop)) for _ in range(IN_FLIGHT)]
        busy = await lateness_ms(SECONDS)
        stop.set()
        await asyncio.gather(*tasks)
        rows.append(
            {
                "load": name,
                "idle_p99_ms": round(percentile(idle, 0.99), 3),
                "busy_p99_ms": round(percentile(busy, 0.99), 3),
                "busy_p50_ms": round(percentile(busy, 0.5), 3),
            }
        )
    return {"rows": rows}


async def _keep_busy(function: Any, x: Any, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await function(x)


def _chain(kernels: int) -> Any:
    @aj.jit
    def chain(x: Any) -> Any:
        step = x
        for _ in range(kernels):
            x = anp.maximum(x, step)
        return x

    return chain


def _matmuls(count: int) -> Any:
    @aj.jit
    def product(x: Any) -> Any:
        y = x
        for _ in range(count):
            y = y @ x
        return y

    return product
