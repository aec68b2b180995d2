"""Convolution gives what its definition gives, however it is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit import nn
from asyncjit.numpy._dispatch import recording
from tests.surface.convolutions import conv_by_definition, convolutions
from tests.surface.immediate import ImmediateSink, immediate

TOLERANCE = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


def random(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@settings(max_examples=150, deadline=None)
@given(convolutions(), st.sampled_from(list(TOLERANCE)), st.booleans())
def test_convolution_equals_its_definition(case: dict[str, Any], dtype: str, has_bias: bool) -> None:
    case = dict(case)
    x, weights = random(case.pop("x"), dtype), random(case.pop("weights"), dtype, 1)
    bias = random(weights.shape[:1], dtype, 2) if has_bias else None
    with immediate():
        ours = nn.conv(x, weights, bias, **case)
    wanted = conv_by_definition(x, weights, case["strides"], case["padding"], case["dilation"], case["groups"])
    if bias is not None:
        wanted = wanted + bias.reshape(-1, *(1,) * (x.ndim - 2)).astype(np.float64)
    assert (ours.dtype.name, ours.shape) == (dtype, wanted.shape)
    np.testing.assert_allclose(np.asarray(ours), wanted, TOLERANCE[dtype], TOLERANCE[dtype] * 10)


@pytest.mark.parametrize(
    ("x", "weights", "options"),
    [
        # Several blocks of rows, the last one shorter; columns from shared rows, with strides, pads and dilation.
        ((2, 24, 101, 90), (5, 24, 3, 3), {"padding": 1}),
        ((1, 3, 203, 160), (4, 3, 5, 3), {"padding": ((2, 0), (1, 3)), "strides": (2, 3), "dilation": (1, 2)}),
        ((1, 2, 3, 50), (2, 2, 3, 3), {"padding": ((9, 9), (60, 0)), "dilation": (1, 2)}),
        ((1, 2, 9, 50), (3, 2, 3, 3), {"padding": 1, "dilation": (2, 1)}),
        # Several blocks of windows.
        ((1, 128, 30, 31), (8, 128, 3, 3), {"padding": 1}),
        ((1, 64, 3000), (8, 64, 9), {"padding": 4, "strides": 2}),
        # Few windows an image: images share a product, and the last share is smaller.
        ((31, 20, 4), (6, 20, 3), {"padding": 1}),
        ((50, 6, 3, 3), (9, 2, 2, 2), {"groups": 3}),
        # Many taps and few windows: from one view of them; with groups, dilation, and a bias in the columns.
        ((1, 1, 640), (9, 1, 256), {"strides": 128}),
        ((1, 6, 9, 11), (4, 3, 4, 5), {"groups": 2, "strides": (2, 1), "dilation": (1, 2)}),
        ((1, 4, 90), (4, 2, 16), {"groups": 2}),
        # One tap: the input is the columns; strided, with groups, cut by filters, one window an image.
        ((2, 8, 40, 64), (130, 8, 1, 1), {}),
        ((2, 8, 9, 9), (6, 4, 1, 1), {"groups": 2, "strides": 2, "padding": 1}),
        ((7, 12, 1, 1), (5, 12, 1, 1), {}),
        ((7, 6, 2, 50), (900, 3, 1, 1), {"groups": 2}),
        # One channel a group, in several blocks of channels, with phases and with several filters a channel.
        ((2, 20, 100, 80), (20, 1, 3, 3), {"padding": 1, "groups": 20}),
        ((1, 5, 40, 41), (10, 1, 5, 3), {"padding": 2, "groups": 5, "strides": (3, 2), "dilation": (2, 1)}),
        ((2, 4, 60), (4, 1, 5), {"padding": 2, "groups": 4, "dilation": 3}),
        # Several images in a block, and taps that no output sees the input through.
        ((7, 150, 2, 70), (150, 1, 5, 5), {"padding": 2, "groups": 150}),
        ((3, 4, 1, 2), (8, 1, 5, 3), {"padding": ((6, 3), (1, 1)), "groups": 4, "strides": (2, 1)}),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_way_of_doing_it_gives_the_same(
    x: tuple[int, ...], weights: tuple[int, ...], options: dict[str, Any], dtype: str
) -> None:
    one, two, bias = random(x, dtype), random(weights, dtype, 1), random(weights[:1], dtype, 2)
    axes = len(x) - 2
    each = {name: options.get(name, 1) for name in ("strides", "dilation")}
    steps = {name: (value,) * axes if isinstance(value, int) else value for name, value in each.items()}
    given_pads = options.get("padding", 0)
    pads = [(given_pads, given_pads)] * axes if isinstance(given_pads, int) else given_pads
    wanted = conv_by_definition(one, two, steps["strides"], pads, steps["dilation"], options.get("groups", 1))
    wanted += bias.reshape(-1, *(1,) * axes)
    ours = np.asarray(nn.conv(one, two, bias, **options))
    np.testing.assert_allclose(ours, wanted, TOLERANCE[dtype], TOLERANCE[dtype] * np.abs(wanted).max())


def test_views_are_convolved_as_they_read() -> None:
    x, weights = random((2, 6, 7, 4)), random((3, 3, 4, 6))
    ours = nn.conv(anp.asarray(x).transpose((0, 3, 2, 1))[:, ::-1], anp.asarray(weights).transpose((0, 2, 3, 1)))
    wanted = nn.conv(x.transpose(0, 3, 2, 1)[:, ::-1].copy(), weights.transpose(0, 2, 3, 1).copy())
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(wanted))


def test_integers_are_summed_in_their_dtype() -> None:
    x, weights = np.arange(48, dtype="int32").reshape(1, 3, 4, 4), np.arange(54, dtype="int32").reshape(2, 3, 3, 3)
    wanted = conv_by_definition(x, weights, (1, 1), [(1, 1)] * 2, (1, 1), 1)
    np.testing.assert_array_equal(np.asarray(nn.conv(x, weights, padding=1)), wanted.astype("int32"))


@pytest.mark.parametrize(("word", "pads"), [("same_upper", (0, 1)), ("same_lower", (1, 0)), ("valid", (0, 0))])
def test_padding_by_a_rule(word: Any, pads: tuple[int, int]) -> None:
    x, weights = random((1, 2, 8, 8)), random((3, 2, 3, 3))
    ours, wanted = nn.conv(x, weights, padding=word, strides=2), nn.conv(x, weights, padding=(pads, pads), strides=2)
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(wanted))


ACTIVATED = {
    "relu": lambda y: np.maximum(y, 0),
    "tanh": np.tanh,
    "sigmoid": lambda y: 1 / (1 + np.exp(-y)),
    "silu": lambda y: y / (1 + np.exp(-y)),
    "hard_swish": lambda y: y * np.clip(y / 6 + 0.5, 0, 1),
    ("clip", -1.0, 2.0): lambda y: np.clip(y, -1, 2),
    ("leaky_relu", 0.1): lambda y: np.where(y < 0, 0.1 * y, y),
    ("leaky_relu", 1.5): lambda y: np.where(y < 0, 1.5 * y, y),
    ("hard_sigmoid", 0.2, 0.4): lambda y: np.clip(0.2 * y + 0.4, 0, 1),
}


@pytest.mark.parametrize("activation", list(ACTIVATED), ids=str)
@pytest.mark.parametrize(
    ("x", "weights", "groups"),
    [
        ((1, 3, 60, 50), (4, 3, 3, 3), 1),
        ((1, 3, 9, 9), (4, 3, 3, 3), 1),
        ((9, 3, 4), (4, 3, 3), 1),
        ((2, 3, 5, 5), (4, 3, 1, 1), 1),
        ((2, 3, 1, 1), (4, 3, 1, 1), 1),
        ((1, 4, 9, 9), (4, 1, 3, 3), 4),
    ],
)
def test_an_activation_is_applied_to_the_result(
    activation: Any, x: tuple[int, ...], weights: tuple[int, ...], groups: int
) -> None:
    for dtype in ("float32", "float16"):
        one, two, bias = random(x, dtype), random(weights, dtype, 1), random(weights[:1], dtype, 2)
        wanted = ACTIVATED[activation](np.asarray(nn.conv(one, two, bias, groups=groups)).astype("float64"))
        ours = np.asarray(nn.conv(one, two, bias, groups=groups, activation=activation))
        np.testing.assert_allclose(ours, wanted, TOLERANCE[dtype], TOLERANCE[dtype] * np.abs(wanted).max())


async def test_a_batch_may_be_sized_by_a_variable_and_no_other_extent(sink: ImmediateSink) -> None:
    x, weights = random((9, 3, 5, 5)), random((2, 3, 3, 3), seed=1)
    token = recording.set(None)
    try:
        n = aj.Variable("n", 1, 9)
        rows = aj.jit(lambda x, weights, n: nn.conv(x[:n], weights, padding=1))
        columns = aj.jit(lambda x, weights, n: nn.conv(x[:, :, :, :n], weights, padding=1))
        for count in (4, 9, 1):
            ours = np.asarray(await rows(x, weights, n.bind(count)))
            np.testing.assert_allclose(
                ours, conv_by_definition(x[:count], weights, (1, 1), [(1, 1)] * 2, (1, 1), 1), 1e-5, 1e-5
            )
        assert len(rows.captures) == 1
        with pytest.raises(ValueError, match="a variable may stand for the batch only"):
            await columns(x, weights, n.bind(4))
    finally:
        recording.reset(token)


@pytest.mark.parametrize(
    ("x", "weights", "options", "message"),
    [
        ((1, 3, 5, 5), (2, 4, 3, 3), {}, r"3 channels in, 1 groups, and weights of shape \(2, 4, 3, 3\)"),
        ((1, 4, 5, 5), (3, 2, 3, 3), {"groups": 2}, "filters a multiple of groups"),
        (
            (1, 3, 5, 5),
            (2, 3, 7, 3),
            {"padding": 0},
            r"reaches over \(7, 3\) elements and the padded input has \(5, 5\)",
        ),
        ((1, 3, 5), (2, 3, 3, 3), {}, "with as many axes"),
        ((3, 5), (2, 3), {}, r"expected shape \(batch, channels, \*spatial\), given \(3, 5\)"),
        ((1, 3, 5, 5), (2, 3, 3, 3), {"strides": (1, 0)}, "expected strides of at least 1 for 2 spatial axes"),
        ((1, 3, 5, 5), (2, 3, 3, 3), {"padding": (1, 1, 1)}, "expected padding for 2 spatial axes"),
        ((1, 3, 5, 5), (2, 3, 3, 3), {"padding": "same"}, "given 'same'"),
        ((1, 3, 5, 5), (2, 3, 3, 3), {"activation": "clip"}, r"no activation 'clip'; known are .*clip \(2 numbers\)"),
    ],
)
def test_what_does_not_fit_is_refused(
    x: tuple[int, ...], weights: tuple[int, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        nn.conv(random(x), random(weights), **options)


def test_a_bias_that_does_not_fit_and_mixed_dtypes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a bias of shape \(2,\), given \(3,\)"):
        nn.conv(random((1, 3, 5)), random((2, 3, 3)), random((3,)))
    with pytest.raises(TypeError, match="one dtype, given float32, float64: use astype"):
        nn.conv(random((1, 3, 5)), random((2, 3, 3), "float64"))
