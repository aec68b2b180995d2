"""Work cut into pieces that stay in a core's cache while several NumPy calls pass over them.

Law: sizes and slices only; computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

__all__ = ["BLOCK_ELEMENTS", "leading_blocks", "ranges"]

# 128 KiB of float32: input and output of a piece fit into an L2 cache of 512 KiB, and the 5 us of the five NumPy calls
# on a piece are a tenth of the work on it.
BLOCK_ELEMENTS = 1 << 15


def ranges(extent: int, step: int) -> Iterator[tuple[int, int]]:
    """First and end of consecutive parts of ``extent``, each ``step`` long but for the last; one part is at least 1."""
    step = max(step, 1)
    for start in range(0, extent, step):
        yield start, min(start + step, extent)


def leading_blocks(shape: tuple[int, ...], *arrays: Any) -> Iterator[tuple[Any, ...]]:
    """The same ranges of the first axis of each of ``arrays``, so that a block of ``shape`` has about
    ``BLOCK_ELEMENTS``; the arrays themselves where one block is enough."""
    row = prod(shape[1:])
    if shape[0] * row <= BLOCK_ELEMENTS or shape[0] == 1:
        yield arrays
        return
    for start, stop in ranges(shape[0], BLOCK_ELEMENTS // max(row, 1)):
        yield tuple(each[start:stop] for each in arrays)
