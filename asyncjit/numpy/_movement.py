"""Functions that rearrange: views first, copies where elements must move.

Law: a function here is a method of ``Array`` spelled as NumPy and the array standard spell it, or a
composition of views.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from asyncjit.numpy._array import Array
from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._elementwise import ArrayLike, Composite, constant
from asyncjit.numpy._folds import Axis
from asyncjit.numpy._layout import as_int, broadcast_strides, normalize_axes, normalize_axis
from asyncjit.ops._spec import broadcast
from asyncjit.symbols import Expr, Int, same

__all__ = [
    "astype",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "concatenate",
    "copy",
    "expand_dims",
    "flip",
    "matrix_transpose",
    "meshgrid",
    "moveaxis",
    "permute_dims",
    "ravel",
    "repeat",
    "reshape",
    "roll",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "take",
    "tile",
    "tril",
    "triu",
    "unstack",
]


def as_array(x: ArrayLike) -> Array:
    """``x`` itself, or host data as a new array. (A composite too: it has the methods that the caller will want.)"""
    return cast(Array, x) if isinstance(x, (Array, Composite)) else constant(Array, x)


def astype(x: ArrayLike, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Array:
    """``x`` converted to ``dtype``, on ``device`` if given; a new array unless ``copy=False`` and nothing changes."""
    array = as_array(x)
    moved = array if device is None else array.to_device(device)
    return moved.astype(dtype, copy=copy and moved is array)


def copy(x: ArrayLike, /) -> Array:
    """A new C-contiguous array with the elements of ``x``."""
    return as_array(x).copy()


def reshape(x: ArrayLike, /, shape: Int | Sequence[Int], *, copy: bool | None = None) -> Array:
    """The elements in C order under another shape; a view where strides allow, else a copy.

    Always a copy with ``copy=True``; never one with ``copy=False``, which raises ValueError where a view will not do.
    """
    array = as_array(x)
    result = (array.copy() if copy else array).reshape(shape)
    if copy is False and result._storage is not array._storage:
        raise ValueError(f"reshape: {array.shape} with strides {array.strides} to {shape} needs a copy")
    return result


def ravel(x: ArrayLike, /) -> Array:
    """One axis; a view where strides allow, else a copy."""
    return as_array(x).ravel()


def permute_dims(x: ArrayLike, /, axes: Sequence[int] | None = None) -> Array:
    """Axes in the given order, reversed without one; a view."""
    return as_array(x).transpose(axes)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes swapped; a view."""
    return as_array(x).mT


def swapaxes(x: ArrayLike, axis1: int, axis2: int, /) -> Array:
    """Two axes exchanged; a view."""
    return as_array(x).swapaxes(axis1, axis2)


