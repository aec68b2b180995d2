"""Views as arithmetic on shapes and strides, with NumPy's results.

Law: pure functions on tuples of integers, known or symbolic; a view is ``(offset in bytes, shape, strides in bytes)``.
No array, no value.

Symbolic extents compare by structure: two of them are one extent where they are equal for all values, and none counts
as 1. Slices of what is symbolic clamp as NumPy's do, and are as short as the values make them.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

from asyncjit.numpy._handle import Shape
from asyncjit.symbols import Expr, Int, combine, lower, same
from asyncjit.variables import has_symbols

__all__ = [
    "Layout",
    "as_int",
    "broadcast_strides",
    "expand_ellipsis",
    "index",
    "normalize_axes",
    "normalize_axis",
    "reshape",
]

Layout: TypeAlias = "tuple[Int, Shape, Shape]"


def as_int(value: Any) -> Int:
    """An integer, or a symbolic one as it is.

    Raises:
        TypeError: something else.
    """
    return value if isinstance(value, Expr) else operator.index(value)


def normalize_axis(axis: Any, ndim: int, name: str) -> int:
    """``axis`` counted from the front."""
    position = operator.index(axis)
    if not -ndim <= position < ndim:
        raise ValueError(f"{name}: axis {position} is out of bounds for an array of {ndim} dimensions")
    return position % ndim


def normalize_axes(axis: int | Sequence[int] | None, ndim: int, name: str) -> tuple[int, ...]:
    """Axes counted from the front, in the given order; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(normalize_axis(each, ndim, name) for each in given)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: axis {axis} names an axis twice")
    return axes


def resolve_shape(shape: Int | Sequence[Int], size: Int) -> Shape:
    """A target shape for ``size`` elements with its one -1 worked out."""
    wanted = [as_int(each) for each in (shape if isinstance(shape, (tuple, list)) else (shape,))]
    open_axes = [axis for axis, extent in enumerate(wanted) if same(extent, -1)]
    if len(open_axes) > 1 or any(lower(extent) < -1 for extent in wanted):
        raise ValueError(f"reshape: {tuple(wanted)} is no shape; at most one extent is -1, the others count elements")
    if open_axes:
        rest = prod(extent for axis, extent in enumerate(wanted) if axis != open_axes[0])
        if same(rest, 0) or not same(size % rest, 0):
            raise ValueError(f"reshape: {size} elements do not divide into shape {tuple(wanted)}")
        wanted[open_axes[0]] = size // rest
    if not same(prod(wanted), size):
        raise ValueError(f"reshape: shape {tuple(wanted)} has {prod(wanted)} elements, the array {size}")
    return tuple(wanted)


def reshape(shape: Shape, strides: Shape, target: Shape) -> Shape | None:
    """Strides of a view of shape ``target`` on the same elements in C order, or None when only a copy will do.

    Both shapes fall apart into groups of neighbouring axes with equal products; a group is a view when the source axes
    in it run through memory as one axis would, whatever the values of symbols. Axes of extent 1 take no part. Sizes are
    equal and not 0.
    """
    old = [(extent, stride) for extent, stride in zip(shape, strides, strict=True) if not same(extent, 1)]
    result: list[Int] = [0] * len(target)
    taken = 0
    position = 0
    while position < len(target) and taken < len(old):
        first_old, first_new = taken, position
        old_count, new_count = old[taken][0], target[position]
        while not same(old_count, new_count):
            if new_count < old_count:
                position += 1
                new_count *= target[position]
            else:
                taken += 1
                old_count *= old[taken][0]
        for axis in range(first_old, taken):
            if not same(old[axis][1], old[axis + 1][0] * old[axis + 1][1]):
                return None
        step = old[taken][1]
        for axis in range(position, first_new - 1, -1):
            result[axis] = step
            step *= target[axis]
        taken += 1
        position += 1
    # What is left has extent 1; its strides continue the last group, as NumPy's do.
    rest = result[position - 1] if position else None
    for axis in range(position, len(target)):
        result[axis] = rest if rest is not None else 0
    return tuple(result)


def broadcast_strides(shape: Shape, strides: Shape, target: Shape) -> Shape:
    """Strides that repeat the elements along new and stretched axes."""
    lead = len(target) - len(shape)
    fits = lead >= 0 and all(
        same(extent, 1) or same(extent, wanted) for extent, wanted in zip(shape, target[max(lead, 0) :], strict=True)
    )
    if not fits:
        raise ValueError(f"broadcast_to: shape {shape} does not broadcast to {target}")
    kept = (
        0 if same(extent, 1) and not same(wanted, 1) else stride
        for extent, wanted, stride in zip(shape, target[lead:], strides, strict=True)
    )
    return (*(0,) * lead, *kept)


def expand_ellipsis(key: tuple[Any, ...], ndim: int) -> list[Any]:
    """The key with one entry for each axis: an Ellipsis, or what is missing at the end, becomes full slices."""
    dots = [position for position, part in enumerate(key) if part is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index has at most one Ellipsis")
    used = sum(part is not None and part is not Ellipsis for part in key)
    if used > ndim:
        raise IndexError(f"{used} indices for an array of {ndim} dimensions")
    place = dots[0] if dots else len(key)
    return [*key[:place], *[slice(None)] * (ndim - used), *key[place + len(dots) :]]


def index(shape: Shape, strides: Shape, key: Sequence[Any]) -> Layout:
    """The view that a basic key (integers, slices, None; already expanded) selects; with no element, anywhere.

    Raises:
        IndexError: an integer out of bounds.
    """
    offset: Int = 0
    axis = 0
    new_shape: list[Int] = []
    new_strides: list[Int] = []
    for part in key:
        if part is None:
            new_shape.append(1)
            new_strides.append(0)
            continue
        extent, stride = shape[axis], strides[axis]
        if isinstance(part, slice):
            start, count, step = _section(part, extent)
            offset += start * stride
            new_shape.append(count)
            new_strides.append(stride * step)
        else:
            position = part + extent if part < 0 else part
            if not 0 <= position < extent:
                raise IndexError(f"index {part} is out of bounds for axis {axis} of extent {extent}")
            offset += position * stride
        axis += 1
    return offset, tuple(new_shape), tuple(new_strides)


def _section(part: slice, extent: Int) -> tuple[Int, Int, int]:
    """First position, number of elements and step of a slice of an axis.

    Raises:
        HostReadError: a symbolic bound may count from either end.
    """
    if not has_symbols((extent, part.start, part.stop, part.step)):
        start, stop, step = part.indices(extent)
        return start, len(range(start, stop, step)), step
    step = 1 if part.step is None else operator.index(part.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        # Read backwards from ``start`` down to above ``stop``: clamped to -1 and the last position.
        first = extent - 1 if part.start is None else _clamped(as_int(part.start), extent, -1)
        last = -1 if part.stop is None else _clamped(as_int(part.stop), extent, -1)
        return first, combine("max", (first - last - step - 1) // -step, 0), step
    first = 0 if part.start is None else _clamped(as_int(part.start), extent, 0)
    # The end is clamped as a distance from the start, in which the symbols that both have in common cancel.
    room = extent - first
    length = room if part.stop is None else combine("min", _from_front(as_int(part.stop), extent) - first, room)
    return first, combine("max", (length + step - 1) // step, 0), step


def _from_front(bound: Int, extent: Int) -> Int:
    return bound + extent if bound < 0 else bound


def _clamped(bound: Int, extent: Int, low: int) -> Int:
    return combine("min", combine("max", _from_front(bound, extent), low), extent + low)
