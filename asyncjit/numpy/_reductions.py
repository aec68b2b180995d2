"""Reductions, running sums and products of the namespace.

Law: methods of ``Array`` spelled as NumPy and the array standard spell them, and products made of ``matmul`` and views.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from asyncjit.numpy._array import Array
from asyncjit.numpy._creation import full
from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._folds import Axis, running
from asyncjit.numpy._layout import normalize_axis
from asyncjit.numpy._movement import as_array, concatenate, moveaxis

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "det",
    "dot",
    "matmul",
    "max",
    "mean",
    "min",
    "outer",
    "prod",
    "std",
    "sum",
    "tensordot",
    "var",
    "vecdot",
]


def sum(x: ArrayLike, /, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """Sum over ``axis``; bool and small integers are summed in 64 bits."""
    return as_array(x).sum(axis, dtype, keepdims=keepdims)


def prod(x: ArrayLike, /, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """Product over ``axis``; bool and small integers are multiplied in 64 bits."""
    return as_array(x).prod(axis, dtype, keepdims=keepdims)


def mean(x: ArrayLike, /, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """Mean over ``axis``; float64 for integers."""
    return as_array(x).mean(axis, dtype, keepdims=keepdims)


def var(x: ArrayLike, /, axis: Axis = None, *, correction: float = 0, ddof: float = 0, keepdims: bool = False) -> Array:
    """Variance over ``axis``; the divisor is the count less ``correction``, alias ``ddof``."""
    return as_array(x).var(axis, ddof=correction or ddof, keepdims=keepdims)


def std(x: ArrayLike, /, axis: Axis = None, *, correction: float = 0, ddof: float = 0, keepdims: bool = False) -> Array:
    """Standard deviation over ``axis``; the divisor is the count less ``correction``, alias ``ddof``."""
    return as_array(x).std(axis, ddof=correction or ddof, keepdims=keepdims)


def max(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Largest element over ``axis``; nan wins."""
    return as_array(x).max(axis, keepdims=keepdims)


def min(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Smallest element over ``axis``; nan wins."""
    return as_array(x).min(axis, keepdims=keepdims)


def any(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Whether any element over ``axis`` is not zero; bool."""
    return as_array(x).any(axis, keepdims=keepdims)


def all(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Whether no element over ``axis`` is zero; bool."""
    return as_array(x).all(axis, keepdims=keepdims)


def argmax(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """Position of the first largest element along ``axis``, or in the flattened array; int64."""
    return as_array(x).argmax(axis, keepdims=keepdims)


def argmin(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """Position of the first smallest element along ``axis``, or in the flattened array; int64."""
    return as_array(x).argmin(axis, keepdims=keepdims)


def count_nonzero(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Number of elements over ``axis`` that are not zero; int64."""
    return (as_array(x) != 0).sum(axis, keepdims=keepdims)


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running sum along ``axis``, which may be left out for one axis only; 0 first with ``include_initial``."""
    return _running("cumulative_sum", x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running product along ``axis``, which may be left out for one axis only; 1 first with ``include_initial``."""
    return _running("cumulative_prod", x, axis, dtype, 1 if include_initial else None)


def _running(name: str, x: ArrayLike, axis: int | None, dtype: Any, initial: int | None) -> Array:
    array = as_array(x)
    place = normalize_axis(_only_axis(array, axis), array.ndim, name)
    result = running(array, name, place, dtype)
    if initial is None:
        return result
    shape = (*array.shape[:place], 1, *array.shape[place + 1 :])
    return concatenate([full(shape, initial, result.dtype, device=array.device), result], axis=place)


def _only_axis(x: Array, axis: int | None) -> int:
    if axis is None and x.ndim != 1:
        raise ValueError("a running sum or product over an array of several axes needs axis=")
    return 0 if axis is None else axis


def cumsum(x: ArrayLike, /, axis: int | None = None, dtype: Any = None) -> Array:
    """Running sum along ``axis``, or of the flattened array."""
    return as_array(x).cumsum(axis, dtype)


def cumprod(x: ArrayLike, /, axis: int | None = None, dtype: Any = None) -> Array:
    """Running product along ``axis``, or of the flattened array."""
    return as_array(x).cumprod(axis, dtype)


def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrix product over the last two axes, leading ones broadcast; a vector counts as row or column."""
    return as_array(x1) @ as_array(x2)


def dot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrix product of at most two axes each; a product for 0-d operands. Use matmul or tensordot for more axes."""
    left, right = as_array(x1), as_array(x2)
    if left.ndim > 2 or right.ndim > 2:
        raise ValueError(
            f"dot takes at most two axes, got shapes {left.shape} and {right.shape}; use matmul or tensordot"
        )
    return left.dot(right)


def det(x: ArrayLike, /) -> Array:
    """Determinants of the matrices in the last two axes; float32, float64 and complex ones, integers as float64."""
    array = as_array(x)
    return apply("det", (array if array.dtype.kind in "fc" else array.astype("float64"),))


def vecdot(x1: ArrayLike, x2: ArrayLike, /, axis: int = -1) -> Array:
    """Sum over ``axis`` of the conjugate of x1 times x2, other axes broadcast."""
    return apply("vecdot", [moveaxis(each, axis, -1) for each in (x1, x2)])


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Every product of an element of x1 and an element of x2, both flattened."""
    return as_array(x1).ravel()[:, None] * as_array(x2).ravel()


def tensordot(x1: ArrayLike, x2: ArrayLike, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """Sum of products over pairs of axes: the last of x1 with the first of x2, or those listed for each."""
    left, right = as_array(x1), as_array(x2)
    if isinstance(axes, int):
        left_axes: list[int] = list(range(left.ndim - axes, left.ndim))
        right_axes: list[int] = list(range(axes))
    else:
        left_axes, right_axes = ([a % x.ndim for a in side] for side, x in zip(axes, (left, right), strict=True))
    left_kept = [axis for axis in range(left.ndim) if axis not in left_axes]
    right_kept = [axis for axis in range(right.ndim) if axis not in right_axes]
    pairs = [(left.shape[a], right.shape[b]) for a, b in zip(left_axes, right_axes, strict=True)]
    if [a for a, _ in pairs] != [b for _, b in pairs]:
        raise ValueError(f"tensordot: shapes {left.shape} and {right.shape} differ on the paired axes {axes}")
    inner, rows, columns = (
        math.prod(extents)
        for extents in ((a for a, _ in pairs), (left.shape[a] for a in left_kept), (right.shape[b] for b in right_kept))
    )
    shape = [left.shape[axis] for axis in left_kept] + [right.shape[axis] for axis in right_kept]
    flat_left = _ordered(left, [*left_kept, *left_axes]).reshape(rows, inner)
    flat_right = _ordered(right, [*right_axes, *right_kept]).reshape(inner, columns)
    return (flat_left @ flat_right).reshape(shape)


def _ordered(array: Array, axes: list[int]) -> Array:
    return array.transpose(axes) if axes else array