def moveaxis(x: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int], /) -> Array:
    """Axes moved to new places, the others in their order; a view."""
    array = as_array(x)
    sources = normalize_axes(source, array.ndim, "moveaxis")
    targets = normalize_axes(destination, array.ndim, "moveaxis")
    if len(sources) != len(targets):
        raise ValueError(f"moveaxis: {len(sources)} axes do not go to {len(targets)} places")
    order = [axis for axis in range(array.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return array.transpose(order) if order else array


def expand_dims(x: ArrayLike, /, axis: int | Sequence[int] = 0) -> Array:
    """New axes of extent 1 at the places ``axis`` of the result; a view."""
    array = as_array(x)
    count = len(axis) if isinstance(axis, Sequence) else 1
    places = normalize_axes(axis, array.ndim + count, "expand_dims")
    return array[tuple(None if place in places else slice(None) for place in range(array.ndim + count))]


def squeeze(x: ArrayLike, /, axis: Axis = None) -> Array:
    """Without axes of extent 1, or without those named; a view."""
    return as_array(x).squeeze(axis)


def flip(x: ArrayLike, /, axis: Axis = None) -> Array:
    """Reversed along ``axis``, or along all; a view."""
    array = as_array(x)
    axes = normalize_axes(axis, array.ndim, "flip")
    return array[tuple(slice(None, None, -1) if place in axes else slice(None) for place in range(array.ndim))]


def broadcast_to(x: ArrayLike, /, shape: Int | Sequence[Int]) -> Array:
    """``x`` repeated along new and stretched axes; a view that cannot be written."""
    array = as_array(x)
    target = tuple(map(as_int, shape if isinstance(shape, Sequence) else (shape,)))
    return array._view(0, target, broadcast_strides(array.shape, array.strides, target))


def broadcast_arrays(*arrays: ArrayLike) -> tuple[Array, ...]:
    """Views of all arrays under their common shape."""
    given = [as_array(each) for each in arrays]
    shape = broadcast("broadcast_arrays", [each.shape for each in given])
    return tuple(broadcast_to(each, shape) for each in given)


def broadcast_shapes(*shapes: Sequence[Int]) -> tuple[Int, ...]:
    """The common shape of ``shapes``. ValueError where they have none."""
    return broadcast("broadcast_shapes", [tuple(map(as_int, shape)) for shape in shapes])


def meshgrid(*arrays: ArrayLike, indexing: str = "xy") -> tuple[Array, ...]:
    """Coordinates of a grid from those along each axis, as new arrays of one shape.

    With "ij" the axes of the result are those of the arrays; with "xy" the first two are exchanged.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f'meshgrid: indexing is "xy" or "ij", not {indexing!r}')
    given = [as_array(each).ravel() for each in arrays]
    spread = [
        each.reshape(tuple(-1 if axis == place else 1 for axis in range(len(given))))
        for place, each in enumerate(given)
    ]
    if indexing == "xy" and len(spread) > 1:
        spread = [each.swapaxes(0, 1) for each in spread]
    return tuple(each.copy() for each in broadcast_arrays(*spread))


def concatenate(arrays: Sequence[ArrayLike], /, axis: int | None = 0) -> Array:
    """Arrays joined along an axis, flattened first with ``axis=None``; dtypes are promoted."""
    given = [as_array(each) for each in arrays]
    if not given:
        raise ValueError("concatenate needs at least one array")
    if axis is None:
        return apply("concatenate", [each.ravel() for each in given], (0,))
    if len({each.ndim for each in given}) > 1 or given[0].ndim == 0:
        shapes = ", ".join(str(each.shape) for each in given)
        raise ValueError(
            f"concatenate joins arrays of equal ndim, at least 1; got shapes {shapes}; stack makes a new axis"
        )
    return apply("concatenate", given, (normalize_axis(axis, given[0].ndim, "concatenate"),))


def stack(arrays: Sequence[ArrayLike], /, axis: int = 0) -> Array:
    """Arrays of one shape joined along a new axis."""
    given = [as_array(each) for each in arrays]
    if len({each.shape for each in given}) != 1:
        raise ValueError(f"stack joins arrays of one shape, got {', '.join(str(each.shape) for each in given)}")
    place = normalize_axis(axis, given[0].ndim + 1, "stack")
    return concatenate([expand_dims(each, place) for each in given], axis=place)


def split(x: ArrayLike, indices_or_sections: int | Sequence[Int], /, axis: int = 0) -> list[Array]:
    """Parts along ``axis``: that many equal ones, or cut before each index; views."""
    array = as_array(x)
    place = normalize_axis(axis, array.ndim, "split")
    extent = array.shape[place]
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1 or extent % indices_or_sections:
            raise ValueError(f"split: extent {extent} does not divide into {indices_or_sections} equal parts")
        step = extent // indices_or_sections
        cuts = [step * position for position in range(1, indices_or_sections)]
    else:
        cuts = list(indices_or_sections)
    lead = (slice(None),) * place
    return [array[(*lead, slice(low, high))] for low, high in zip([0, *cuts], [*cuts, extent], strict=True)]


def unstack(x: ArrayLike, /, axis: int = 0) -> tuple[Array, ...]:
    """The parts along ``axis``, without it; views."""
    return tuple(moveaxis(as_array(x), axis, 0))


def roll(x: ArrayLike, /, shift: Int | Sequence[Int], axis: int | Sequence[int] | None = None) -> Array:
    """Elements shifted along ``axis``, or in the flattened array; those that fall off come in at the front.

    Several axes with a shift each, or one for all.
    """
    array = as_array(x)
    if axis is None:
        return roll(array.ravel(), shift, axis=0).reshape(array.shape)
    axes = axis if isinstance(axis, Sequence) else (axis,)
    shifts = shift if isinstance(shift, Sequence) else (shift,) * len(axes)
    if len(axes) == 1 < len(shifts):
        axes = (axes[0],) * len(shifts)
    if len(axes) != len(shifts):
        raise ValueError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    for step, place in zip(shifts, axes, strict=True):
        array = _rolled(array, step, normalize_axis(place, array.ndim, "roll"))
    return array if shifts else array.copy()


def _rolled(array: Array, shift: Int, place: int) -> Array:
    extent = array.shape[place]
    cut = 0 if same(extent, 0) else -shift % extent
    lead = (slice(None),) * place
    return concatenate([array[(*lead, slice(cut, None))], array[(*lead, slice(None, cut))]], axis=place)


def repeat(x: ArrayLike, repeats: Int | ArrayLike, /, *, axis: int | None = None) -> Array:
    """Each element ``repeats`` times in a row along ``axis``, or of the flattened array.

    ``repeats`` has one count for all or one for each element along the axis. Counts are needed for the shape: those of
    an array are read, which a captured function may not do (``HostReadError``); a list or a NumPy array is known.
    """
    array = as_array(x)
    if axis is None:
        return repeat(array.ravel(), repeats, axis=0)
    place = normalize_axis(axis, array.ndim, "repeat")
    if not isinstance(repeats, (int, Expr, np.integer)):
        counts = repeats._host("repeat") if isinstance(repeats, Array) else np.asarray(repeats)
        if counts.size != 1:
            return take(array, np.repeat(np.arange(array.shape[place]), counts), axis=place)
        repeats = counts.item()
    count, shape = as_int(repeats), array.shape
    if count < 0:
        raise ValueError(f"repeat: counts are at least 0, got {count}")
    spread = broadcast_to(expand_dims(array, place + 1), (*shape[: place + 1], count, *shape[place + 1 :]))
    return spread.copy().reshape(*shape[:place], shape[place] * count, *shape[place + 1 :])


def tile(x: ArrayLike, repetitions: int | Sequence[int], /) -> Array:
    """The whole array repeated along each axis."""
    array = as_array(x)
    counts = list(repetitions) if isinstance(repetitions, Sequence) else [repetitions]
    ndim = max(array.ndim, len(counts))
    shape = (*(1,) * (ndim - array.ndim), *array.shape)
    counts = [1] * (ndim - len(counts)) + counts
    pairs = [extent for pair in zip(counts, shape, strict=True) for extent in pair]
    spaced = array.reshape(tuple(extent for each in shape for extent in (1, each)))
    return (
        broadcast_to(spaced, pairs).copy().reshape(tuple(math.prod(pair) for pair in zip(counts, shape, strict=True)))
    )


def take(x: ArrayLike, indices: ArrayLike, /, axis: int | None = None) -> Array:
    """Elements at integer ``indices`` along ``axis``, or of the flattened array; out of bounds fails when it runs."""
    array = as_array(x)
    if axis is None:
        return take(array.ravel(), indices, axis=0)
    return apply("take", (array, as_array(indices)), (normalize_axis(axis, array.ndim, "take"),))


def _triangle(name: str, x: ArrayLike, k: Int) -> Array:
    array = as_array(x)
    if array.ndim < 2:
        raise ValueError(f"{name} takes at least two axes, got shape {array.shape}")
    return apply(name, (array,), (as_int(k),))


def tril(x: ArrayLike, /, k: Int = 0) -> Array:
    """``x`` with zeros above diagonal ``k`` of the last two axes."""
    return _triangle("tril", x, k)


def triu(x: ArrayLike, /, k: Int = 0) -> Array:
    """``x`` with zeros below diagonal ``k`` of the last two axes."""
    return _triangle("triu", x, k)
