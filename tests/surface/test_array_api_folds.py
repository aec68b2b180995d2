"""Reductions, products, sorting, searching and sets equal those of array-api-strict; every function has its turn."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import array_api_strict as reference
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncjit.numpy as anp
from tests.surface.array_api import KINDS, arrays, check, made, quick, quiet, xps

FOLDS = {
    **dict.fromkeys(("sum", "prod"), "numeric"),
    **dict.fromkeys(("max", "min"), "real"),
    **dict.fromkeys(("any", "all", "count_nonzero"), "all"),
    **dict.fromkeys(("mean",), "floating"),
    **dict.fromkeys(("var", "std"), "real floating"),
}


@pytest.mark.parametrize("name", FOLDS)
def test_reductions(name: str) -> None:
    @quick
    @given(arrays(FOLDS[name], small=True), st.data())
    def run(x: Any, data: st.DataObject) -> None:
        axes = data.draw(st.none() | xps.valid_tuple_axes(x.ndim))
        extra = {"correction": data.draw(st.sampled_from([0, 1, 0.5]))} if name in ("var", "std") else {}
        check(name, ((x,), {"axis": axes, "keepdims": data.draw(st.booleans()), **extra}), exact=name != "std")

    run()


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_extremes(name: str) -> None:
    @quick
    @given(arrays("real", small=True), st.data())
    def run(x: Any, data: st.DataObject) -> None:
        axis = data.draw(st.none() | st.integers(-x.ndim, x.ndim - 1)) if x.ndim else None
        check(name, ((x,), {"axis": axis, "keepdims": data.draw(st.booleans())}))

    run()


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_running_sums_and_products(name: str) -> None:
    @quick
    @given(arrays("numeric", small=True, min_dims=1), st.data())
    def run(x: Any, data: st.DataObject) -> None:
        axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
        check(name, ((x,), {"axis": axis, "include_initial": data.draw(st.booleans())}))
        check(name, ((x.reshape(-1),), {"dtype": np.dtype("float64" if x.dtype.kind != "c" else "complex128")}))

    run()


@quick
@given(st.sampled_from(KINDS["numeric"]), st.data())
def test_products(dtype: str, data: st.DataObject) -> None:
    m, k, n, batch = (data.draw(st.integers(0, 3)) for _ in range(4))
    one, two = data.draw(made(dtype, (batch, m, k), True)), data.draw(made(dtype, (k, n), True))
    check("matmul", ((one, two), {}))
    check("matmul", ((one, two[:, 0] if n else two), {}))
    check("tensordot", ((one, two), {"axes": 1}))
    check("tensordot", ((one, two), {"axes": ((2,), (0,))}))
    check("tensordot", ((one, two), {"axes": 0}))
    check("vecdot", ((one, one), {}))
    check("vecdot", ((one, one), {"axis": -2}))


@quick
@given(arrays("real", min_dims=1), arrays("real", small=True, min_dims=1), st.data())
def test_sorting(values: Any, equal_ones: Any, data: st.DataObject) -> None:
    for x in (values[np.isfinite(values)], equal_ones):
        axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
        for descending in (False, True):
            check("sort", ((x,), {"axis": axis, "descending": descending}))
            check("argsort", ((x,), {"axis": axis, "descending": descending}))


@quick
@given(st.sampled_from(KINDS["real"]), st.sampled_from(["left", "right"]), st.data())
def test_searching_in_what_is_sorted(dtype: str, side: str, data: st.DataObject) -> None:
    x, wanted = data.draw(made(dtype, (3,), True)), data.draw(made(dtype, (2, 2), True))
    check("searchsorted", ((np.sort(x), wanted), {"side": side}))
    check("searchsorted", ((np.sort(x), wanted[0, 0].item()), {"side": side}))
    check("searchsorted", ((x, wanted), {"side": side, "sorter": np.argsort(x)}))


@quick
@given(arrays("all"), arrays("all", small=True))
def test_sets_and_positions(values: Any, repeated: Any) -> None:
    for x in (values, repeated):
        for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values", "nonzero"):
            check(name, ((x,), {}))


@quick
@given(arrays("integer", small=True), arrays("integer", small=True), st.booleans())
def test_membership(x: Any, others: Any, invert: bool) -> None:
    check("isin", ((x, others), {}))
    check("isin", ((x, others.astype(x.dtype)), {}))
    # The reference takes no notice of ``invert``.
    with quiet():
        np.testing.assert_array_equal(anp.isin(x, others, invert=invert), np.isin(x, others, invert=invert))


@quick
@given(arrays("numeric", small=True, min_dims=1), st.data())
def test_differences(x: Any, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    check("diff", ((x,), {"axis": axis, "n": data.draw(st.integers(0, 3))}))
    check("diff", ((x,), {"axis": axis, "prepend": x, "append": x}))


#: Functions of the reference that are no functions of the standard.
NOT_OF_THE_STANDARD = {"get_array_api_strict_flags", "reset_array_api_strict_flags", "set_array_api_strict_flags"}
#: Tested by tests/surface/test_array_api_object.py.
ELSEWHERE = {"from_dlpack"}


def test_every_function_of_the_standard_is_there_and_compared() -> None:
    functions = {
        name for name, value in vars(reference).items() if inspect.isfunction(value) and not name.startswith("_")
    }
    wanted = functions - NOT_OF_THE_STANDARD
    assert [name for name in sorted(wanted) if name not in anp.__all__] == []
    pages = Path(__file__).parent.glob("test_array_api_*.py")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert [name for name in sorted(wanted - ELSEWHERE) if f'"{name}"' not in text and f"anp.{name}(" not in text] == []


@pytest.mark.parametrize("name", ["e", "inf", "nan", "newaxis", "pi"])
def test_constants(name: str) -> None:
    ours, strict = getattr(anp, name), getattr(reference, name)
    assert ours == strict or ours != ours != strict
