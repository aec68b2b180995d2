"""New arrays: from nothing, from parameters, from host data.

Law: an array made here is new and belongs to the caller. Filled arrays are one call without inputs and cost no
host memory; host data is copied at the call (above 1 MiB by a worker of the engine).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from asyncjit.numpy._array import Array
from asyncjit.numpy._dispatch import create, current_sink, dtype_of
from asyncjit.numpy._elementwise import NUMBERS, ArrayLike, constant
from asyncjit.numpy._handle import array_spec, c_strides
from asyncjit.numpy._layout import as_int
from asyncjit.numpy._movement import stack
from asyncjit.ops.constants import Constant, encode
from asyncjit.ops.creation import arange_length
from asyncjit.symbols import Expr, Int

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "to_device",
    "zeros",
    "zeros_like",
]

Shape: TypeAlias = "Int | Sequence[Int]"
Device: TypeAlias = "str | None"


def _shape_of(shape: Shape) -> tuple[Int, ...]:
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple(map(as_int, extents))


def asarray(obj: ArrayLike | Any, /, dtype: Any = None, *, device: Device = None, copy: bool | None = None) -> Array:
    """An array from an Array, a NumPy array, numbers, nested lists, or an object that speaks DLPack.

    An Array of the wanted dtype and device comes back as itself unless ``copy``; all else is copied at the call, to
    ``device`` or to where new arrays are made.

    Raises:
        ValueError: ``copy=False`` where a copy is needed. TypeError: elements that are no numbers.
        DeviceUnavailableError: the engine has no such device.
    """
    if isinstance(obj, Array):
        if device not in (None, obj.device):
            if copy is False:
                raise ValueError(f"an array on {obj.device!r} is not on {device!r} without a copy")
            obj, copy = obj.to_device(device), None
        wanted = obj.dtype if dtype is None else dtype_of(dtype)
        if wanted is obj.dtype:
            return obj.copy() if copy else obj
        if copy is False:
            raise ValueError(f"converting {obj.dtype} to {wanted} needs a copy")
        return obj.astype(wanted)
    if copy is False:
        raise ValueError(f"an array from a {type(obj).__name__} is always a copy: it moves to the device")
    if isinstance(obj, (list, tuple)) and _holds_arrays(obj):
        joined = stack([asarray(each, device=device) for each in obj])
        return joined if dtype is None else joined.astype(dtype, copy=False)
    if not isinstance(obj, (np.ndarray, *NUMBERS)) and hasattr(obj, "__dlpack__"):
        obj = np.from_dlpack(obj)
    return constant(Array, obj, None if dtype is None else dtype_of(dtype), device)


def _holds_arrays(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_arrays(each) for each in value)
    return isinstance(value, Array)


def from_dlpack(x: Any, /, *, device: Device = None, copy: bool | None = None) -> Array:
    """A copy of an object that speaks DLPack; an Array comes back as itself unless ``copy``."""
    return asarray(x, device=device, copy=copy)


def empty(shape: Shape, dtype: Any = "float64", *, device: Device = None) -> Array:
    """An array whose elements are whatever the memory held."""
    sink = current_sink()
    extents, wanted = _shape_of(shape), dtype_of(dtype)
    spec = array_spec(extents, c_strides(extents, wanted.itemsize), wanted, False, device or sink.device)
    return Array._of(sink.new(extents, wanted, device), 0, spec)


def full(shape: Shape, fill_value: ArrayLike, dtype: Any = None, *, device: Device = None) -> Array:
    """An array of one value; the dtype is that of the value (int64, float64, … for Python's numbers)."""
    if not isinstance(fill_value, NUMBERS):
        value = asarray(fill_value, device=device)
        result = empty(shape, value.dtype if dtype is None else dtype, device=value.device)
        result[...] = value
        return result
    wanted = dtype_of(_sample(fill_value).dtype if dtype is None else dtype)  # type: ignore[arg-type]
    return create(Array, "full", (encode(fill_value, wanted), _shape_of(shape), wanted.name), device)


def zeros(shape: Shape, dtype: Any = "float64", *, device: Device = None) -> Array:
    """An array of zeros."""
    return full(shape, 0, dtype, device=device)


def ones(shape: Shape, dtype: Any = "float64", *, device: Device = None) -> Array:
    """An array of ones."""
    return full(shape, 1, dtype, device=device)


def empty_like(x: Array, /, dtype: Any = None, *, device: Device = None) -> Array:
    """``empty`` with the shape of ``x``, and its dtype and device unless given."""
    return empty(x.shape, x.dtype if dtype is None else dtype, device=device or x.device)


def full_like(x: Array, /, fill_value: ArrayLike, dtype: Any = None, *, device: Device = None) -> Array:
    """``full`` with the shape of ``x``, and its dtype and device unless given."""
    return full(x.shape, fill_value, x.dtype if dtype is None else dtype, device=device or x.device)


def zeros_like(x: Array, /, dtype: Any = None, *, device: Device = None) -> Array:
    """``zeros`` with the shape of ``x``, and its dtype and device unless given."""
    return full_like(x, 0, dtype, device=device)


def ones_like(x: Array, /, dtype: Any = None, *, device: Device = None) -> Array:
    """``ones`` with the shape of ``x``, and its dtype and device unless given."""
    return full_like(x, 1, dtype, device=device)


def arange(
    start: float | Expr,
    /,
    stop: float | Expr | None = None,
    step: float | Expr = 1,
    dtype: Any = None,
    *,
    device: Device = None,
) -> Array:
    """``start, start + step, …`` below ``stop`` (from 0 with one argument); int64 when all are ints, else float64."""
    first, last = (0, start) if stop is None else (start, stop)
    count = arange_length(first, last, step)
    wanted = dtype_of(np.result_type(*map(_sample, (first, last, step))) if dtype is None else dtype)
    params = (*(_exact(each) for each in (first, last, step)), (count,), wanted.name)
    return create(Array, "arange", params, device)


def linspace(
    start: float,
    stop: float,
    /,
    num: Int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    device: Device = None,
) -> Array:
    """``num`` evenly spaced values from ``start`` to ``stop``, which is the last one if ``endpoint``; float64."""
    wanted = dtype_of("float64" if dtype is None else dtype)
    params = (_exact(start), _exact(stop), bool(endpoint), _shape_of(num), wanted.name)
    return create(Array, "linspace", params, device)


def eye(n_rows: Int, n_cols: Int | None = None, /, k: Int = 0, dtype: Any = "float64", device: Device = None) -> Array:
    """A matrix with ones on diagonal ``k`` and zeros elsewhere."""
    wanted = dtype_of(dtype)
    shape = _shape_of((n_rows, n_rows if n_cols is None else n_cols))
    return create(Array, "eye", (as_int(k), shape, wanted.name), device)


def to_device(x: ArrayLike, device: str, /) -> Array:
    """``x`` on ``device``: a copy, which is one call of a captured function, or ``x`` itself when it is there.

    Raises:
        DeviceUnavailableError: the engine has no such device.
    """
    return asarray(x, device=device)


def _sample(value: float | Expr) -> Any:
    """An array of the number's dtype."""
    return np.asarray(0 if isinstance(value, Expr) else value)


def _exact(value: float | Expr) -> Constant:
    """A number in the widest dtype of its kind, as a parameter."""
    return encode(value, _sample(value).dtype)
