"""Sums of products over named axes.

Law: parses NumPy's notation and lowers it to views, sums and matrix products; no operation of its own. Operands are
taken two at a time from left to right.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from asyncjit.numpy._array import Array
from asyncjit.numpy._dtypes import result_type
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._movement import as_array, broadcast_to
from asyncjit.symbols import Int, same

__all__ = ["einsum"]

_LETTERS = frozenset(string.ascii_letters)


def einsum(equation: str, /, *operands: ArrayLike) -> Array:
    """Products of ``operands`` summed over the letters that the result does not name: ``"bij,bjk->bik"``.

    Each letter is an axis; a letter twice in one operand takes its diagonal; ``...`` stands for axes that broadcast.
    Without ``->`` the result has the letters that occur once, in alphabetical order. Extents of 1 broadcast. A
    new array, or a view where nothing is computed; dtypes are promoted, and sums are in the common dtype.

    Raises:
        ValueError: an equation that is none, or that does not fit the shapes.
    """
    arrays = [as_array(each) for each in operands]
    terms, result = _parse(equation, [each.ndim for each in arrays])
    extents = _extents(equation, terms, arrays)
    common = result_type(*arrays)
    parts = [
        _diagonal(each.astype(common, copy=False), term, extents) for each, term in zip(arrays, terms, strict=True)
    ]
    array, letters = parts[0]
    for position, (other, theirs) in enumerate(parts[1:], 1):
        later = {letter for _, rest in parts[position + 1 :] for letter in rest} | set(result)
        array, letters = _product(array, letters, other, theirs, later)
    array, letters = _summed(array, letters, set(result))
    array = array.transpose([letters.index(letter) for letter in result if letter in letters])
    kept = tuple(slice(None) if letter in letters else None for letter in result)
    shape = tuple(extents[letter] for letter in result)
    return array if len(letters) == len(result) else broadcast_to(array[kept], shape).copy()


def _parse(equation: str, ndims: Sequence[int]) -> tuple[list[str], str]:
    """Letters of each operand and of the result; axes of an Ellipsis get characters that are no letters."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"einsum: {equation!r} is for {len(terms)} operands, {len(ndims)} are given")
    spare = [_ellipsis_axes(equation, term, ndim) for term, ndim in zip(terms, ndims, strict=True)]
    # The last axes of all Ellipses are the same ones, and those have the same characters: digits count from the end.
    names = "".join(chr(0x100 + place) for place in reversed(range(max(spare, default=0))))
    filled = [term.replace("...", names[len(names) - count :]) for term, count in zip(terms, spare, strict=True)]
    if arrow:
        return filled, _checked(equation, right, "".join(filled)).replace("...", names)
    counted = Counter("".join(terms).replace(".", ""))
    return filled, names + "".join(sorted(letter for letter, count in counted.items() if count == 1))


def _ellipsis_axes(equation: str, term: str, ndim: int) -> int:
    letters = term.replace("...", "", 1)
    if not set(letters) <= _LETTERS or (len(letters) > ndim if "..." in term else len(letters) != ndim):
        raise ValueError(f"einsum: {term!r} of {equation!r} does not name the axes of an operand with {ndim}")
    return ndim - len(letters)


def _checked(equation: str, right: str, known: str) -> str:
    letters = right.replace("...", "", 1)
    if not set(letters) <= _LETTERS or len(set(letters)) != len(letters) or not set(letters) <= set(known):
        raise ValueError(f"einsum: the result {right!r} of {equation!r} names axes of operands, each once")
    return right


def _extents(equation: str, terms: Sequence[str], arrays: Sequence[Array]) -> dict[str, Int]:
    extents: dict[str, Int] = {}
    for term, array in zip(terms, arrays, strict=True):
        for letter, extent in zip(term, array.shape, strict=True):
            before = extents.setdefault(letter, extent)
            if same(before, 1):
                extents[letter] = extent
            elif not same(extent, 1) and not same(extent, before):
                shapes = ", ".join(str(each.shape) for each in arrays)
                raise ValueError(f"einsum: {equation!r} gives an axis extents {before} and {extent}; shapes {shapes}")
    return extents


def _diagonal(array: Array, term: str, extents: Mapping[str, Int]) -> tuple[Array, str]:
    """The operand with each letter once, as a view; without axes of extent 1 that broadcast."""
    strides: dict[str, Any] = {}
    for letter, extent, stride in zip(term, array.shape, array.strides, strict=True):
        if same(extent, extents[letter]):
            strides[letter] = strides.get(letter, 0) + stride
    letters = "".join(strides)
    if letters == term:
        return array, term
    return array._view(0, tuple(extents[letter] for letter in letters), tuple(strides.values())), letters


def _summed(array: Array, letters: str, wanted: set[str]) -> tuple[Array, str]:
    """Without the axes that nobody wants."""
    axes = [axis for axis, letter in enumerate(letters) if letter not in wanted]
    if not axes:
        return array, letters
    summed = array.any(axes) if array.dtype.kind == "b" else array.sum(axes, dtype=array.dtype)
    return summed, "".join(letter for letter in letters if letter in wanted)


def _product(left: Array, ours: str, right: Array, theirs: str, later: set[str]) -> tuple[Array, str]:
    """Two operands as one matrix product: axes of both that stay are batches, axes of both that go are summed."""
    left, ours = _summed(left, ours, later | set(theirs))
    right, theirs = _summed(right, theirs, later | set(ours))
    batch = "".join(letter for letter in ours if letter in theirs and letter in later)
    inner = "".join(letter for letter in ours if letter in theirs and letter not in later)
    rows = "".join(letter for letter in ours if letter not in theirs)
    columns = "".join(letter for letter in theirs if letter not in ours)
    letters = batch + rows + columns
    if not inner:
        return _spread(left, ours, letters) * _spread(right, theirs, letters), letters
    extents = dict(zip(ours + theirs, (*left.shape, *right.shape), strict=True))
    first = _matrix(left, ours, (batch, rows, inner), extents)
    second = _matrix(right, theirs, (batch, inner, columns), extents)
    return (first @ second).reshape(tuple(extents[letter] for letter in letters)), letters


def _spread(array: Array, letters: str, wanted: str) -> Array:
    """Axes in the order of ``wanted``, with extent 1 where there is none."""
    ordered = array.transpose([letters.index(letter) for letter in wanted if letter in letters])
    return ordered[tuple(slice(None) if letter in letters else None for letter in wanted)]


def _matrix(array: Array, letters: str, groups: tuple[str, str, str], extents: Mapping[str, Int]) -> Array:
    """Axes in three groups: the batch as it is, the others one axis each."""
    batch, *others = groups
    ordered = array.transpose([letters.index(letter) for letter in "".join(groups)])
    shape = [*(extents[letter] for letter in batch), *(prod(extents[each] for each in group) for group in others)]
    return ordered.reshape(shape)
