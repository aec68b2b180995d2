"""Reading and writing where arrays of integers say.

Law: what reads gives new arrays; what writes gives a changed copy (``a[key] = value`` changes the array itself).
Indices are values: negative ones count from the end, and one that is out of bounds fails when it runs.
"""

from __future__ import annotations

from typing import Any

from asyncjit.numpy._array import Array
from asyncjit.numpy._creation import arange, asarray
from asyncjit.numpy._dispatch import apply, dtype_of
from asyncjit.numpy._elementwise import ArrayLike, elementwise
from asyncjit.numpy._layout import normalize_axis
from asyncjit.numpy._movement import as_array, expand_dims
from asyncjit.ops._spec import same_shape
from asyncjit.ops.indexing import REDUCTIONS
from asyncjit.symbols import upper

__all__ = ["gather_nd", "one_hot", "scatter_along_axis", "scatter_nd", "take_along_axis"]


def take_along_axis(x: ArrayLike, indices: ArrayLike, /, axis: int = -1) -> Array:
    """Elements at ``indices`` along ``axis``: ``x[i, indices[i, j]]`` at ``[i, j]`` for the last of two axes.

    ``indices`` has as many axes as ``x``; all but ``axis`` broadcast. A new array of the dtype of ``x``.
    """
    array, index = as_array(x), _same_place(x, indices)
    return apply("take_along_axis", (array, index), (normalize_axis(axis, array.ndim, "take_along_axis"),))


def scatter_along_axis(
    x: ArrayLike, indices: ArrayLike, values: ArrayLike, /, *, axis: int = -1, reduction: str = "none"
) -> Array:
    """A copy of ``x`` with ``values`` at ``indices`` along ``axis``: ``values[i, j]`` at ``[i, indices[i, j]]`` for the
    last of two axes.

    ``indices`` and ``values`` have one shape, which along the other axes is at most that of ``x``. ``reduction``:
    "none" (of several values for one element the last), "add", "mul", "max" or "min" (all of them with the element).

    Raises:
        ValueError: shapes that do not fit, or an unknown reduction.
    """
    array, index = as_array(x), _same_place(x, indices)
    place = normalize_axis(axis, array.ndim, "scatter_along_axis")
    if index.ndim != array.ndim or any(
        upper(wanted) > upper(extent) and position != place
        for position, (wanted, extent) in enumerate(zip(index.shape, array.shape, strict=True))
    ):
        raise ValueError(
            f"scatter_along_axis: indices of shape {index.shape} for an array of shape {array.shape}; they have its "
            f"number of axes and, but for axis {place}, at most its extents"
        )
    result = array.copy()
    given = _same_place(x, values)
    if given.dtype is not array.dtype:
        given = given.astype(array.dtype)
    return apply("scatter_along_axis", (given, index), (place, _reduction(reduction)), out=result)


def gather_nd(x: ArrayLike, indices: ArrayLike, /, *, batch_ndim: int = 0) -> Array:
    """Parts of ``x`` at index tuples that lie along the last axis of ``indices``: ``x[tuple(indices[i])]`` at ``[i]``.

    The first ``batch_ndim`` axes of both are one: each batch takes from its own part of ``x``. A new array of shape
    ``indices.shape[:-1] + x.shape[batch_ndim + indices.shape[-1]:]``.
    """
    array = as_array(x)
    return apply("gather_nd", (array, _same_place(x, indices)), (int(batch_ndim),))


def scatter_nd(x: ArrayLike, indices: ArrayLike, values: ArrayLike, /, *, reduction: str = "none") -> Array:
    """A copy of ``x`` with ``values`` at index tuples that lie along the last axis of ``indices``.

    ``values`` has shape ``indices.shape[:-1] + x.shape[indices.shape[-1]:]``; ``reduction`` as in
    ``scatter_along_axis``.

    Raises:
        ValueError: shapes that do not fit, or an unknown reduction.
    """
    array, index = as_array(x), _same_place(x, indices)
    depth = index.shape[-1] if index.ndim else 0
    given = _same_place(x, values)
    if not 0 < depth <= array.ndim or not same_shape(given.shape, (*index.shape[:-1], *array.shape[depth:])):
        raise ValueError(
            f"scatter_nd: values of shape {given.shape} at indices of shape {index.shape} do not go into an array of "
            f"shape {array.shape}; values have shape indices.shape[:-1] + x.shape[indices.shape[-1]:]"
        )
    result = array.copy()
    if given.dtype is not array.dtype:
        given = given.astype(array.dtype)
    return apply("scatter_nd", (given, index), (_reduction(reduction),), out=result)


def one_hot(
    indices: ArrayLike, depth: int, /, *, axis: int = -1, dtype: Any = "float32", off: ArrayLike = 0, on: ArrayLike = 1
) -> Array:
    """``on`` where the position along a new axis of extent ``depth`` is the index, else ``off``; negative indices count
    from the end, and one that is out of bounds has no ``on``."""
    index = as_array(indices)
    place = normalize_axis(axis, index.ndim + 1, "one_hot")
    wanted = dtype_of(dtype)
    negative = index < 0
    wrapped = elementwise("where", (negative, index + depth, index), Array)
    positions = arange(depth, device=index.device).reshape((depth, *(1,) * (index.ndim - place)))
    hot = expand_dims(wrapped, place) == positions
    return elementwise("where", (hot, as_array(on).astype(wanted), as_array(off).astype(wanted)), Array)


def _reduction(name: str) -> str:
    if name not in REDUCTIONS:
        raise ValueError(f"reduction {name!r} is none of {', '.join(map(repr, REDUCTIONS))}")
    return name


def _same_place(x: ArrayLike, other: ArrayLike) -> Array:
    """``other`` as an array; host data on the device of ``x``."""
    return other if isinstance(other, Array) else asarray(other, device=x.device if isinstance(x, Array) else None)
