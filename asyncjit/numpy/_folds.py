"""Reductions and running sums of one array.

Law: works out axes and dtypes by NumPy's rules and names the operations; generic in the array type.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias, TypeVar

import numpy as np

from asyncjit.numpy._dispatch import apply, dtype_of
from asyncjit.numpy._elementwise import elementwise
from asyncjit.numpy._handle import DType, Handle, c_strides
from asyncjit.numpy._layout import normalize_axes, normalize_axis
from asyncjit.ops import is_floating
from asyncjit.ops.reduction import accumulator
from asyncjit.symbols import Int, combine, same

__all__ = ["Axis", "arg", "component", "fold", "mean", "running", "var"]

A = TypeVar("A", bound=Handle)
Axis: TypeAlias = "int | Sequence[int] | None"

_KEEP_DTYPE = frozenset({"max", "min"})


def fold(x: A, name: str, axis: Axis, keepdims: bool, dtype: Any = None) -> A:
    """sum, prod, max, min, any, all over ``axis``."""
    axes = tuple(sorted(normalize_axes(axis, x.ndim, name)))
    if name in ("any", "all"):
        loop: str | None = "bool"
    elif name in _KEEP_DTYPE:
        loop = None
    else:
        wanted = accumulator(x._dtype) if dtype is None else dtype_of(dtype)
        if wanted.isbuiltin != 1 and is_floating(wanted):
            # An admitted dtype is added up one element after the other, each sum rounded to its few bits.
            total = fold(apply("astype", (x,), ("float32",)), name, axis, keepdims)
            return apply("astype", (total,), (wanted.name,))
        loop = wanted.name
    return apply(name, (x,), (axes, bool(keepdims), loop))


def _is_narrow(dtype: DType) -> bool:
    return dtype.itemsize <= 2 and is_floating(dtype)


def _inexact(dtype: DType) -> DType:
    return dtype if is_floating(dtype) else np.dtype(np.float64)


def _divided_sum(x: A, axes: tuple[int, ...], keepdims: bool, dtype: DType, divisor: Int) -> A:
    return apply("mean", (x,), (axes, keepdims, dtype.name, divisor))


def mean(x: A, axis: Axis, keepdims: bool, dtype: Any = None) -> A:
    """Mean over ``axis``; integers give float64, float16 is summed in float32."""
    axes = tuple(sorted(normalize_axes(axis, x.ndim, "mean")))
    wanted = _inexact(x._dtype) if dtype is None else dtype_of(dtype)
    loop = np.dtype(np.float32) if _is_narrow(wanted) and dtype is None else wanted
    result = _divided_sum(x, axes, bool(keepdims), loop, prod(x._shape[axis] for axis in axes))
    return result if loop is wanted else apply("astype", (result,), (wanted.name,))


def var(x: A, axis: Axis, correction: int | float, keepdims: bool) -> A:
    """Variance over ``axis`` with ``correction`` degrees of freedom taken off: mean, deviations, squares, sum."""
    axes = tuple(sorted(normalize_axes(axis, x.ndim, "var")))
    count = prod(x._shape[axis] for axis in axes)
    dtype = _inexact(x._dtype)
    cls = type(x)
    deviations = elementwise("subtract", (x, _divided_sum(x, axes, True, dtype, count)), cls)
    if dtype.kind == "c":
        half = dtype.itemsize // 2
        parts = [component(deviations, offset) for offset in (0, half)]
        squares = elementwise("add", [elementwise("square", (part,), cls) for part in parts], cls)
        dtype = squares._dtype
    else:
        squares = elementwise("square", (deviations,), cls)
    if int(correction) != correction:
        total = fold(squares, "sum", axes, keepdims)
        return elementwise("divide", (total, max(count - correction, 0.0)), cls)
    return _divided_sum(squares, axes, bool(keepdims), dtype, combine("max", count - int(correction), 0))


def component(x: A, offset: int) -> A:
    """Real (offset 0) or imaginary part of a complex array, as a view."""
    dtype: DType = np.dtype(f"f{x.itemsize // 2}")
    # Of no element, in any place: strides that NumPy finds inside the memory.
    strides = c_strides(x._shape, dtype.itemsize) if same(x.size, 0) else x._strides
    return type(x)(x._storage, x._offset + (0 if same(x.size, 0) else offset), x._shape, strides, dtype)


def arg(x: A, name: str, axis: int | None, keepdims: bool) -> A:
    """argmax, argmin: int64 positions, along ``axis`` or in the flattened array."""
    place = None if axis is None else normalize_axis(axis, x.ndim, name)
    return apply(name, (x,), (place, bool(keepdims)))


def running(x: A, name: str, axis: int, dtype: Any = None) -> A:
    """cumulative_sum, cumulative_prod along ``axis``."""
    wanted = accumulator(x._dtype) if dtype is None else dtype_of(dtype)
    return apply(name, (x,), (normalize_axis(axis, x.ndim, name), wanted.name))
