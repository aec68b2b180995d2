"""64 replays at once, 1,000 times, each with inputs of its own, beside a state that every one of them counts up.

``wrong`` counts results that differ, bit for bit, from a serial run in ticket order.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp

AT_ONCE = 64
ROUNDS = 1000


def run() -> dict[str, object]:
    return asyncio.run(_run())


async def _run() -> dict[str, object]:
    rng = np.random.default_rng(7)
    inputs = rng.integers(-1000, 1000, (AT_ONCE, 32, 32)).astype(np.int64)
    weights = rng.integers(-10, 10, (32, 32)).astype(np.int64)
    w = anp.asarray(weights)
    calls_seen = anp.zeros((), dtype="int64")

    @aj.jit(in_flight_max=8)
    def step(x: Any) -> Any:
        left = (x @ w) + x
        right = (x * 3 - 1) @ w
        calls_seen[...] = calls_seen + 1
        return left - right, left.sum(axis=0), calls_seen + 0

    expected = [_serial(x, weights) for x in inputs]
    arrays = [anp.asarray(x) for x in inputs]
    wrong = 0
    seen = 0
    for round_index in range(ROUNDS):
        order = rng.permutation(AT_ONCE)
        replays = [step(arrays[index]) for index in order]
        results = await asyncio.gather(*replays)
        by_ticket = sorted(zip(replays, order, results, strict=True), key=lambda entry: entry[0].ticket)
        for _, index, (difference, total, count) in by_ticket:
            seen += 1
            right = (
                np.array_equal(np.asarray(difference), expected[index][0])
                and np.array_equal(np.asarray(total), expected[index][1])
                and int(count) == seen
            )
            wrong += not right
        assert round_index < ROUNDS
    return {"replays": AT_ONCE * ROUNDS, "wrong": wrong}


def _serial(x: np.ndarray[Any, Any], w: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    left = (x @ w) + x
    right = (x * 3 - 1) @ w
    return left - right, left.sum(axis=0)
