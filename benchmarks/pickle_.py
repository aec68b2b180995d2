"""What a captured model weighs as a pickle, and how long it takes to make one and to read it back.

A perceptron of 784, 512, 512 and 10 units in float32, captured for two batch sizes, lowered beforehand. ``bytes`` is to
be ``weight_bytes`` and little more: weights are stored once, however many captures read them. Loading needs no tracing
and no lowering; the first replay of what was loaded is compared with the original's, bit by bit.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp

UNITS = (784, 512, 512, 10)
ROWS = (1, 32)
ROUNDS = 15


def run() -> dict[str, object]:
    rng = np.random.default_rng(0)
    shapes = list(itertools.pairwise(UNITS))
    weights = [anp.asarray(rng.standard_normal(shape, np.float32) / 30) for shape in shapes]
    biases = [anp.asarray(np.zeros(shape[1], np.float32)) for shape in shapes]

    @aj.jit
    def classify(x: Any) -> Any:
        for weight, bias in zip(weights, biases, strict=True):
            x = anp.maximum(x @ weight + bias, 0)
        return x

    for rows in ROWS:
        asyncio.run(classify.prepare(aj.spec((rows, UNITS[0]))))
    dump_ms, data = timed(lambda: pickle.dumps(classify))
    load_ms, loaded = timed(lambda: pickle.loads(data))
    for rows in ROWS:
        x = rng.standard_normal((rows, UNITS[0]), np.float32)
        if not np.array_equal(np.asarray(classify.run(x)), np.asarray(loaded.run(x))):
            raise AssertionError("what was loaded gives another result")
    return {
        "dump_ms": round(dump_ms, 2),
        "load_ms": round(load_ms, 2),
        "bytes": len(data),
        "weight_bytes": sum(array.nbytes for array in (*weights, *biases)),
        "captures": len(loaded.captures),
    }


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    """Median milliseconds of ``act``, and what it gave last."""
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        result = act()
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken), result
