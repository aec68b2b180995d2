"""Values of images at positions between their pixels.

Law: NumPy on blocks of positions, with small temporaries; no operation of the registry. Positions count in pixels, the
first being 0, one array for each spatial axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np

__all__ = ["blocks", "reflected", "sample"]

Host: TypeAlias = "np.ndarray[Any, Any]"

# Elements of what is taken for one tap: 256 KiB of float32.
BLOCK_ELEMENTS = 1 << 16

CUBIC_A = -0.75


def blocks(count: int, channels: int) -> Iterator[slice]:
    """Positions in parts whose values stay in cache."""
    step = max(64, BLOCK_ELEMENTS // max(1, channels))
    return (slice(low, min(low + step, count)) for low in range(0, count, step))


def reflected(at: Host, low: float, high: float) -> Host:
    """Positions thrown back at ``low`` and ``high`` as often as needed."""
    room = high - low
    if room <= 0:
        return np.full_like(at, low)
    turned = np.abs(at - low) % (2 * room)
    return np.asarray(low + np.minimum(turned, 2 * room - turned), at.dtype)


def _nearest(at: Host) -> list[tuple[Host, Host | None]]:
    return [(np.rint(at), None)]


def _linear(at: Host) -> list[tuple[Host, Host | None]]:
    low = np.floor(at)
    ratio = at - low
    return [(low, 1 - ratio), (low + 1, ratio)]


def _cubic(at: Host) -> list[tuple[Host, Host | None]]:
    """Keys, "Cubic convolution interpolation for digital image processing", 1981."""
    low, a = np.floor(at), CUBIC_A
    ratio = at - low
    taps: list[tuple[Host, Host | None]] = []
    for offset in (-1, 0, 1, 2):
        x = np.abs(ratio - offset)
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        taps.append((low + offset, far if offset in (-1, 2) else ((a + 2) * x - (a + 3)) * x * x + 1))
    return taps


TAPS: dict[str, Callable[[Host], list[tuple[Host, Host | None]]]] = {
    "nearest": _nearest,
    "linear": _linear,
    "cubic": _cubic,
}


def sample(
    image: Host,
    extents: Sequence[int],
    positions: Sequence[Host],
    mode: str,
    out: Host,
    pixel: Callable[[int, Host], Host] | None = None,
) -> None:
    """Write the values of ``image``, shape (channels, pixels), at ``positions`` into ``out``, shape (channels, count).

    Beyond the edges there are zeros, unless ``pixel(axis, at)`` moves whole positions inside.
    """
    taps = [TAPS[mode](each) for each in positions]
    out.fill(0)
    for choice in product(*taps):
        index = np.zeros(positions[0].shape, np.int64)
        inside: Any = None
        weight: Any = None
        for axis, ((at, factor), extent) in enumerate(zip(choice, extents, strict=True)):
            at = at if pixel is None else pixel(axis, at)
            valid = (at >= 0) & (at <= extent - 1)
            inside = valid if inside is None else inside & valid
            # Not a number is nowhere.
            index = index * extent + np.where(valid, at, 0).astype(np.int64)
            weight = factor if weight is None else weight * factor
        values = image.take(index, 1)
        if weight is None:
            np.copyto(out, values, where=inside)
        else:
            out += values * np.where(inside, weight, 0).astype(out.dtype)
