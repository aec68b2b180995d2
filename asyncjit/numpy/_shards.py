"""How operations on sharded arrays become operations on shards, and where shards have to meet.

Law: lists of arrays in, lists of arrays out; every copy and every sum is an ordinary call. What a sharded array looks
like to its user is ``_sharded``.

An axis is counted from the end here, so that it means the same for operands that broadcast; None is an array that every
device holds whole. Where shards meet, all partial results are copied to all devices and combined there in the order of
the shards, so that what the devices hold afterwards is equal bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np

from asyncjit.errors import DeviceError
from asyncjit.numpy._array import Array
from asyncjit.numpy._creation import asarray
from asyncjit.numpy._dispatch import transfer
from asyncjit.numpy._elementwise import NUMBERS, elementwise
from asyncjit.numpy._folds import Axis
from asyncjit.numpy._layout import normalize_axes

__all__ = [
    "Parts",
    "Shards",
    "elementwise_parts",
    "fold_parts",
    "matmul_parts",
    "mean_parts",
    "meet",
    "split_parts",
    "spread_parts",
    "var_parts",
]


class Shards(Protocol):
    """What is known of a sharded array here."""

    @property
    def shards(self) -> tuple[Array, ...]: ...

    @property
    def axis(self) -> int | None: ...

    @property
    def ndim(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


#: One array a device, and the axis along which they are parts, from the end.
Parts: TypeAlias = "tuple[list[Array], int | None]"

#: What combines the partial results of a reduction.
_COMBINE = {
    "sum": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}


def split_parts(x: Array, devices: Sequence[str], axis: int | None) -> list[Array]:
    """Equal parts of ``x`` along ``axis``, the first ones longer by one where they cannot be; or all of it each."""
    if axis is None:
        return [transfer(x, device) for device in devices]
    size, longer = divmod(x.shape[axis], len(devices))
    ends = accumulate((size + (index < longer) for index in range(len(devices))), initial=0)
    return [
        transfer(_sliced(x, axis - x.ndim, bounds), device)
        for device, bounds in zip(devices, pairwise(ends), strict=True)
    ]


def _from_end(x: Shards) -> int | None:
    return None if x.axis is None else x.axis - x.ndim


def _bounds(x: Shards) -> list[tuple[int, int]]:
    axis = x.axis
    assert axis is not None
    return list(pairwise(accumulate((shard.shape[axis] for shard in x.shards), initial=0)))


def _sliced(x: Any, axis: int, bounds: tuple[int, int]) -> Any:
    return x[(..., slice(*bounds), *[slice(None)] * (-1 - axis))]


def _devices(operands: Sequence[Any]) -> list[str]:
    """The devices that all sharded operands share."""
    found = [[shard.device for shard in each.shards] for each in operands if hasattr(each, "shards")]
    for other in found[1:]:
        if other != found[0]:
            raise DeviceError(
                f"operands are sharded over {found[0]} and over {other}; gather one and shard it over the same devices",
                given=(tuple(found[0]), tuple(other)),
            )
    return found[0]


def _on_each(
    value: Any, devices: Sequence[str], axis: int | None = None, bounds: Sequence[tuple[int, int]] = ()
) -> list[Any]:
    """``value`` for each device: its shards, or what is copied there; a part of it where it has that axis whole."""
    if isinstance(value, NUMBERS) or (isinstance(value, Array) and value._spec.weak):
        return [value] * len(devices)
    if hasattr(value, "shards"):
        pieces: list[Any] = list(value.shards)
        is_whole = value.axis is None
    else:
        host = value if isinstance(value, Array) else np.asarray(value)
        pieces, is_whole = [host] * len(devices), True
    if is_whole and axis is not None and pieces[0].ndim >= -axis and pieces[0].shape[axis] != 1:
        pieces = [_sliced(piece, axis, each) for piece, each in zip(pieces, bounds, strict=True)]
    return [asarray(piece, device=device) for piece, device in zip(pieces, devices, strict=True)]


def elementwise_parts(name: str, args: Sequence[Any], out: Shards | None, operator: bool) -> Parts:
    """An elementwise operation, each shard on its own."""
    operands = [*args] if out is None else [*args, out]
    devices = _devices(operands)
    sharded = [each for each in operands if hasattr(each, "shards") and each.axis is not None]
    axes = {_from_end(each) for each in sharded}
    if len(axes) > 1 or len({tuple(_bounds(each)) for each in sharded}) > 1:
        raise _mismatch(name, sharded)
    axis = axes.pop() if axes else None
    if out is not None and out.axis is None and axis is not None:
        raise _mismatch(name, operands)
    bounds = _bounds(sharded[0]) if sharded else ()
    columns = [_on_each(arg, devices, axis, bounds) for arg in args]
    outs: Sequence[Array | None] = [None] * len(devices) if out is None else out.shards
    results = [
        elementwise(name, row, Array, out=target, operator=operator)
        for row, target in zip(zip(*columns, strict=True), outs, strict=True)
    ]
    return results, axis


def _mismatch(name: str, operands: Sequence[Any]) -> ValueError:
    shown = " and ".join(f"shape {each.shape} along axis {each.axis}" for each in operands if hasattr(each, "shards"))
    return ValueError(
        f"{name}: operands are sharded differently ({shown}); counted from the last axis, axis and parts must be "
        "the same: gather one operand, and shard it as the other"
    )


def spread_parts(value: Any, like: Shards) -> list[Any]:
    """``value`` as ``like`` is sharded, to be written there."""
    devices, axis = _devices((value, like)), _from_end(like)
    is_part = hasattr(value, "shards") and value.axis is not None
    if is_part and (_from_end(value) != axis or _bounds(value) != _bounds(like)):
        raise _mismatch("assignment", (value, like))
    return _on_each(value, devices, axis, [] if axis is None else _bounds(like))


def meet(partial: Sequence[Array], combine: str) -> list[Array]:
    """Partial results combined, in the order of the shards, on every device."""
    totals = []
    for target in partial:
        here = [each.to_device(target.device) for each in partial]
        total = here[0]
        for each in here[1:]:
            total = elementwise(combine, (total, each), Array)
        totals.append(total)
    return totals


def fold_parts(x: Shards, name: str, axis: Axis, keepdims: bool, **options: Any) -> Parts:
    """A reduction: over other axes each shard on its own, over the sharded one they meet."""
    axes = normalize_axes(axis, x.ndim, name)
    partial = [getattr(shard, name)(tuple(axes), keepdims=keepdims, **options) for shard in x.shards]
    if x.axis in axes:
        return meet(partial, _COMBINE[name]), None
    return partial, _left(x, axes, keepdims)


def _left(x: Shards, axes: Sequence[int], keepdims: bool) -> int | None:
    """Where the axis of the shards stands when ``axes``, others, have gone."""
    if x.axis is None:
        return None
    return x.axis - x.ndim + (0 if keepdims else sum(each > x.axis for each in axes))


def mean_parts(x: Shards, axis: Axis, keepdims: bool) -> Parts:
    """The mean, as sums that are divided once they have met."""
    axes = normalize_axes(axis, x.ndim, "mean")
    if x.axis not in axes:
        return [shard.mean(tuple(axes), keepdims=keepdims) for shard in x.shards], _left(x, axes, keepdims)
    dtype = x.shards[0].dtype
    wanted = dtype if dtype.kind in "fc" else np.dtype(np.float64)
    totals, _ = fold_parts(x, "sum", axis, keepdims, dtype=_sum_dtype(wanted))
    count = prod(x.shape[each] for each in axes)
    return [(total / count).astype(wanted, copy=False) for total in totals], None


def _sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """As NumPy does: halves are summed in single precision."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def var_parts(x: Shards, axis: Axis, ddof: float, keepdims: bool) -> Parts:
    """The variance: the mean meets, and then the sum of the squared deviations from it."""
    axes = normalize_axes(axis, x.ndim, "var")
    if x.axis not in axes:
        partial = [shard.var(tuple(axes), ddof=ddof, keepdims=keepdims) for shard in x.shards]
        return partial, _left(x, axes, keepdims)
    means, _ = mean_parts(x, axis, True)
    partial = []
    for shard, mean in zip(x.shards, means, strict=True):
        sizes = elementwise("absolute", (shard - mean,), Array)
        partial.append((sizes * sizes).sum(tuple(axes), dtype=_sum_dtype(sizes.dtype), keepdims=keepdims))
    divisor = max(prod(x.shape[each] for each in axes) - ddof, 0)
    wanted = np.dtype(np.float16) if x.shards[0].dtype == np.float16 else partial[0].dtype
    return [(total / divisor).astype(wanted, copy=False) for total in meet(partial, "add")], None


