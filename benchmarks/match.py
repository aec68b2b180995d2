"""What it costs to find the capture for a call: 2 to 50 arrays of 16 floats, positional."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial, reduce
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp
from benchmarks._measure import interleaved, per_call_us

ARRAYS = (2, 5, 15, 50)
ROUNDS = 25
CALLS = 2000


def run() -> dict[str, object]:
    return asyncio.run(_run())


async def _run() -> dict[str, object]:
    cases: list[Callable[[], Awaitable[float]]] = []
    for count in ARRAYS:
        arrays = [anp.asarray(np.full(16, index, np.float32)) for index in range(count)]
        function = _sum_of(count)
        await function(*arrays)
        assert function.match(*arrays) is not None
        cases.append(_sample(partial(function.match, *arrays)))
    medians = await interleaved(cases, ROUNDS)
    rows = [{"arrays": count, "match_us": round(us, 2)} for count, us in zip(ARRAYS, medians, strict=True)]
    return {"rows": rows}


def _sum_of(count: int) -> Any:
    names = ", ".join(f"a{index}" for index in range(count))
    scope: dict[str, Any] = {"add": anp.add, "reduce": reduce}
    exec(f"def total({names}):\n    return reduce(add, [{names}])", scope)
    return aj.jit(scope["total"])


def _sample(call: Callable[[], object]) -> Callable[[], Awaitable[float]]:
    async def sample() -> float:
        return per_call_us(call, CALLS)

    return sample
