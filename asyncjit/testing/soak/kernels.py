"""What soak programs begin with, and what their user's kernels compute; shared by the engine's side and the oracle.

Law: NumPy values and the kernels on them. The kernels stand at the top level, so that saved captures find them.
"""

from __future__ import annotations

import time
import zlib
from typing import Any

import numpy as np

from asyncjit.jit import kernel
from asyncjit.testing.soak.program import EXTENT, VIEWS, Program, Source, shape_at

__all__ = [
    "BrokenKernelError",
    "base_values",
    "breaks_on",
    "check",
    "churn",
    "churned",
    "generator_state",
    "host_values",
    "row_breaks",
    "stir",
    "stirred",
]


class BrokenKernelError(Exception):
    """What the kernels of soak programs fail with, where the values say so."""


def base_values(program: Program, index: int) -> np.ndarray:
    """What a base holds at the beginning."""
    values = np.arange(EXTENT * EXTENT).reshape(EXTENT, EXTENT) * (index + 3) % 23 - 5
    return values.astype(program.dtype)


def generator_state(seed: int) -> np.ndarray:
    """The state of a generator that begins with a seed."""
    return np.array([seed, 0], np.uint64)


def host_values(program: Program, source: Source, rows: int = 0) -> np.ndarray:
    """Host data that a statement is called with; of ``rows`` those that no other statement has."""
    shape = (rows, EXTENT) if source.of == "rows" else shape_at(VIEWS[source.view].shape, 0)
    first = 1000 * (source.index + 1) if source.of == "rows" else source.index
    return (np.arange(int(np.prod(shape))).reshape(shape) + first).astype(program.dtype)


def breaks_on(values: np.ndarray) -> bool:
    """Whether kernels that break do so on these values: about one in seven."""
    return zlib.crc32(values.tobytes()) % 7 == 0


def row_breaks(values: np.ndarray) -> list[bool]:
    """The same of each row."""
    return [breaks_on(row) for row in values]


def stirred(source: np.ndarray, amount: int) -> np.ndarray:
    """What "stir" computes."""
    result: np.ndarray = np.maximum(source[::-1], source) + amount
    return result


def churned(values: np.ndarray) -> np.ndarray:
    """What "churn" makes of values."""
    result: np.ndarray = np.minimum(values[::-1] + 2, 99)
    return result


@kernel(writes=("out",))
def stir(out: Any, source: Any, amount: int, delay_us: int, breaks: bool) -> None:
    """See ``Step``. Half of the output is written before it fails."""
    if delay_us:
        time.sleep(delay_us * 1e-6)
    out[:2] = stirred(source, amount)[:2]
    if breaks and breaks_on(source):
        raise BrokenKernelError("stir")
    out[...] = stirred(source, amount)


@kernel(reads_writes=("target",))
def churn(target: Any, delay_us: int, breaks: bool) -> None:
    """See ``Step``. Half of the target is written before it fails."""
    if delay_us:
        time.sleep(delay_us * 1e-6)
    new = churned(target)
    fails = breaks and breaks_on(target)
    target[:2] = new[:2]
    if fails:
        raise BrokenKernelError("churn")
    target[...] = new


@kernel(writes=("out",))
def check(out: Any, source: Any, breaks: bool) -> None:
    """See ``Step``. It fails where one of the rows does."""
    out[...] = source
    if breaks and any(row_breaks(source)):
        raise BrokenKernelError("check")
