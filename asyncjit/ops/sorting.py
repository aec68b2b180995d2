"""Operations that order elements along an axis.

Law: equal elements keep their order, in descending order too; nan counts as the largest. Parameters begin with the
axis, counted from the front. What NumPy only gives as a new array is made block by block of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._blockwise import BLOCK_BYTES, row_blocks
from asyncjit.ops._spec import NumPyKernel, Op, Params, Spec, register

__all__: list[str] = []


def _cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    size = inputs[0].size
    flops = int(size * (2 + log2(max(size, 2))))
    return Cost(flops, sum(spec.nbytes for spec in (*inputs, *outputs)))


def _infer_sort(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    return (Spec(specs[0].shape, specs[0].dtype),)


def _infer_argsort(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    return (Spec(specs[0].shape, np.dtype(np.intp)),)


def _sort(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    axis, descending = cast("tuple[int, bool]", params)

    def run(x: Any, out: Any) -> None:
        np.copyto(out, x)
        # Sorted upwards from its end, an array stands in descending order, equal elements as they stood.
        (np.flip(out, axis) if descending else out).sort(axis, kind="stable")

    return run


def _order(rows: Any, descending: bool) -> Any:
    """Positions that sort the last axis."""
    if not descending:
        return rows.argsort(-1, kind="stable")
    backwards = rows[..., ::-1].argsort(-1, kind="stable")[..., ::-1]
    return np.subtract(rows.shape[-1] - 1, backwards, out=backwards)


def _argsort(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    axis, descending = cast("tuple[int, bool]", params)

    def run(x: Any, out: Any) -> None:
        rows, places = np.moveaxis(x, axis, -1), np.moveaxis(out, axis, -1)
        if rows.ndim == 1:
            places[...] = _order(rows, descending)
            return
        for part in row_blocks(len(rows), places[:1].nbytes):
            places[part] = _order(rows[part], descending)

    return run


def _infer_top_k(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    axis, count, _ = cast("tuple[int, int, bool]", params)
    (spec,) = specs
    if not 0 <= count <= spec.shape[axis]:
        raise ValueError(f"top_k: {count} elements of an axis of extent {spec.shape[axis]}, shape {spec.shape}")
    shape = (*spec.shape[:axis], count, *spec.shape[axis + 1 :])
    return Spec(shape, spec.dtype), Spec(shape, np.dtype(np.intp))


def _top_k(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    axis, count, largest = cast("tuple[int, int, bool]", params)

    def run(x: Any, values: Any, indices: Any) -> None:
        rows, best, places = (np.moveaxis(each, axis, -1) for each in (x, values, indices))
        if rows.ndim == 1:
            rows, best, places = rows[None], best[None], places[None]
        for part in row_blocks(len(rows), rows[:1].size * 8):
            chosen = _first(rows[part], count, largest)
            places[part] = chosen
            best[part] = np.take_along_axis(rows[part], chosen, -1)

    return run


def _first(rows: Any, count: int, largest: bool) -> Any:
    """Positions of the ``count`` first elements of the last axis in that order."""
    if count == 1:
        return rows.argmax(-1, keepdims=True) if largest else rows.argmin(-1, keepdims=True)
    extent = rows.shape[-1]
    if extent < _LONG or count * 8 > extent:
        return _order(rows, largest)[..., :count]
    flat = rows.reshape(-1, extent)
    return np.array([_few(row, count, largest) for row in flat]).reshape(*rows.shape[:-1], count)


# Rows from which on it pays to find the last of the chosen ones first and to sort those alone: the best 300 of 8,400
# float32 take 54 us so and 634 us by sorting all, the best 10 of 1,000 in 64 rows 1.1 ms and 12 ms (min of 7, in one
# process).
_LONG = 1000


def _few(row: Any, count: int, largest: bool) -> Any:
    """The same for one row, by the value of the last one: all that are as good, in their order, then sorted."""
    place = row.size - count if largest else count - 1
    last = np.partition(row, place)[place]
    found = (row >= last if largest else row <= last).nonzero()[0]
    if found.size < count or (largest and row.dtype.kind in "fc" and np.isnan(row).any()):
        # nan, which is like nothing, stands among them.
        return _order(row, largest)[:count]
    return found[_order(row[found], largest)[:count]]


def _infer_searchsorted(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    haystack, needles = specs
    if len(haystack.shape) != 1:
        raise ValueError(f"searchsorted: the sorted array has one axis, got shape {haystack.shape}")
    if haystack.dtype != needles.dtype:
        raise TypeError(f"searchsorted: dtypes {haystack.dtype} and {needles.dtype} differ; use astype on one")
    return (Spec(needles.shape, np.dtype(np.intp)),)


def _searchsorted(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    (side,) = cast("tuple[str]", params)

    def run(haystack: Any, needles: Any, out: Any) -> None:
        if needles.nbytes <= BLOCK_BYTES or not needles.ndim:
            out[...] = haystack.searchsorted(needles, side)
            return
        for part in row_blocks(len(out), out[:1].nbytes):
            out[part] = haystack.searchsorted(needles[part], side)

    return run


register(Op(name="sort", infer=_infer_sort, kernel=_sort, cost=_cost))
register(Op(name="argsort", infer=_infer_argsort, kernel=_argsort, cost=_cost))
register(Op(name="top_k", infer=_infer_top_k, kernel=_top_k, cost=_cost))
register(Op(name="searchsorted", infer=_infer_searchsorted, kernel=_searchsorted))
