"""The error function and the logistic one, against the standard library in more digits."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

import asyncjit.numpy as anp
from asyncjit.numpy._elementwise import elementwise
from asyncjit.ops import REGISTRY
from asyncjit.ops._blockwise import BLOCK_BYTES
from tests.surface.immediate import ImmediateSink, immediate

REFERENCES = {
    "erf": math.erf,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0,
}
#: Largest relative error, in units of the last place of the dtype.
ULPS = {"float16": 1, "float32": 8, "float64": 8}


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one, np.errstate(all="ignore"):
        yield one


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("dtype", ULPS)
def test_functions_equal_the_reference_to_a_few_units_of_the_last_place(name: str, dtype: str) -> None:
    host = np.concatenate([np.linspace(-9, 9, 4001), np.geomspace(1e-4, 30, 500), [-1.0, 1.0, -0.999999]]).astype(dtype)
    ours = np.asarray(elementwise(name, [anp.asarray(host)], anp.Array))
    wanted = np.array([REFERENCES[name](float(value)) for value in host])
    assert ours.dtype == dtype
    assert np.all(np.abs(ours - wanted) <= ULPS[dtype] * np.spacing(np.abs(wanted).astype(dtype)))


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("dtype", ULPS)
def test_ends_of_the_number_line(name: str, dtype: str) -> None:
    host = np.array([np.inf, -np.inf, 0.0, -0.0, np.nan, np.finfo(dtype).max], dtype)
    ours = np.asarray(elementwise(name, [anp.asarray(host)], anp.Array))
    low, middle = (-1, 0) if name == "erf" else (0, 0.5)
    np.testing.assert_array_equal(ours, np.array([1, low, middle, middle, np.nan, 1], dtype))
    assert name != "erf" or (np.signbit(ours[:4]) == np.signbit(host[:4])).all()


def test_the_error_function_stays_between_its_ends_and_rises() -> None:
    values = np.asarray(anp.erf(np.linspace(-8, 8, 100_001, dtype="float64")))
    assert (np.abs(values) <= 1).all()
    assert (np.diff(values) >= -2e-16).all()


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES // 4 - 1, BLOCK_BYTES // 4, BLOCK_BYTES // 2 + 3])
def test_blocks_leave_no_element_out(size: int) -> None:
    host = np.linspace(-3, 3, size, dtype="float32")
    wanted = np.array([math.erf(value) for value in host], "float32")
    np.testing.assert_allclose(np.asarray(anp.erf(host)), wanted, rtol=1e-6)


def test_layouts_integers_and_numbers_go_where_exp_would_go() -> None:
    host = np.linspace(-2, 2, 60, dtype="float32").reshape(3, 4, 5)
    ours = anp.asarray(host)
    for view, base in ((ours.T[:, ::-2], host.T[:, ::-2]), (ours[0, 0, 0, ...], host[0, 0, 0, ...])):
        np.testing.assert_allclose(np.asarray(anp.erf(view)), np.vectorize(math.erf)(base), rtol=1e-6)
    for dtype in ("int8", "int16", "int32", "uint64", "bool"):
        whole = np.array([0, 1, 1], dtype)
        assert anp.erf(whole).dtype == np.exp(whole).dtype
        np.testing.assert_allclose(np.asarray(anp.erf(whole)), np.exp(whole).dtype.type([0, 0.8427008, 0.8427008]))
    np.testing.assert_allclose(np.asarray(anp.erf(0.5)), math.erf(0.5), rtol=1e-15)
    with pytest.raises(TypeError, match="real numbers"):
        anp.erf(np.array([1j]))


def test_a_kernel_writes_into_views_that_are_not_contiguous() -> None:
    host = np.linspace(-2, 2, 24, dtype="float32").reshape(4, 6)
    out = np.zeros((6, 4), "float32")
    REGISTRY["erf"].kernel((), ())(host, out.T)
    np.testing.assert_allclose(out.T, np.vectorize(math.erf)(host), rtol=1e-6)