def matmul_parts(left: Any, right: Any) -> Parts:
    """A product: rows and columns stay where they are, over the axis that is summed shards meet."""
    devices = _devices((left, right))
    left, right = (each if hasattr(each, "shards") else asarray(each) for each in (left, right))
    rows, columns = (_from_end(each) if hasattr(each, "shards") else None for each in (left, right))
    summed = -1 if right.ndim == 1 else -2
    if rows == -1 or columns == summed:
        if rows not in (None, -1) or columns not in (None, summed):
            raise _mismatch("matmul", (left, right))
        bounds = _bounds(left if rows == -1 else right)
        if rows is not None and columns is not None and _bounds(right) != bounds:
            raise _mismatch("matmul", (left, right))
        lefts, rights = _on_each(left, devices, -1, bounds), _on_each(right, devices, summed, bounds)
        return meet([a @ b for a, b in zip(lefts, rights, strict=True)], "add"), None
    if rows is not None and columns is not None and (rows != columns or _bounds(left) != _bounds(right)):
        raise _mismatch("matmul", (left, right))
    stack = next((axis for axis in (rows, columns) if axis is not None and axis <= -3), None)
    bounds = _bounds(left if rows is not None else right) if stack is not None else []
    lefts, rights = _on_each(left, devices, stack, bounds), _on_each(right, devices, stack, bounds)
    results = [a @ b for a, b in zip(lefts, rights, strict=True)]
    if rows is not None:
        return results, rows + (right.ndim == 1)
    return results, columns if columns is None or columns == -1 else columns + (left.ndim == 1)
