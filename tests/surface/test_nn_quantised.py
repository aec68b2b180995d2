"""Quantised numbers and their products equal a plain computation with 64-bit integers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncjit.numpy as anp
from asyncjit import nn
from asyncjit.ops import _blocks
from tests.surface.immediate import ImmediateSink, immediate

Values = np.ndarray[Any, Any]
DTYPES = ("int8", "uint8", "int16", "uint16")


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


def integers(dtype: str, *shape: int, seed: int = 0) -> Values:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def values(*shape: int, seed: int = 0) -> Values:
    return (np.random.default_rng(seed).standard_normal(shape) * 40).astype("float32")


def quantized(x: Values, scale: Any, zero: Any, dtype: str) -> Values:
    info = np.iinfo(dtype)
    rounded = np.rint(x.astype("float32") / np.asarray(scale, "float32")).astype("float64") + zero
    return np.asarray(np.clip(rounded, info.min, info.max).astype(dtype))


def equal(ours: Any, wanted: Values) -> None:
    host = np.asarray(ours)
    assert host.dtype == wanted.dtype
    np.testing.assert_array_equal(host, wanted)


@given(data=st.data(), dtype=st.sampled_from(DTYPES), block=st.sampled_from([5, 1 << 15]))
def test_quantize_and_dequantize_by_number_axis_and_block(data: st.DataObject, dtype: str, block: int) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    kind = data.draw(st.sampled_from(["number", "axis", "block"]))
    size = data.draw(st.integers(1, 3)) if kind == "block" else 0
    place = axis % len(shape)
    blocks = (*shape[:place], -(-shape[place] // max(size, 1)), *shape[place + 1 :])
    given_shape: tuple[int, ...] = {"number": (), "axis": (shape[axis],), "block": blocks}[kind]
    scale = np.abs(values(*given_shape, seed=1)) / 20 + np.float32(0.01)
    zero = integers(dtype, *given_shape, seed=2)
    spread = [each.reshape(-1, *(1,) * (len(shape) - place - 1)) if kind == "axis" else each for each in (scale, zero)]
    if kind == "block":
        spread = [np.repeat(each, size, place).take(range(shape[place]), place) for each in spread]
    x = values(*shape)
    with immediate(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(_blocks, "BLOCK_ELEMENTS", block)
        patch.setattr("asyncjit.ops.quantised.BLOCK_ELEMENTS", block)
        ours = nn.quantize(x, scale, zero, axis=axis, block_size=size)
        wanted = quantized(x, spread[0], spread[1].astype("float64"), dtype)
        equal(ours, wanted)
        equal(nn.quantize(anp.asarray(x.T.copy()).T, scale, zero, axis=axis, block_size=size), wanted)
        back = nn.dequantize(ours, scale, zero, axis=axis, block_size=size)
        wide = (wanted.astype("float32") - spread[1].astype("float32")) * np.asarray(spread[0], "float32")
        equal(back, np.asarray(wide))


def test_halves_go_to_even_and_what_is_too_large_is_bound() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, 1e9, -1e9], "float32")
    equal(nn.quantize(x, 1.0, np.uint8(10)), np.array([10, 12, 12, 10, 255, 0], "uint8"))
    equal(nn.quantize(x, 1.0, dtype="int8"), np.array([0, 2, 2, 0, 127, -128], "int8"))
    equal(nn.quantize(x, 1.0), np.array([0, 2, 2, 0, 255, 0], "uint8"))


@pytest.mark.parametrize(
    "x", [values(3, 4), np.abs(values(3, 4)) + 5, -np.abs(values(3, 4)), np.zeros((2, 2)), np.zeros(0)]
)
def test_dynamic_quantize_covers_the_values_and_zero(x: Values) -> None:
    x = x.astype("float32")
    ours, scale, zero = (np.asarray(each) for each in nn.dynamic_quantize(x))
    assert (ours.dtype, scale.dtype, zero.dtype) == ("uint8", "float32", "uint8")
    assert (scale.shape, zero.shape) == ((), ())
    np.testing.assert_allclose((ours.astype("float32") - zero) * scale, x, atol=0.51 * scale)
    span = max(x.max(initial=0), 0) - min(x.min(initial=0), 0)
    np.testing.assert_allclose(scale, (span or 1) / 255, rtol=1e-6)


@pytest.mark.parametrize(("a_type", "b_type"), list(itertools.product(("int8", "uint8"), repeat=2)))
@pytest.mark.parametrize("inner", [3, 700])
@pytest.mark.parametrize("known", [False, True])
def test_matmul_integer_is_exact(a_type: str, b_type: str, inner: int, known: bool) -> None:
    a, b = integers(a_type, 2, 4, inner), integers(b_type, inner, 5, seed=1)
    a_zero, b_zero = integers(a_type, 4, seed=2), integers(b_type, 5, seed=3)
    wide = (a.astype("int64") - a_zero[:, None]) @ (b.astype("int64") - b_zero)
    weights = (b, a_zero, b_zero) if known else tuple(map(anp.asarray, (b, a_zero, b_zero)))
    equal(nn.matmul_integer(a, *weights), wide.astype("int32"))
    equal(nn.matmul_integer(a, b), (a.astype("int64") @ b.astype("int64")).astype("int32"))


def test_float32_serves_small_weights_and_float64_the_largest(sink: ImmediateSink) -> None:
    a = anp.asarray(integers("uint8", 4, 700))
    for weights, dtype in ((np.ones((700, 5), "int8"), "float32"), (np.full((700, 5), -128, "int8"), "float64")):
        nn.matmul_integer(a, weights)
        product = next(operands for kernel, operands, _ in reversed(sink.calls) if kernel.name == "matmul")
        assert product[-1][2].dtype == dtype


def test_qlinear_products_round_once() -> None:
    a, b = integers("uint8", 4, 6), integers("int8", 6, 5, seed=1)
    scales = np.float32(0.02), np.abs(values(5, seed=2)) / 900 + np.float32(0.01), np.float32(0.9)
    sums = (a.astype("int64") - 100) @ (b.astype("int64") - 3)
    wanted = np.clip(np.rint(sums * (scales[0] * scales[1] / scales[2])) + 7, 0, 255).astype("uint8")
    ours = nn.qlinear_matmul(a, scales[0], np.uint8(100), b, scales[1], np.int8(3), scales[2], np.uint8(7))
    equal(ours, wanted)


@pytest.mark.parametrize("known", [False, True])
def test_convolutions_of_integers_are_exact(known: bool) -> None:
    x, w = integers("uint8", 2, 4, 7), integers("int8", 6, 2, 3, seed=1)
    w_zero = integers("int8", 6, seed=2)
    padded = np.pad(x.astype("int64") - 11, ((0, 0), (0, 0), (1, 1)))
    sums = np.zeros((2, 6, 7), "int64")
    for n, f, at in np.ndindex(sums.shape):
        group = slice(0, 2) if f < 3 else slice(2, 4)
        sums[n, f, at] = (padded[n, group, at : at + 3] * (w[f].astype("int64") - w_zero[f])).sum()
    weights = (w, np.uint8(11), w_zero) if known else tuple(map(anp.asarray, (w, np.uint8(11), w_zero)))
    equal(nn.conv_integer(x, *weights, padding=1, groups=2), sums.astype("int32"))
    scale, bias = np.abs(values(6, seed=3)) / 900 + np.float32(0.01), integers("int16", 6).astype("int32")
    ours = nn.qlinear_conv(x, 0.02, np.uint8(11), w, scale, w_zero, 0.9, np.uint8(7), bias, padding=1, groups=2)
    factor = (np.float32(0.02) * scale / np.float32(0.9))[:, None]
    wanted = np.clip(np.rint((sums + bias[:, None]) * factor) + 7, 0, 255)
    assert np.abs(np.asarray(ours).astype("int64") - wanted).max() <= 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.quantize(values(2, 3), values(2)), ValueError, "not broadcast"),
        (lambda: nn.quantize(values(2), 1.0, dtype="float64"), TypeError, "not float64"),
        (lambda: nn.dynamic_quantize(np.zeros(2)), TypeError, "takes float32, got float64"),
        (
            lambda: nn.matmul_integer(np.zeros((2, 2)), np.zeros((2, 2), "int8")),
            TypeError,
            "arrays of 8 bits, a is float64",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
