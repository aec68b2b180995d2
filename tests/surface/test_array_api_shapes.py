"""Creation, manipulation and indexing equal those of array-api-strict."""

from __future__ import annotations

from typing import Any

import array_api_strict as reference
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncjit.numpy as anp
from tests.surface import array_api
from tests.surface.array_api import KINDS, arrays, check, compare, operands, quick, shapes, xps
from tests.surface.samples import same_bits

dtypes = st.sampled_from(KINDS["all"]).map(np.dtype)
#: An array with at least one axis, and one axis of it.
with_axis = arrays(min_dims=1).flatmap(lambda x: st.tuples(st.just(x), st.integers(-x.ndim, x.ndim - 1)))
with_axes = arrays().flatmap(lambda x: st.tuples(st.just(x), xps.valid_tuple_axes(x.ndim)))


@quick
@given(shapes(), dtypes, st.data())
def test_filled_arrays(shape: Any, dtype: Any, data: st.DataObject) -> None:
    for name in ("zeros", "ones"):
        check(name, ((shape,), {"dtype": dtype}))
        check(name, ((shape,), {}))
    value = data.draw(array_api.made(dtype.name, ())).item()
    check("full", ((shape, value), {"dtype": dtype}))
    check("full", ((shape, value), {}))
    like = data.draw(array_api.made(data.draw(dtypes).name, shape))
    for name in ("zeros_like", "ones_like"):
        check(name, ((like,), {}))
        check(name, ((like,), {"dtype": dtype}))
    check("full_like", ((like, value), {"dtype": dtype}))
    with array_api.quiet():
        for made in (anp.empty(shape, dtype=dtype), anp.empty_like(anp.asarray(like), dtype=dtype)):
            assert (made.shape, made.dtype) == (shape, dtype)


@quick
@given(st.integers(-9, 9), st.none() | st.integers(-9, 9), st.sampled_from([1, 2, -1, 0.5, -1.5]), st.integers(0, 5))
def test_sequences(start: int, stop: int | None, step: float, count: int) -> None:
    check("arange", ((start, stop, step), {}))
    check("arange", ((start, stop, step), {"dtype": np.dtype("float32")}))
    check("linspace", ((start, stop or 0, count), {"endpoint": bool(start % 2)}))
    check("eye", ((count, stop and abs(stop)), {"k": start}))


@quick
@given(arrays(), dtypes)
def test_conversions(x: Any, dtype: Any) -> None:
    check("asarray", ((x,), {}))
    check("asarray", ((x.tolist(),), {"dtype": x.dtype}))
    if not (x.dtype.kind == "c" and dtype.kind != "c") and (x.dtype.kind not in "fc" or dtype.kind in "bfc"):
        check("astype", ((x, dtype), {}))
    # NumPy casts between kinds where the reference does not: bool to int8.
    if reference.can_cast(getattr(reference, x.dtype.name), getattr(reference, dtype.name)):
        assert anp.can_cast(x.dtype, dtype)
    check("isdtype", ((dtype, ("integral", "complex floating", "bool")), {}))


@quick
@given(operands("all", 3))
def test_result_type(given_: Any) -> None:
    with array_api.quiet():
        try:
            wanted = reference.result_type(*map(array_api._strict, given_))
        except TypeError:
            return
        assert anp.result_type(*map(array_api._ours, given_)).name == wanted._np_dtype.name


@quick
@given(with_axis)
def test_functions_of_one_axis(case: Any) -> None:
    x, axis = case
    check("unstack", ((x,), {"axis": axis}))
    check("flip", ((x,), {"axis": axis}))
    check("roll", ((x, 2), {"axis": axis}))
    check("roll", ((x, (1, -4)), {"axis": (axis, 0)}))
    check("repeat", ((x, 2), {"axis": axis}))
    check("repeat", ((x, np.arange(x.shape[axis])), {"axis": axis}))
    check("concat", (([x, x, x],), {"axis": axis}))
    check("stack", (([x, x],), {"axis": axis}))
    check("moveaxis", ((x, axis, 0), {}))
    check("expand_dims", ((x,), {"axis": axis}))


