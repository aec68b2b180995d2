"""What a symbolic size costs: one decoding step with its position as a variable, and as a plain integer.

``captures`` of the symbolic function after 100 values; ``us_per_replay_fixed`` of a function captured for each of two
positions, which it then replays; ``us_per_replay_symbolic`` of the one capture, at the same positions. Both take the
same arguments and are awaited one by one.
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

ROUNDS = 15
CALLS = 300
ROWS, WIDTH = 128, 64
POSITIONS = (31, 127)


def step(cache: anp.Array, weights: anp.Array, x: anp.Array, n: Any) -> anp.Array:
    """One query against all rows so far: write the row, score, weigh, project."""
    cache[n : n + 1] = x
    seen = cache[: n + 1]
    scores = x @ seen.T / 8
    weighed = anp.exp(scores - anp.max(scores))
    mixed = (weighed / anp.sum(weighed)) @ seen
    hidden = anp.maximum(mixed @ weights, 0)
    return hidden / (anp.mean(hidden) + 1)


def run() -> dict[str, object]:
    return asyncio.run(_run())


async def _run() -> dict[str, object]:
    rng = np.random.default_rng(0)
    cache, weights, x = (
        anp.asarray(rng.standard_normal(shape)) for shape in ((ROWS, WIDTH), (WIDTH, WIDTH), (1, WIDTH))
    )
    fixed, symbolic = aj.jit(step), aj.jit(step)
    position = aj.Variable("position", 0, ROWS - 1)
    for n in range(100):
        await symbolic(cache, weights, x, position.bind(n))
    for n in POSITIONS:
        await fixed(cache, weights, x, n)
        await symbolic(cache, weights, x, position.bind(n))
    medians = await interleaved(
        [
            _sample(lambda n: fixed(cache, weights, x, n), POSITIONS),
            _sample(lambda n: symbolic(cache, weights, x, n), [position.bind(n) for n in POSITIONS]),
        ],
        ROUNDS,
    )
    return {
        "captures": len(symbolic.captures),
        "us_per_replay_fixed": round(medians[0], 1),
        "us_per_replay_symbolic": round(medians[1], 1),
        "ratio": round(medians[1] / medians[0], 2),
    }


def _sample(call: Callable[[int], Awaitable[Any]], positions: Any) -> Callable[[], Awaitable[float]]:
    async def sample() -> float:
        start = time.perf_counter()
        for index in range(CALLS):
            await call(positions[index % len(positions)])
        return (time.perf_counter() - start) / CALLS * 1e6

    return sample
