"""Softmax and the normalisations.

Law: works out axes and shapes, widens narrow floats, and calls the entries of ``ops.normalisation``; what has no entry
there is made of functions of the namespace. Every function gives an array of the shape and dtype of its first operand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from asyncjit.nn._floats import rounded, widened
from asyncjit.numpy._array import Array
from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._functions import absolute, equal, sqrt, square, where
from asyncjit.numpy._layout import normalize_axis
from asyncjit.ops._spec import same_shape

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "layer_norm_with_statistics",
    "log_softmax",
    "lp_norm",
    "mean_variance_norm",
    "rms_norm",
    "softmax",
]


def softmax(x: ArrayLike, /, axis: int = -1) -> Array:
    """Exponentials of ``x`` over their sum along ``axis``. The largest is taken off first: nothing overflows."""
    dtype, (array,) = widened(x)
    out, _ = apply("softmax", (array,), (normalize_axis(axis, array.ndim, "softmax"),))
    return rounded(out, dtype)


def log_softmax(x: ArrayLike, /, axis: int = -1) -> Array:
    """The logarithm of ``softmax`` along ``axis``, without taking the logarithm of a rounded quotient."""
    dtype, (array,) = widened(x)
    out, _, _ = apply("log_softmax", (array,), (normalize_axis(axis, array.ndim, "log_softmax"),))
    return rounded(out, dtype)


def batch_norm(
    x: ArrayLike,
    scale: ArrayLike,
    bias: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    /,
    *,
    epsilon: float = 1e-5,
) -> Array:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` for each channel of ``x``, shape ``(n, c, …)``; the
    other operands have shape ``(c,)``."""
    dtype, arrays = widened(x, scale, bias, mean, variance)
    out, _ = apply("batch_norm", arrays, (float(epsilon),))
    return rounded(out, dtype)


def _standardized(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float, centred: bool
) -> tuple[Array, ...]:
    affine = [each for each in (scale, bias) if each is not None]
    params = float(epsilon), centred, scale is not None, bias is not None
    results: Any = apply("standardize", (x, *affine), params)
    return tuple(results)


def _over_last_axes(
    x: Array, scale: Array | None, bias: Array | None, axis: int, epsilon: float, centred: bool
) -> tuple[Array, ...]:
    """The result, and the statistics with extents of 1 from ``axis`` on. A factor and a summand of the shape of one row
    are applied while the row is in the cache."""
    place = normalize_axis(axis, x.ndim, "layer_norm" if centred else "rms_norm")
    lead, row = x.shape[:place], x.shape[place:]
    flat = x.reshape(math.prod(lead), math.prod(row))
    fits = all(each is None or same_shape(each.shape, row) for each in (scale, bias))
    parts = [each.ravel() if each is not None and fits else None for each in (scale, bias)]
    out, *statistics = _standardized(flat, parts[0], parts[1], epsilon, centred)
    out = out.reshape(x.shape)
    if not fits:
        out = out if scale is None else out * scale
        out = out if bias is None else out + bias
    return out, *(each.reshape(*lead, *(1,) * len(row)) for each in statistics)


def layer_norm(
    x: ArrayLike,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    /,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
) -> Array:
    """``x`` less its mean over ``axis`` and all axes behind it, divided by ``sqrt(variance + epsilon)``; then times
    ``scale`` plus ``bias``, which broadcast to ``x``."""
    return layer_norm_with_statistics(x, scale, bias, axis=axis, epsilon=epsilon)[0]


def layer_norm_with_statistics(
    x: ArrayLike,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    /,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
) -> tuple[Array, Array, Array]:
    """``layer_norm``; the means; and ``1 / sqrt(variance + epsilon)``, both with extents of 1 from ``axis`` on, in the
    dtype that was computed in: float32 for narrower ones."""
    dtype, (array, factor, summand) = widened(x, scale, bias)
    out, mean, inverse = _over_last_axes(array, factor, summand, axis, epsilon, True)
    return rounded(out, dtype), mean, inverse


def rms_norm(x: ArrayLike, scale: ArrayLike | None = None, /, *, axis: int = -1, epsilon: float = 1e-5) -> Array:
    """``x`` divided by ``sqrt(mean(x**2) + epsilon)`` over ``axis`` and all axes behind it; then times ``scale``, which
    broadcasts to ``x``."""
    dtype, (array, factor) = widened(x, scale)
    out, _ = _over_last_axes(array, factor, None, axis, epsilon, False)
    return rounded(out, dtype)


def instance_norm(x: ArrayLike, scale: ArrayLike, bias: ArrayLike, /, *, epsilon: float = 1e-5) -> Array:
    """Each channel of each batch element of ``x``, shape ``(n, c, …)``, with mean 0 and variance 1, times ``scale``
    plus ``bias``, both of shape ``(c,)``."""
    dtype, (array, factor, summand) = widened(x, scale, bias)
    if array.ndim < 3:
        raise ValueError(f"instance_norm: x has shape {array.shape}, expected (n, c, …) with an axis to normalise over")
    n, c, *rest = array.shape
    column = (c, 1)
    flat = array.reshape(n, c, math.prod(rest))
    out, *_ = _standardized(flat, factor.reshape(column), summand.reshape(column), epsilon, True)
    return rounded(out.reshape(array.shape), dtype)


def group_norm(x: ArrayLike, groups: int, scale: ArrayLike, bias: ArrayLike, /, *, epsilon: float = 1e-5) -> Array:
    """``groups`` groups of channels of each batch element of ``x``, shape ``(n, c, …)``, with mean 0 and variance 1;
    then each channel times ``scale`` plus ``bias``, both of shape ``(c,)``.

    Raises:
        ValueError: the channels do not divide into groups.
    """
    dtype, (array, factor, summand) = widened(x, scale, bias)
    if array.ndim < 2 or groups < 1 or array.shape[1] % groups:
        raise ValueError(f"group_norm: expected (n, c, …) with c a multiple of {groups}, given shape {array.shape}")
    n, c, *rest = array.shape
    flat = array.reshape(n * groups, (c // groups) * math.prod(rest))
    out, *_ = _standardized(flat, None, None, epsilon, True)
    scaled = apply("scale_channels", (out.reshape(n, c, math.prod(rest)), factor, summand))
    return rounded(scaled.reshape(array.shape), dtype)


def lp_norm(x: ArrayLike, /, *, p: int = 2, axis: int = -1) -> Array:
    """``x`` divided by its 1-norm or 2-norm along ``axis``; zeros where that is 0.

    Raises:
        ValueError: ``p`` is neither 1 nor 2.
    """
    if p not in (1, 2):
        raise ValueError(f"lp_norm: p is 1 or 2, given {p}")
    dtype, (array,) = widened(x)
    norm = absolute(array).sum(axis, keepdims=True) if p == 1 else sqrt(square(array).sum(axis, keepdims=True))
    return rounded(array / where(equal(norm, 0), 1, norm), dtype)


def mean_variance_norm(x: ArrayLike, /, *, axes: Sequence[int] = (0, 2, 3), epsilon: float = 1e-9) -> Array:
    """``x`` less its mean over ``axes``, divided by its standard deviation there plus ``epsilon``."""
    dtype, (array,) = widened(x)
    centred = array - array.mean(tuple(axes), keepdims=True)
    deviation = sqrt(square(centred).mean(tuple(axes), keepdims=True))
    return rounded(centred / (deviation + epsilon), dtype)
