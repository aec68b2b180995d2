"""Views as arithmetic on shapes and strides, with NumPy's results.

Law: pure functions on tuples of ints; a view is ``(offset in bytes, shape, strides in bytes)``. No array, no value.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

__all__ = ["Layout", "broadcast_strides", "expand_ellipsis", "index", "normalize_axes", "normalize_axis", "reshape"]

Shape: TypeAlias = tuple[int, ...]
Layout: TypeAlias = "tuple[int, Shape, Shape]"


def normalize_axis(axis: Any, ndim: int, name: str) -> int:
    """``axis`` counted from the front."""
    position = operator.index(axis)
    if not -ndim <= position < ndim:
        raise ValueError(f"{name}: axis {position} is out of bounds for an array of {ndim} dimensions")
    return position % ndim


def normalize_axes(axis: int | Sequence[int] | None, ndim: int, name: str) -> Shape:
    """Axes counted from the front, in the given order; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(normalize_axis(each, ndim, name) for each in given)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: axis {axis} names an axis twice")
    return axes


def resolve_shape(shape: int | Sequence[int], size: int) -> Shape:
    """A target shape for ``size`` elements with its one -1 worked out."""
    wanted = [operator.index(each) for each in (shape if isinstance(shape, (tuple, list)) else (shape,))]
    if wanted.count(-1) > 1 or any(extent < -1 for extent in wanted):
        raise ValueError(f"reshape: {tuple(wanted)} is no shape; at most one extent is -1, the others count elements")
    if -1 in wanted:
        rest = prod(extent for extent in wanted if extent != -1)
        if rest == 0 or size % rest:
            raise ValueError(f"reshape: {size} elements do not divide into shape {tuple(wanted)}")
        wanted[wanted.index(-1)] = size // rest
    if prod(wanted) != size:
        raise ValueError(f"reshape: shape {tuple(wanted)} has {prod(wanted)} elements, the array {size}")
    return tuple(wanted)


def reshape(shape: Shape, strides: Shape, target: Shape) -> Shape | None:
    """Strides of a view of shape ``target`` on the same elements in C order, or None when only a copy will do.

    Both shapes fall apart into groups of neighbouring axes with equal products; a group is a view when the source axes
    in it run through memory as one axis would. Axes of extent 1 take no part. Sizes are equal and not 0.
    """
    old = [(extent, stride) for extent, stride in zip(shape, strides, strict=True) if extent != 1]
    result = [0] * len(target)
    taken = 0
    position = 0
    while position < len(target) and taken < len(old):
        first_old, first_new = taken, position
        old_count, new_count = old[taken][0], target[position]
        while old_count != new_count:
            if new_count < old_count:
                position += 1
                new_count *= target[position]
            else:
                taken += 1
                old_count *= old[taken][0]
        for axis in range(first_old, taken):
            if old[axis][1] != old[axis + 1][0] * old[axis + 1][1]:
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
        extent in (1, wanted) for extent, wanted in zip(shape, target[max(lead, 0) :], strict=True)
    )
    if not fits:
        raise ValueError(f"broadcast_to: shape {shape} does not broadcast to {target}")
    kept = (
        0 if extent == 1 and wanted != 1 else stride
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
    offset = axis = 0
    new_shape: list[int] = []
    new_strides: list[int] = []
    for part in key:
        if part is None:
            new_shape.append(1)
            new_strides.append(0)
            continue
        extent, stride = shape[axis], strides[axis]
        if isinstance(part, slice):
            start, stop, step = part.indices(extent)
            count = len(range(start, stop, step))
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