@quick
@given(with_axes, st.data())
def test_functions_of_several_axes(case: Any, data: st.DataObject) -> None:
    x, axes = case
    check("flip", ((x,), {"axis": axes or None}))
    check("permute_dims", ((x, data.draw(st.permutations(range(x.ndim)).map(tuple))), {}))
    check("squeeze", ((x, tuple(axis for axis in axes if x.shape[axis] == 1)), {}))
    check("reshape", ((x, (-1,)), {}))
    check("reshape", ((x, (x.size, 1)), {"copy": True}))
    check("concat", (([x, x],), {"axis": None}))
    check("roll", ((x, 3), {}))
    check("tile", ((x, data.draw(st.lists(st.integers(0, 2), max_size=3).map(tuple))), {}))
    check("repeat", ((x, 2), {}))
    if x.ndim >= 2:
        check("matrix_transpose", ((x,), {}))
        for k in (-1, 0, 1):
            check("tril", ((x,), {"k": k}))
            check("triu", ((x,), {"k": k}))


@quick
@given(xps.mutually_broadcastable_shapes(3, max_dims=3, max_side=3), st.data())
def test_broadcasting(found: Any, data: st.DataObject) -> None:
    given_ = [data.draw(arrays(shape=shape)) for shape in found.input_shapes]
    check("broadcast_arrays", (tuple(given_), {}))
    check("broadcast_shapes", (found.input_shapes, {}))
    check("broadcast_to", ((given_[0], found.result_shape), {}))
    axes = [data.draw(array_api.made("float32", (extent,))) for extent in found.result_shape]
    for indexing in ("xy", "ij"):
        check("meshgrid", (tuple(axes), {"indexing": indexing}))


@quick
@given(with_axis, st.data())
def test_taking(case: Any, data: st.DataObject) -> None:
    x, axis = case
    extent = x.shape[axis]
    places = st.integers(0, max(extent - 1, 0))
    if extent:
        index = np.array(data.draw(st.lists(places, max_size=4)), np.int64)
        check("take", ((x, index), {"axis": axis}))
        shape = list(x.shape)
        shape[axis] = 2
        along = data.draw(xps.arrays(reference.int64, tuple(shape), elements=places))._array
        check("take_along_axis", ((x, along), {"axis": axis}))


@quick
@given(arrays(min_dims=1), st.data())
def test_selection_by_key_and_by_mask(x: Any, data: st.DataObject) -> None:
    key = data.draw(xps.indices(x.shape, allow_newaxis=True))
    mask = data.draw(array_api.made("bool", x.shape))
    with array_api.quiet():
        ours, strict = anp.asarray(x), reference.asarray(x)
        same_bits(ours[key], x[key])
        compare(ours[anp.asarray(mask)], strict[reference.asarray(mask)])
        if x.size:
            changed = x.copy()
            changed[key] = x.flat[0]
            ours[key] = x.flat[0].item()
            same_bits(ours, changed)


@pytest.mark.parametrize("kind", ["bool", "signed integer", "numeric", ("bool", "real floating")])
def test_kinds_of_dtypes(kind: Any) -> None:
    for name in KINDS["all"]:
        assert anp.isdtype(getattr(anp, name), kind) == reference.isdtype(getattr(reference, name), kind)
    for name in KINDS["integer"]:
        ours, strict = anp.iinfo(getattr(anp, name)), reference.iinfo(getattr(reference, name))
        assert (ours.bits, ours.min, ours.max) == (strict.bits, strict.min, strict.max)
    for name in KINDS["real floating"]:
        limits, wanted = anp.finfo(getattr(anp, name)), reference.finfo(getattr(reference, name))
        assert [getattr(limits, each) for each in ("bits", "eps", "max", "min", "smallest_normal")] == [
            getattr(wanted, each) for each in ("bits", "eps", "max", "min", "smallest_normal")
        ]


@quick
@given(st.data())
def test_arrays_may_be_made_by_strategies_for_this_namespace(data: st.DataObject) -> None:
    from hypothesis.extra.array_api import make_strategies_namespace

    with array_api.quiet():
        own = make_strategies_namespace(anp, api_version="2024.12")
        made = data.draw(own.arrays(own.scalar_dtypes(), own.array_shapes(max_dims=2, max_side=3)))
        assert isinstance(made, anp.Array)
