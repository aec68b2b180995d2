"""Fourier transforms of whole signals, and of frames of them.

Law: numbers are real, (…, 1), or real and imaginary parts, (…, 2), as ONNX has them; what computes is ``ops.signal``.
"""

from __future__ import annotations

import numpy as np

from asyncjit.nn._arguments import contiguous
from asyncjit.nn._floats import rounded, widened
from asyncjit.numpy._array import Array
from asyncjit.numpy._creation import asarray
from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._layout import normalize_axis
from asyncjit.numpy._movement import take

__all__ = ["dft", "stft"]


def dft(
    x: ArrayLike, /, length: int | None = None, *, axis: int = -2, inverse: bool = False, onesided: bool = False
) -> Array:
    """The discrete Fourier transform of ``x`` along ``axis``, after cutting it or filling it with zeros to ``length``.

    ``x`` is (…, 1), real, or (…, 2), real and imaginary parts, and so is the result, with 2. ``onesided`` gives the
    first ``length // 2 + 1`` only; inverse it takes these and gives real numbers, (…, 1), by default
    ``2 * (extent - 1)`` of them. The inverse divides by ``length``.
    """
    dtype, (array,) = widened(x)
    place = normalize_axis(axis, array.ndim, "dft")
    extent = array.shape[place]
    count = (2 * (extent - 1) if inverse and onesided else extent) if length is None else length
    out, _ = apply("dft", (contiguous(array),), (count, place, bool(inverse), bool(onesided)))
    return rounded(out, dtype)


def stft(
    x: ArrayLike,
    /,
    step: int,
    *,
    window: ArrayLike | None = None,
    length: int | None = None,
    onesided: bool = True,
) -> Array:
    """Transforms of frames of ``length`` that begin ``step`` apart: ``x`` (b, l, 1 or 2) gives (b, frames, bins, 2).

    Frames are multiplied by ``window``, (length,), where that is given. The last ones that would reach beyond the end
    are left out.
    """
    dtype, (array, weights) = widened(x, window)
    if array.ndim != 3 or (length is None and weights is None):
        raise ValueError(f"stft: expected x (b, l, 1 or 2) and a window or a length, given shape {array.shape}")
    size = int(weights.shape[0] if length is None else length)
    if step < 1 or (weights is not None and weights.shape != (size,)):
        raise ValueError(f"stft: frames of {size}, {step} apart, with a window {weights is not None and weights.shape}")
    count = max(0, 1 + (array.shape[1] - size) // step)
    places = np.arange(count)[:, None] * step + np.arange(size)
    frames = take(array, asarray(places), axis=1)
    if weights is not None:
        frames = frames * weights.reshape(-1, 1)
    return rounded(dft(frames, axis=2, onesided=onesided), dtype)
