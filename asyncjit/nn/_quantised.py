"""Quantised numbers, and products of them.

Law: products of integers are products of floats that hold them and their sums exactly, float32 where that is certain
and float64 elsewhere: BLAS has no faster way. What is a NumPy array here is known now, and prepared now.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncjit.nn._convolution import conv
from asyncjit.nn._floats import is_narrow
from asyncjit.numpy._array import Array
from asyncjit.numpy._creation import asarray
from asyncjit.numpy._dispatch import apply, dtype_of
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._functions import clip
from asyncjit.numpy._layout import normalize_axis
from asyncjit.numpy._movement import as_array, repeat
from asyncjit.ops import is_floating
from asyncjit.ops.quantised import RANGES

__all__ = [
    "conv_integer",
    "dequantize",
    "dynamic_quantize",
    "matmul_integer",
    "qlinear_conv",
    "qlinear_matmul",
    "quantize",
]

#: The largest distance of an 8-bit integer from its zero.
_DISTANCE_MAX = 255
_FLOAT32_EXACT = 2**24


def _spread(each: Array, x: Array, axis: int, block_size: int) -> Array:
    """A scale or zero as it broadcasts to ``x``: one for all, one for each index of ``axis``, or one for each block of
    ``block_size`` indices."""
    if each.ndim == 0 or each.size == 1:
        return each.reshape(())
    place = normalize_axis(axis, x.ndim, "quantize")
    if block_size:
        blocks = repeat(each, block_size, axis=place)
        return blocks[(*(slice(None),) * place, slice(0, x.shape[place]))]
    return each.reshape(-1, *(1,) * (x.ndim - place - 1)) if each.ndim == 1 else each


def quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero: ArrayLike | None = None,
    /,
    *,
    axis: int = 1,
    block_size: int = 0,
    dtype: Any = None,
) -> Array:
    """``x / scale + zero``, rounded to the nearest integer, halves to even, and bound to the range of the dtype, which
    is that of ``zero``, or ``dtype``, or uint8. Of a floating-point dtype it is ``x / scale`` bound to what that holds.

    ``scale`` and ``zero`` are one number, one for each index of ``axis``, or with ``block_size`` one for each block of
    as many indices.
    """
    array, factor = as_array(x), as_array(scale)
    target = dtype_of(dtype) if dtype is not None else np.dtype(np.uint8) if zero is None else as_array(zero).dtype
    wide = "float64" if array.dtype == "float64" else "float32"
    factor = _spread(factor.astype(wide, copy=False), array, axis, block_size)
    values = array.astype(wide, copy=False)
    if is_floating(target) and target.itemsize == 1:
        bound = float(np.array(_largest(target)))
        return clip(values / factor, -bound, bound).astype(target)
    if target.name not in RANGES:
        raise TypeError(f"quantize gives one of {', '.join(RANGES)} or a narrow float, not {target}")
    operands = [values, factor]
    if zero is not None:
        operands.append(_spread(as_array(zero), array, axis, block_size))
    return _quantized(operands, target, False)


def _largest(dtype: np.dtype[Any]) -> float:
    """The largest finite number of an admitted dtype of one byte: found among all there are."""
    bits = np.arange(256, dtype=np.uint8)
    values = (bits & 15 if dtype.name.startswith("float4") else bits).view(dtype).astype(np.float32)
    return float(values[np.isfinite(values)].max())


def _quantized(operands: list[Array], target: np.dtype[Any], multiplies: bool) -> Array:
    out: Array
    out, _ = apply("quantize", operands, (target.name, len(operands) > 2, multiplies))
    return out


def dequantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero: ArrayLike | None = None,
    /,
    *,
    axis: int = 1,
    block_size: int = 0,
    dtype: Any = None,
) -> Array:
    """``(x - zero) * scale`` in the dtype of ``scale``, or in ``dtype``; see ``quantize``."""
    array, factor = as_array(x), as_array(scale)
    target = factor.dtype if dtype is None else dtype_of(dtype)
    wide = np.dtype(np.float32) if is_narrow(target) else target
    operands = [array]
    if zero is not None and not is_floating(array.dtype):
        operands.append(_spread(as_array(zero), array, axis, block_size))
    params = wide.name, len(operands) > 1, True
    operands.append(_spread(factor.astype(wide, copy=False), array, axis, block_size))
    return apply("dequantize", operands, params).astype(target, copy=False)


def dynamic_quantize(x: ArrayLike, /) -> tuple[Array, Array, Array]:
    """``x`` of float32 as uint8 over the range of its own values and 0; the scale, and the zero."""
    out, scale, zero, _ = apply("dynamic_quantize", (as_array(x),))
    return out, scale, zero


# --------------------------------------------------------------------------------------------------------- products


def _centred(x: Any, zero: Any, dtype: str) -> Array:
    """``x - zero`` as floats; at once where both are known."""
    if isinstance(x, np.ndarray) and (zero is None or isinstance(zero, np.ndarray)):
        values = x.astype(dtype)
        return asarray(values if zero is None else values - zero.astype(dtype))
    operands = [as_array(x)] if zero is None else [as_array(x), as_array(zero)]
    return apply("dequantize", operands, (dtype, zero is not None, False))


def _exact(weights: Any, zero: Any, axes: tuple[int, ...]) -> str:
    """The dtype that holds all sums over ``axes`` of products of ``weights`` with 8-bit integers."""
    if isinstance(weights, np.ndarray) and (zero is None or isinstance(zero, np.ndarray)):
        distances = np.abs(weights.astype(np.int64) - (0 if zero is None else zero.astype(np.int64)))
        largest = int(distances.sum(axes).max(initial=0))
    else:
        largest = _DISTANCE_MAX * math.prod(weights.shape[axis] for axis in axes)
    return "float32" if _DISTANCE_MAX * largest < _FLOAT32_EXACT else "float64"


def _rows(zero: Any, a: Any) -> Any:
    """A zero for each row of ``a``, as a column."""
    return zero if zero is None or zero.ndim != 1 or zero.size == 1 else zero.reshape(-1, 1)


def _host(each: Any) -> Any:
    return each if isinstance(each, np.ndarray | Array) or each is None else as_array(each)


def _product(a: Any, b: Any, a_zero: Any, b_zero: Any) -> Array:
    a, b, a_zero, b_zero = map(_host, (a, b, a_zero, b_zero))
    for name, each in (("a", a), ("b", b)):
        if each.dtype.itemsize != 1 or each.ndim < 1:
            raise TypeError(f"a product of integers takes arrays of 8 bits, {name} is {each.dtype}{list(each.shape)}")
    dtype = _exact(b, b_zero, (max(b.ndim - 2, 0),))
    return _centred(a, _rows(a_zero, a), dtype) @ _centred(b, b_zero, dtype)


def matmul_integer(
    a: ArrayLike, b: ArrayLike, a_zero: ArrayLike | None = None, b_zero: ArrayLike | None = None, /
) -> Array:
    """``(a - a_zero) @ (b - b_zero)`` of 8-bit integers as int32. Zeros are numbers, or one for each row of ``a`` and
    one for each column of ``b``."""
    return _product(a, b, a_zero, b_zero).astype("int32")


def qlinear_matmul(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero: ArrayLike,
    b: ArrayLike,
    b_scale: ArrayLike,
    b_zero: ArrayLike,
    scale: ArrayLike,
    zero: ArrayLike,
    /,
) -> Array:
    """The product of two quantised matrices, quantised by ``scale`` and ``zero``, whose dtype it has."""
    sums = _product(a, b, a_zero, b_zero)
    factor = _rows(as_array(a_scale), a) * as_array(b_scale) / as_array(scale)
    return _requantized(sums, factor, as_array(zero))


def _requantized(sums: Array, factor: Array, zero: Array) -> Array:
    return _quantized([sums, factor.astype(sums.dtype, copy=False), zero], zero.dtype, True)


def _correlated(x: Any, weights: Any, x_zero: Any, w_zero: Any, options: dict[str, Any]) -> Array:
    x, weights, x_zero, w_zero = map(_host, (x, weights, x_zero, w_zero))
    if w_zero is not None and w_zero.size > 1:
        w_zero = w_zero.reshape(-1, *(1,) * (weights.ndim - 1))
    dtype = _exact(weights, w_zero, tuple(range(1, weights.ndim)))
    return conv(_centred(x, x_zero, dtype), _centred(weights, w_zero, dtype), **options)


def conv_integer(
    x: ArrayLike,
    weights: ArrayLike,
    x_zero: ArrayLike | None = None,
    w_zero: ArrayLike | None = None,
    /,
    **options: Any,
) -> Array:
    """``conv`` of ``x - x_zero`` with ``weights - w_zero``, 8-bit integers, as int32; ``w_zero`` is a number or one for
    each filter. Positions in the padding count as ``x_zero``. Options are those of ``conv``."""
    return _correlated(x, weights, x_zero, w_zero, options).astype("int32")


def qlinear_conv(
    x: ArrayLike,
    x_scale: ArrayLike,
    x_zero: ArrayLike,
    weights: ArrayLike,
    w_scale: ArrayLike,
    w_zero: ArrayLike,
    scale: ArrayLike,
    zero: ArrayLike,
    bias: ArrayLike | None = None,
    /,
    **options: Any,
) -> Array:
    """``conv`` of quantised operands, quantised by ``scale`` and ``zero``, whose dtype it has. ``bias`` is int32 of
    scale ``x_scale * w_scale``; ``w_scale`` is a number or one for each filter. Options are those of ``conv``."""
    sums = _correlated(x, weights, x_zero, w_zero, options)
    column = (-1, *(1,) * (sums.ndim - 2))
    if bias is not None:
        sums = sums + as_array(bias).astype(sums.dtype).reshape(column)
    each = as_array(w_scale)
    factor = as_array(x_scale) * (each.reshape(column) if each.size > 1 else each) / as_array(scale)
    return _requantized(sums, factor, as_array(zero))
