"""Decode token by token with a key-value cache, on one capture for every position.

    python examples/kv_cache.py

A small transformer block attends to all tokens so far. The position is an ``aj.Variable``: the row of the cache that a
step writes, and the rows that it reads, follow from it, so the function is captured once and not once a token. Every
step is compared with the same block computed anew over all tokens, in plain NumPy.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp

TOKENS, WIDTH, HEADS = 128, 32, 4
SIZE = WIDTH // HEADS

position = aj.Variable("position", 0, TOKENS - 1)
rng = np.random.default_rng(0)
query, key, value, out = (rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH) for _ in range(4))


@aj.jit
def step(x: Any, keys: Any, values: Any, weights: Any, n: Any) -> Any:
    """The block for token ``n``; adds its key and value to the caches, which stand in rows by position."""
    w_query, w_key, w_value, w_out = weights
    keys[n] = (x @ w_key).reshape(HEADS, SIZE)
    values[n] = (x @ w_value).reshape(HEADS, SIZE)
    scores = anp.sum(keys[: n + 1] * (x @ w_query).reshape(HEADS, SIZE), axis=-1) / np.sqrt(SIZE)
    weighed = anp.exp(scores - anp.max(scores, axis=0))
    shares = weighed / anp.sum(weighed, axis=0)
    mixed = anp.sum(shares[:, :, None] * values[: n + 1], axis=0)
    return x + mixed.reshape(WIDTH) @ w_out


def anew(tokens: np.ndarray) -> np.ndarray:
    """The block for the last of ``tokens``, without a cache."""
    count = len(tokens)
    keys, values = ((tokens @ weight).reshape(count, HEADS, SIZE) for weight in (key, value))
    asked = (tokens[-1] @ query).reshape(HEADS, SIZE)
    scores = np.sum(keys * asked, axis=-1) / np.sqrt(SIZE)
    weighed = np.exp(scores - scores.max(axis=0))
    mixed = np.sum((weighed / weighed.sum(axis=0))[:, :, None] * values, axis=0)
    return tokens[-1] + mixed.reshape(WIDTH) @ out


async def main() -> None:
    tokens = rng.standard_normal((TOKENS, WIDTH))
    keys, values = anp.zeros((TOKENS, HEADS, SIZE)), anp.zeros((TOKENS, HEADS, SIZE))
    weights = tuple(anp.asarray(weight) for weight in (query, key, value, out))
    worst = 0.0
    for n in range(TOKENS):
        found = np.asarray(await step(tokens[n], keys, values, weights, position.bind(n)))
        worst = max(worst, float(np.abs(found - anew(tokens[: n + 1])).max()))
    print(f"{TOKENS} tokens, {len(step.captures)} capture, equal to recomputing everything: {worst < 1e-12}")


asyncio.run(main())
