"""Sorting and searching in what is sorted.

Law: results have shapes that do not depend on values; sets are in ``_sets``.
"""

from __future__ import annotations

from typing import cast

from asyncjit.numpy._along import _same_place
from asyncjit.numpy._array import Array
from asyncjit.numpy._creation import zeros
from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._dtypes import result_type
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._functions import minimum
from asyncjit.numpy._layout import normalize_axis
from asyncjit.numpy._movement import as_array, concatenate, take
from asyncjit.symbols import same

__all__ = ["argsort", "diff", "isin", "searchsorted", "sort", "top_k"]


def sort(x: ArrayLike, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Elements in order along ``axis``, nan last (first in descending order); always stable. A new array."""
    array = as_array(x)
    return apply("sort", (array,), (normalize_axis(axis, array.ndim, "sort"), bool(descending)))


def argsort(x: ArrayLike, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Positions that sort ``x`` along ``axis``, int64; equal elements keep their order in either direction."""
    array = as_array(x)
    return apply("argsort", (array,), (normalize_axis(axis, array.ndim, "argsort"), bool(descending)))


def top_k(x: ArrayLike, k: int, /, *, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    """The ``k`` largest (or smallest) elements along ``axis`` in that order, and their positions, int64.

    Of equal elements the first comes first; nan counts as the largest.

    Raises:
        ValueError: the axis has less than ``k`` elements.
    """
    array = as_array(x)
    made = apply("top_k", (array,), (normalize_axis(axis, array.ndim, "top_k"), int(k), bool(largest)))
    return cast("tuple[Array, Array]", made)


def searchsorted(x1: ArrayLike, x2: ArrayLike, /, *, side: str = "left", sorter: ArrayLike | None = None) -> Array:
    """Where each element of ``x2`` would go into ``x1``, one sorted axis, so that it stays sorted; int64.

    Before equal elements with ``side="left"``, behind them with "right". ``sorter``: positions that sort ``x1``.
    """
    if side not in ("left", "right"):
        raise ValueError(f'searchsorted: side is "left" or "right", not {side!r}')
    haystack = as_array(x1)
    needles = _same_place(haystack, x2)
    if sorter is not None:
        haystack = take(haystack, sorter, axis=0)
    common = result_type(haystack, needles)
    return apply("searchsorted", [each.astype(common, copy=False) for each in (haystack, needles)], (side,))


def isin(x1: ArrayLike, x2: ArrayLike, /, *, invert: bool = False) -> Array:
    """Whether each element of ``x1`` is (with ``invert``: is not) an element of ``x2``; bool. nan is in nothing."""
    array = as_array(x1)
    others = _same_place(array, x2).ravel()
    if same(others.size, 0):
        found = zeros(array.shape, "bool", device=array.device)
    else:
        common = result_type(array, others)
        others = sort(others.astype(common, copy=False))
        array = array.astype(common, copy=False)
        places = searchsorted(others, array)
        last = others.size - 1
        found = take(others, minimum(places, last), axis=0) == array
    return ~found if invert else found


def diff(
    x: ArrayLike, /, *, axis: int = -1, n: int = 1, prepend: ArrayLike | None = None, append: ArrayLike | None = None
) -> Array:
    """Differences of neighbours along ``axis``, ``n`` times; of bool, whether they differ.

    ``prepend`` and ``append`` are joined to ``x`` first.
    """
    array = as_array(x)
    if n < 0:
        raise ValueError(f"diff: n is at least 0, got {n}")
    place = normalize_axis(axis, array.ndim, "diff")
    if prepend is not None or append is not None:
        array = concatenate([each for each in (prepend, array, append) if each is not None], axis=place)
    lead = (slice(None),) * place
    for _ in range(n):
        later, earlier = array[(*lead, slice(1, None))], array[(*lead, slice(None, -1))]
        array = later != earlier if array.dtype.kind == "b" else later - earlier
    return array.copy() if n == 0 else array
