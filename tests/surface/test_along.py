"""Gathers and scatters by arrays of integers, top k, one-hot and einsum, against NumPy and plain loops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncjit.numpy as anp
from asyncjit.ops._blockwise import BLOCK_BYTES
from tests.surface.immediate import ImmediateSink, immediate
from tests.surface.samples import same_bits, sample


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one, np.errstate(all="ignore"):
        yield one


FOLDS: dict[str, Any] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": max,
    "min": min,
}


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_take_along_axis_equals_numpy(axis: int) -> None:
    rng = np.random.default_rng(0)
    host = sample("float32", (3, 4, 5))
    shape = [3, 4, 5]
    shape[axis] = 7
    for index_shape in (shape, [1 if extent != 7 else 7 for extent in shape]):
        index = rng.integers(-3, 3, index_shape)
        same_bits(anp.take_along_axis(host, index, axis=axis), np.take_along_axis(host, index, axis))
    many = sample("float64", (BLOCK_BYTES // 8, 3))
    order = rng.integers(0, 3, many.shape)
    same_bits(anp.take_along_axis(many, order), np.take_along_axis(many, order, -1))
    with pytest.raises(ValueError, match="axes of extent 1"):
        anp.take_along_axis(host, [1, 0], axis=axis)
    with pytest.raises(TypeError, match="integers"):
        anp.take_along_axis(host, host, axis=axis)


@pytest.mark.parametrize("reduction", FOLDS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_along_axis_equals_a_loop(reduction: str, axis: int) -> None:
    rng = np.random.default_rng(1)
    host = rng.integers(-5, 6, (4, 3, 5))
    index = rng.integers(-3, 3, (3, 2, 4))
    values = rng.integers(-5, 6, index.shape)
    wanted = host.copy()
    for place in itertools.product(*map(range, index.shape)):
        target = list(place)
        target[axis] = index[place]
        wanted[tuple(target)] = FOLDS[reduction](wanted[tuple(target)], values[place])
    ours = anp.asarray(host)
    same_bits(anp.scatter_along_axis(ours, index, values, axis=axis, reduction=reduction), wanted)
    same_bits(ours, host)


@pytest.mark.parametrize("reduction", FOLDS)
def test_scatter_nd_equals_a_loop(reduction: str) -> None:
    rng = np.random.default_rng(2)
    host = rng.integers(-5, 6, (4, 3, 2))
    for depth in (1, 2, 3):
        index = rng.integers(-2, 2, (5, 2, depth))
        values = rng.integers(-5, 6, (5, 2, *host.shape[depth:]))
        wanted = host.copy()
        for place in np.ndindex(5, 2):
            for rest in np.ndindex(*host.shape[depth:]):
                target = (*index[place], *rest)
                wanted[target] = FOLDS[reduction](wanted[target], values[(*place, *rest)])
        same_bits(anp.scatter_nd(host, index, values, reduction=reduction), wanted)


@pytest.mark.parametrize("batch_ndim", [0, 1, 2])
def test_gather_nd_equals_a_loop(batch_ndim: int) -> None:
    rng = np.random.default_rng(3)
    host = sample("float32", (2, 3, 4, 5))
    for depth in range(1, 5 - batch_ndim):
        index = rng.integers(-2, 2, (*host.shape[:batch_ndim], 6, depth))
        rows = [host[(*place[:batch_ndim], *index[place])] for place in np.ndindex(*index.shape[:-1])]
        wanted = np.array(rows).reshape(*index.shape[:-1], *host.shape[batch_ndim + depth :])
        same_bits(anp.gather_nd(host, index, batch_ndim=batch_ndim), wanted)
    same_bits(anp.gather_nd(host, np.zeros((0, 1), "int64")), host[:0])


def test_what_does_not_fit_is_refused() -> None:
    host = np.zeros((4, 3))
    for call, message in [
        (lambda: anp.scatter_along_axis(host, [[0] * 4], [[1] * 4], axis=0), "at most its extents"),
        (lambda: anp.scatter_along_axis(host, [[0]], [[1, 2]]), "indices of shape"),
        (lambda: anp.scatter_along_axis(host, [[0]], [[1]], reduction="sum"), "none of 'none', 'add'"),
        (lambda: anp.scatter_nd(host, [[0]], [1.0]), "do not go into"),
        (lambda: anp.gather_nd(host, [[0, 0, 0]]), "one index for each"),
        (lambda: anp.gather_nd(host, [[0]], batch_ndim=1), "batch"),
        (lambda: anp.top_k(host, 4), "4 elements of an axis of extent 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("largest", [True, False])
def test_top_k_gives_the_first_of_equal_elements_first(axis: int, largest: bool) -> None:
    host = np.random.default_rng(4).integers(0, 4, (5, 6, 7)).astype("float32")
    order = np.argsort(-host if largest else host, axis, kind="stable")
    for k in (0, 1, 3, 5):
        values, indices = anp.top_k(host, k, axis=axis, largest=largest)
        wanted = np.take(order, range(k), axis)
        same_bits(indices, wanted)
        same_bits(values, np.take_along_axis(host, wanted, axis))


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8"])
@pytest.mark.parametrize("largest", [True, False])
def test_top_k_of_long_rows_sorts_the_chosen_ones_alone_to_the_same_end(dtype: str, largest: bool) -> None:
    rng = np.random.default_rng(6)
    host = rng.integers(0, 200, (3, 2000)).astype(dtype)
    if dtype == "float32":
        host[1, ::7] = np.nan
        host[2, :5] = np.inf, -np.inf, np.nan, 0.0, -0.0
    values, indices = anp.top_k(host, 40, largest=largest)
    every, places = anp.top_k(host, 2000, largest=largest)
    same_bits(indices, np.asarray(places)[:, :40])
    same_bits(values, np.asarray(every)[:, :40])


def test_one_hot_counts_from_either_end() -> None:
    hot = anp.one_hot(np.array([[0, -1], [2, 7]]), 3, dtype="int32", off=5, on=9)
    wanted = np.full((2, 2, 3), 5, "int32")
    wanted[0, 0, 0] = wanted[0, 1, 2] = wanted[1, 0, 2] = 9
    same_bits(hot, wanted)
    same_bits(anp.one_hot([1, 0], 2, axis=0), np.array([[0, 1], [1, 0]], "float32"))


EQUATIONS = [
    *("ij,jk->ik", "bij,bjk->bik", "ii->i", "ii", "iij->j", "ij->ji", "ij->", "ij,ij->i", "i,j->ij", "i,i", "ba,cd"),
    *("abc,cd,de->abe", "bhqd,bhkd->bhqk", "a,b,c->", "ij,jj->i", ",ij->ij", "ij,ik,il->jkl", "ij,kl->", "ab,ba->ba"),
    *("...ij,...jk->...ik", "...i->...", "i...->...i", "...a,...b", "i...,i->..."),
]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_equals_numpy(equation: str) -> None:
    rng = np.random.default_rng(5)
    terms = equation.partition("->")[0].split(",")
    sizes = {letter: rng.integers(2, 5) for letter in sorted(set(equation)) if letter.isalpha()}
    for stretched in (False, True):
        hosts = []
        for position, term in enumerate(terms):
            extra = [4, 1 if stretched and position == 0 else 3] if "..." in term else []
            before, _, after = term.partition("...")
            shape = [sizes[x] for x in before] + extra + [sizes[x] for x in after]
            hosts.append(rng.integers(-4, 5, shape))
        same_bits(anp.einsum(equation, *hosts), np.einsum(equation, *hosts))


def test_einsum_refuses_what_is_no_equation() -> None:
    host = np.zeros((2, 3))
    for equation, message in [
        ("ij,jk->ik", "for 2 operands"),
        ("ijk->i", "does not name the axes"),
        ("ij->k", "names axes of operands"),
        ("ij->ii", "names axes of operands"),
        ("ii->i", "extents 2 and 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            anp.einsum(equation, host)
