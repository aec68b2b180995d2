"""Random bits: the counter-based generator Philox4x32-10.

Law: bits from a key and a counter, nothing else; knows no operations. Imports the standard library and NumPy only.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A block of four 32-bit words
is a function of a 64-bit key and a 128-bit counter; here the counter is the number of the block, its upper half is 0.
So a draw is as good computed in chunks, in any order and on any thread, and all that has to be kept between draws is
two 64-bit numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["CHUNK_BLOCKS", "advance", "chunks", "scramble"]

Words = np.ndarray[Any, np.dtype[np.uint64]]

_ROUNDS = 10
_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
#: Multipliers for words 0 and 2, and what each round adds to the two halves of the key (table 2 of the paper).
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL = np.array([0x9E3779B9, 0xBB67AE85], np.uint64)
_STEPS = (np.arange(_ROUNDS, dtype=np.uint64)[:, None] * _WEYL) & _MASK

# What one thread works on, 5 arrays of 64 KiB, stays in its L2 cache; and the 50 NumPy calls of a chunk, 30 us, are a
# tenth of the work.
CHUNK_BLOCKS = 4096


class _Scratch(threading.local):
    """Memory of one thread: replays that draw from different generators run at the same time."""

    def __init__(self) -> None:
        self.even, self.odd, *self.products = np.empty((4, 2, CHUNK_BLOCKS), np.uint64)
        self.numbers = np.arange(CHUNK_BLOCKS, dtype=np.uint64)


_scratch = _Scratch()


def scramble(even: Words, odd: Words, key: int, products: tuple[Words, Words]) -> Words:
    """Ten rounds, in place: counter words 0 and 2 in the rows of ``even``, 1 and 3 in those of ``odd``.

    All elements hold 32 bits. Words 0 and 2 of the results are left in ``even``; returned are words 1 and 3, in one of
    ``products``, which are two scratch arrays of the same shape.
    """
    keys = (_STEPS + np.array([key & 0xFFFFFFFF, key >> 32], np.uint64)) & _MASK
    for number, round_keys in enumerate(keys):
        product = products[number % 2]
        np.multiply(even, _MULTIPLIERS, out=product)
        swapped = product[::-1]
        np.right_shift(swapped, _HALF, out=even)
        np.bitwise_xor(even, odd, out=even)
        np.bitwise_xor(even, round_keys[:, None], out=even)
        # The upper halves of ``odd`` come along until here, which saves masking it as well.
        np.bitwise_and(even, _MASK, out=even)
        odd = swapped
    return np.bitwise_and(odd, _MASK, out=odd)


def chunks(state: Words, count: int) -> Iterator[tuple[int, Words, Words]]:
    """The next ``count`` blocks of ``state`` (key, number of the next block), which is not changed.

    Yields the number of blocks before the chunk, and its words 0 and 2, and 1 and 3, as two arrays of two rows, good
    until the next chunk is asked for.
    """
    key, position = int(state[0]), int(state[1])
    scratch = _scratch
    for start in range(0, count, CHUNK_BLOCKS):
        size = min(CHUNK_BLOCKS, count - start)
        even, odd = scratch.even[:, :size], scratch.odd[:, :size]
        first = np.uint64((position + start) & 0xFFFFFFFFFFFFFFFF)
        # Beyond 2**64 blocks it begins again.
        np.add(scratch.numbers[:size], first, out=odd[0])
        np.bitwise_and(odd[0], _MASK, out=even[0])
        np.right_shift(odd[0], _HALF, out=odd[0])
        even[1] = odd[1] = 0
        products = scratch.products[0][:, :size], scratch.products[1][:, :size]
        yield start, even, scramble(even, odd, key, products)


def advance(state: Words, count: int) -> None:
    """Count ``count`` blocks as drawn."""
    state[1] = (int(state[1]) + count) & 0xFFFFFFFFFFFFFFFF
