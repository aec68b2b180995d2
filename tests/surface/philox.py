"""Philox in plain integers, for any word size, as the paper states it; and what draws make of its words.

Law: an oracle. It shares no code with the package: with 64-bit words it has to agree with NumPy's generator.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

#: By bits of a word: multipliers, and the Weyl constants that move the key on.
CONSTANTS = {
    32: ((0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)),
    64: ((0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)),
}


def philox(counter: tuple[int, int, int, int], key: tuple[int, int], bits: int) -> tuple[int, int, int, int]:
    (m0, m1), (w0, w1) = CONSTANTS[bits]
    mask = (1 << bits) - 1
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        p0, p1 = m0 * c0, m1 * c2
        c0, c1, c2, c3 = (p1 >> bits) ^ c1 ^ k0, p1 & mask, (p0 >> bits) ^ c3 ^ k1, p0 & mask
        k0, k1 = (k0 + w0) & mask, (k1 + w1) & mask
    return c0, c1, c2, c3


def words(seed: int, block: int = 0) -> Iterator[int]:
    """The 32-bit words of a generator, from a block on."""
    while True:
        low, high = block & 0xFFFFFFFF, block >> 32
        yield from philox((low, high, 0, 0), (seed & 0xFFFFFFFF, seed >> 32), 32)
        block += 1


def numbers(seed: int, block: int = 0) -> Iterator[int]:
    """The same as 64-bit numbers."""
    stream = words(seed, block)
    while True:
        yield next(stream) | next(stream) << 32


def doubles(seed: int, count: int, block: int = 0) -> list[float]:
    stream = numbers(seed, block)
    return [(next(stream) >> 11) / 2**53 for _ in range(count)]


def floats(seed: int, count: int) -> list[float]:
    stream = words(seed)
    return [float(np.float32((next(stream) >> 8) / 2**24)) for _ in range(count)]


def integers(seed: int, low: int, count: int, size: int) -> list[int]:
    stream = numbers(seed)
    return [low + (next(stream) * count >> 64) for _ in range(size)]
