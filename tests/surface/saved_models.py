"""What the tests of saving share: things that stand in a module, as what is saved by name has to; and a round trip.

Law: no test; ``test_save*`` and the processes that they start import it.
"""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.numpy import Array

SCALE = 3.0
TABLE = np.arange(4.0)


class Mode(enum.Enum):
    PLAIN = "plain"
    DOUBLE = "double"


@dataclasses.dataclass(frozen=True)
class Pair:
    left: Any
    right: Any


class Point(NamedTuple):
    x: Any
    y: Any


@aj.jit
def scaled(x: Array) -> Array:
    """Keeps no state, so it can be recorded anew after loading."""
    return x * SCALE + TABLE


@aj.jit
def scaled_otherwise(x: Array) -> Array:
    """Reads the same names, and does something else with them."""
    return x + SCALE * TABLE


@aj.jit(static="mode")
def structured(pair: Pair, mode: Mode = Mode.PLAIN, n: int = 2) -> dict[str, Any]:
    factor = 2 if mode is Mode.DOUBLE else 1
    return {
        "point": Point(pair.left * factor, None),
        "list": [pair.right + n, (pair.left,)],
        "pair": Pair(pair.left, 0 * pair.right),
    }


class Scaler:
    """Has a jitted method without state."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @aj.jit
    def apply(self, x: Array) -> Array:
        return x * self.factor


@aj.kernel(writes="out")
def blur(out: np.ndarray, source: np.ndarray, radius: int, *more: np.ndarray, weight: float = 1.0) -> None:
    out[...] = source * radius + sum(more) * weight


@aj.kernel(writes="out")
def windowed(out: np.ndarray, source: np.ndarray, size: int, *, weight: float = 2.0) -> None:
    """Sums of ``size`` neighbours; the size may be a variable."""
    out[...] = sum(np.roll(source, shift, axis=0) for shift in range(size)) * weight


@aj.jit
def blurred(x: Array) -> Array:
    out = anp.empty(x.shape, dtype=x.dtype)
    blur(out, x, 3, x, x, weight=0.5)
    return out


T, M = aj.Variable("t", 0, 7), aj.Variable("m", 1, 4)


def decoder() -> tuple[Any, Array]:
    """A function of the variables ``T`` and ``M`` that writes a row of a cache and reads all so far; and the cache."""
    cache = anp.zeros((8, 4))

    @aj.jit
    def decode(x: Array, t: Any, m: Any) -> dict[str, Array]:
        cache[t] = x
        seen = cache[: t + 1]
        sums = anp.empty((t + 1, 4))
        windowed(sums, seen, m)
        return {
            "mean": anp.mean(seen, axis=0) * m,
            "backwards": seen[::-1] + 1,
            "sums": sums,
            "joined": anp.concatenate([seen, cache[t.at_most(5) // 2 :]]),
            "zeros": anp.zeros((t, m)).reshape(-1),
        }

    return decode, cache


def accumulator() -> tuple[Any, Any, Array]:
    """Two functions that share a sum, and the sum."""
    total = anp.zeros(4)

    @aj.jit
    def add(x: Array) -> Array:
        total[...] = total + x
        return total

    @aj.jit
    def peek() -> Array:
        return total * 1

    return add, peek, total


def again(file: Path, *things: Any, **named: Any) -> Any:
    """What comes back from a file."""
    aj.save(file, *things, **named)
    return aj.load(file)
