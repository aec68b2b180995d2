"""Dtypes that a library adds to NumPy, once admitted: arrays hold them, numbers adapt to them, sums are not theirs."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.ops import DTYPES, dtype_named
from tests.surface.immediate import ImmediateSink, immediate

ml_dtypes: Any = pytest.importorskip("ml_dtypes")
pytest.importorskip("onnx")
# Admits the dtypes; a failure in it is a failure, and no absent package.
importlib.import_module("asyncjit.onnx")

FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn")
INTEGERS = ("int4", "uint4")


@pytest.fixture
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


def sample(name: str) -> np.ndarray[Any, Any]:
    return np.array([[0, 1, 2, 3], [1, 4, 6, 2]]).astype(name)


def equal(ours: anp.Array, wanted: np.ndarray[Any, Any]) -> None:
    assert ours.dtype is wanted.dtype
    np.testing.assert_array_equal(np.asarray(ours).astype("float64"), wanted.astype("float64"))


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
@pytest.mark.usefixtures("sink")
def test_arrays_hold_them_and_numbers_adapt(name: str) -> None:
    host = sample(name)
    ours = anp.asarray(host)
    equal(ours, host)
    equal(ours[:, ::2].T, host[:, ::2].T)
    equal(ours + ours, host + host)
    equal(ours + 1, host + np.array(1).astype(name))
    equal(anp.where(ours > 2, ours, 0), np.where(host > 2, host, np.array(0).astype(name)))
    equal(anp.maximum(ours, 1), np.maximum(host, np.array(1).astype(name)))
    equal(ours.astype("float32"), host.astype("float32"))
    equal(anp.asarray([0.5, 3, 1.25]).astype(name), np.array([0.5, 3, 1.25]).astype(name))
    equal(anp.concatenate([ours, ours]), np.concatenate([host, host]))
    equal(anp.zeros((2,), name), np.zeros(2, name))


@pytest.mark.usefixtures("sink")
def test_a_float_makes_a_bfloat16_no_float32_and_a_float32_does() -> None:
    ours = anp.asarray(sample("bfloat16"))
    assert (ours * 0.5).dtype == "bfloat16"
    assert (ours + anp.zeros(4, "float32")).dtype == "float32"
    assert (anp.asarray(sample("int4")) * 0.5).dtype == "float16"


@pytest.mark.usefixtures("sink")
def test_sums_and_means_are_rounded_once() -> None:
    ones = anp.ones((1000,), "bfloat16")
    assert float(np.asarray(ones.sum())) == 1000
    assert float(np.asarray((ones * 3).mean())) == 3
    # One after the other in eight bits they would stop at 256.
    assert float(np.asarray(ones).sum()) == 256


def test_what_is_narrow_is_told_by_kind() -> None:
    assert anp.isdtype(dtype_named("bfloat16"), "real floating")
    assert anp.isdtype(dtype_named("uint4"), ("bool", "integral"))
    assert not anp.isdtype(dtype_named("int4"), "real floating")
    assert "bfloat16" not in DTYPES


def test_a_captured_function_takes_gives_and_keeps_them(tmp_path: Any) -> None:
    weights = anp.asarray(sample("bfloat16"))

    @aj.jit
    def double(x: anp.Array) -> anp.Array:
        return x * weights * 2

    host = sample("bfloat16")
    wanted = host * host * np.array(2).astype("bfloat16")
    for _ in range(3):
        equal(double.run(host), wanted)
    aj.save(tmp_path / "double.aj", double)
    equal(aj.load(tmp_path / "double.aj").run(host), wanted)
    equal(pickle.loads(pickle.dumps(weights)), host)
