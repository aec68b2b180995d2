"""Operations that read or write where an array of integers says.

Law: negative indices count from the end, others out of bounds fail when the kernel runs. What writes
changes an array that exists, in the order of the updates, so that of several updates of one element the last one
stays; with a reduction all of them count.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, cast

import numpy as np

from asyncjit.ir import Operand
from asyncjit.ops._blockwise import row_blocks
from asyncjit.ops._spec import NumPyKernel, Op, Params, Shape, Spec, broadcast, register, same_shape

__all__ = ["REDUCTIONS"]

#: What becomes of an element and its update; None: the update.
REDUCTIONS: dict[str, np.ufunc | None] = {
    "none": None,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _check(name: str, index: Spec) -> None:
    if index.dtype.kind not in "iu":
        raise TypeError(f"{name}: an index array has integers, got {index.dtype}; use astype, or where for a mask")


def _infer_take_along(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    (axis,) = cast("tuple[int]", params)
    source, index = specs
    _check("take_along_axis", index)
    if len(source.shape) != len(index.shape):
        raise ValueError(
            f"take_along_axis: an array of shape {source.shape} and indices of shape {index.shape} differ in the "
            "number of axes; give the indices axes of extent 1"
        )
    shape = broadcast("take_along_axis", [_without(source.shape, axis), _without(index.shape, axis)])
    return (Spec((*shape[:axis], index.shape[axis], *shape[axis + 1 :]), source.dtype),)


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _take_along(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    (axis,) = cast("tuple[int]", params)

    def run(source: Any, index: Any, out: Any) -> None:
        rows, places, target = (np.moveaxis(each, axis, -1) for each in (source, index, out))
        if rows.ndim == 1:
            target[...] = rows[places]
            return
        # Rows of all three side by side; a stretched axis is a view.
        lead = target.shape[:-1]
        rows = np.broadcast_to(rows, (*lead, rows.shape[-1]))
        places = np.broadcast_to(places, (*lead, places.shape[-1]))
        for part in row_blocks(lead[0], target[:1].nbytes):
            target[part] = np.take_along_axis(rows[part], places[part], -1)

    return run


def _infer_put_along(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    values, index = specs
    _check("scatter_along_axis", index)
    if not same_shape(values.shape, index.shape):
        raise ValueError(f"scatter_along_axis: indices of shape {index.shape} and values of shape {values.shape}")
    return (Spec((), values.dtype),)


def _put_along(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    axis, reduction = cast("tuple[int, str]", params)
    change = REDUCTIONS[reduction]

    def run(values: Any, index: Any, target: Any) -> None:
        others = np.ogrid[tuple(slice(extent) for extent in index.shape)]
        key = tuple(index if place == axis else other for place, other in enumerate(others))
        _write(change, target, key, values)

    return run


def _write(change: np.ufunc | None, target: Any, key: tuple[Any, ...], values: Any) -> None:
    if change is None:
        target[key] = values
    else:
        change.at(target, key, values)


def _infer_gather_nd(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    (batch_ndim,) = cast("tuple[int]", params)
    source, index = specs
    _check("gather_nd", index)
    depth = index.shape[-1] if index.shape else 0
    fits = len(index.shape) > batch_ndim and same_shape(source.shape[:batch_ndim], index.shape[:batch_ndim])
    if not fits or not 0 < depth <= len(source.shape) - batch_ndim:
        raise ValueError(
            f"gather_nd: indices of shape {index.shape} for an array of shape {source.shape} with {batch_ndim} batch "
            "axes; the last axis of the indices holds one index for each of the axes after those of the batch"
        )
    return (Spec((*index.shape[:-1], *source.shape[batch_ndim + depth :]), source.dtype),)


def _gather_nd(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    (batch_ndim,) = cast("tuple[int]", params)

    def run(source: Any, index: Any, out: Any) -> None:
        depth = index.shape[-1]
        count = prod(index.shape[:-1])
        if not out.size:
            return
        batches = prod(index.shape[:batch_ndim])
        rows = source.reshape(batches, *source.shape[batch_ndim:])
        places = index.reshape(count, depth)
        target = out.reshape(count, *rows.shape[1 + depth :])
        for part in row_blocks(count, target[:1].nbytes):
            batch = np.arange(part.start, min(part.stop, count)) // (count // batches)
            target[part] = rows[(batch, *places[part].T)]

    return run


def _infer_scatter_nd(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """Only with an output that exists; the surface has compared the updates with it."""
    values, index = specs
    _check("scatter_nd", index)
    if not index.shape or not same_shape(values.shape[: len(index.shape) - 1], index.shape[:-1]):
        raise ValueError(f"scatter_nd: indices of shape {index.shape} and values of shape {values.shape}")
    return (Spec((), values.dtype),)


def _scatter_nd(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    (reduction,) = cast("tuple[str]", params)
    change = REDUCTIONS[reduction]

    def run(values: Any, index: Any, target: Any) -> None:
        _write(change, target, tuple(np.moveaxis(index, -1, 0)), values)

    return run


_IN_PLACE = partial(Op, assigns=True, reads_output=True)

register(Op(name="take_along_axis", infer=_infer_take_along, kernel=_take_along))
register(_IN_PLACE(name="scatter_along_axis", infer=_infer_put_along, kernel=_put_along))
register(Op(name="gather_nd", infer=_infer_gather_nd, kernel=_gather_nd))
register(_IN_PLACE(name="scatter_nd", infer=_infer_scatter_nd, kernel=_scatter_nd))
