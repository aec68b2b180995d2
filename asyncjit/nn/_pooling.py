"""Pooling over windows, and over all of the spatial axes.

Law: prepares arguments for the entries in ``ops``; pooling over everything is a reduction of ``asyncjit.numpy``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

import asyncjit.numpy as anp
from asyncjit.nn._arguments import Padding, PerAxis, contiguous, pads_of, per_axis, spatial
from asyncjit.numpy._array import Array
from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._elementwise import ArrayLike

__all__ = [
    "average_pool",
    "global_average_pool",
    "global_lp_pool",
    "global_max_pool",
    "lp_pool",
    "max_pool",
    "max_pool_with_indices",
    "max_unpool",
]


def _windows(
    name: str, x: ArrayLike, kernel: PerAxis, strides: PerAxis, padding: Padding, dilation: PerAxis, ceil: bool
) -> tuple[Array, tuple[Hashable, ...]]:
    array, axes = spatial(name, x)
    sides = per_axis(name, "kernel", kernel, axes)
    steps = per_axis(name, "strides", strides, axes)
    spread = per_axis(name, "dilation", dilation, axes)
    reach = [(taps - 1) * step + 1 for taps, step in zip(sides, spread, strict=True)]
    return array, (sides, steps, spread, pads_of(name, padding, array.shape[2:], reach, steps), ceil)


def max_pool(
    x: ArrayLike,
    /,
    kernel: PerAxis,
    *,
    strides: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil: bool = False,
) -> Array:
    """The largest element that each window of ``x``, shape ``(n, channels, *spatial)``, sees; any real dtype.

    The result has shape ``(n, channels, *outputs)``, with ``(extent + padding - reach) // stride + 1`` outputs along an
    axis, where a window reaches over ``dilation * (kernel - 1) + 1``. ``ceil`` rounds up, as long as the last window
    begins inside the input or the padding before it. Padding counts for nothing; a window that sees nothing else gives
    the lowest value of the dtype.

    Raises:
        ValueError: no spatial axes, or a window larger than the padded input.
    """
    array, params = _windows("max_pool", x, kernel, strides, padding, dilation, ceil)
    result: Array
    result, _ = apply("max_pool", [array], params)
    return result


def max_pool_with_indices(
    x: ArrayLike,
    /,
    kernel: PerAxis,
    *,
    strides: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil: bool = False,
    column_major: bool = False,
) -> tuple[Array, Array]:
    """``max_pool``, and where each element stood: int64 positions in the flattened ``x``, the first of equal ones.

    ``column_major`` counts positions along the spatial axes from the first axis on, where the last one is usual.

    Raises:
        ValueError: no spatial axes, or a window larger than the padded input.
    """
    array, params = _windows("max_pool", x, kernel, strides, padding, dilation, ceil)
    result, indices, _ = apply("max_pool_indices", [array], (*params, column_major))
    return result, indices


def average_pool(
    x: ArrayLike,
    /,
    kernel: PerAxis,
    *,
    strides: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil: bool = False,
    count_padding: bool = False,
) -> Array:
    """The mean of what each window of ``x``, shape ``(n, channels, *spatial)``, sees; floats, halves summed in float32.

    The number of outputs is that of ``max_pool``. Padding does not count, or with ``count_padding`` as zeros; what lies
    beyond it, where ``ceil`` has the last window go there, never does.

    Raises:
        ValueError: no spatial axes, or a window larger than the padded input. TypeError: no floats.
    """
    array, params = _windows("average_pool", x, kernel, strides, padding, dilation, ceil)
    result: Array
    result, _ = apply("average_pool", [array], (*params, count_padding))
    return result


def lp_pool(
    x: ArrayLike,
    /,
    kernel: PerAxis,
    *,
    p: int = 2,
    strides: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil: bool = False,
) -> Array:
    """The p-norm of what each window of ``x``, shape ``(n, channels, *spatial)``, sees; floats, halves in float32.

    The number of outputs is that of ``max_pool``.

    Raises:
        ValueError: no spatial axes, a window larger than the padded input, or p below 1. TypeError: no floats.
    """
    if p < 1:
        raise ValueError(f"lp_pool: expected p of at least 1, given {p}")
    array, params = _windows("lp_pool", x, kernel, strides, padding, dilation, ceil)
    result: Array
    result, _ = apply("lp_pool", [array], (*params, p))
    return result


def global_max_pool(x: ArrayLike, /) -> Array:
    """The largest element of each channel of ``x``, shape ``(n, channels, *spatial)``; spatial axes become 1."""
    array, axes = spatial("global_max_pool", x)
    return array.max(tuple(range(2, 2 + axes)), keepdims=True)


def global_average_pool(x: ArrayLike, /) -> Array:
    """The mean of each channel of ``x``, shape ``(n, channels, *spatial)``; spatial axes become 1."""
    array, axes = spatial("global_average_pool", x)
    return array.mean(tuple(range(2, 2 + axes)), keepdims=True)


def global_lp_pool(x: ArrayLike, /, *, p: int = 2) -> Array:
    """The p-norm of each channel of ``x``, shape ``(n, channels, *spatial)``; spatial axes become 1."""
    array, axes = spatial("global_lp_pool", x)
    everything = tuple(range(2, 2 + axes))
    if p == 1:
        return anp.absolute(array).sum(everything, keepdims=True)
    if p == 2:
        return anp.sqrt(anp.square(array).sum(everything, keepdims=True))
    return anp.pow(anp.pow(anp.absolute(array), p).sum(everything, keepdims=True), 1 / p)


def max_unpool(x: ArrayLike, indices: ArrayLike, /, shape: Sequence[int]) -> Array:
    """A new array of ``shape`` that holds ``x`` at int64 positions ``indices`` of its flattened form, and zeros
    elsewhere: what undoes ``max_pool_with_indices``.

    Raises:
        ValueError: indices of another shape or dtype. IndexError, when it runs: a position outside.
    """
    array, places = contiguous(x), contiguous(indices)
    return apply("max_unpool", [array, places], tuple(int(np.int64(extent)) for extent in shape))
