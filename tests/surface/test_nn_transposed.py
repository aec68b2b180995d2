"""Transposed convolution gives what its definition gives: each element times the weights, added into a window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncjit import nn
from tests.surface.immediate import ImmediateSink, immediate

TOLERANCE = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


def random(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def by_definition(x: Any, weights: Any, case: dict[str, Any]) -> Any:
    """In float64."""
    groups, kernel = case["groups"], weights.shape[2:]
    whole = [
        (extent - 1) * stride + (taps - 1) * step + 1 + more
        for extent, stride, taps, step, more in zip(
            x.shape[2:], case["strides"], kernel, case["dilation"], case["output_padding"], strict=True
        )
    ]
    out = np.zeros((x.shape[0], weights.shape[1] * groups, *whole))
    for at in np.ndindex(*x.shape[2:]):
        for group in range(groups):
            channels = slice(group * x.shape[1] // groups, (group + 1) * x.shape[1] // groups)
            filters = slice(group * weights.shape[1], (group + 1) * weights.shape[1])
            part = np.tensordot(x[(slice(None), channels, *at)].astype(float), weights[channels].astype(float), (1, 0))
            window = tuple(
                slice(each * stride, each * stride + (taps - 1) * step + 1, step)
                for each, stride, taps, step in zip(at, case["strides"], kernel, case["dilation"], strict=True)
            )
            out[(slice(None), filters, *window)] += part
    kept = tuple(slice(low, size - high) for size, (low, high) in zip(whole, case["padding"], strict=True))
    return out[(slice(None), slice(None), *kept)]


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    axes = draw(st.integers(1, 3))
    each = st.tuples(*[st.integers(1, 3)] * axes)
    kernel, strides, dilation = draw(each), draw(each), draw(each)
    spatial = draw(st.tuples(*[st.integers(1, 5)] * axes))
    extra = draw(st.tuples(*[st.integers(0, 2)] * axes))
    whole = [
        (extent - 1) * stride + (taps - 1) * step + 1 + more
        for extent, stride, taps, step, more in zip(spatial, strides, kernel, dilation, extra, strict=True)
    ]
    pads = []
    for size in whole:
        low = draw(st.integers(0, min(2, size - 1)))
        pads.append((low, draw(st.integers(0, min(2, size - 1 - low)))))
    groups, inputs, filters = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return {
        "x": (draw(st.integers(0, 2)), groups * inputs, *spatial),
        "weights": (groups * inputs, filters, *kernel),
        "strides": strides,
        "dilation": dilation,
        "padding": tuple(pads),
        "groups": groups,
        "output_padding": extra,
    }


@settings(max_examples=100, deadline=None)
@given(cases(), st.sampled_from(list(TOLERANCE)), st.booleans())
def test_transposed_convolution_equals_its_definition(case: dict[str, Any], dtype: str, has_bias: bool) -> None:
    case = dict(case)
    x, weights = random(case.pop("x"), dtype), random(case.pop("weights"), dtype, 1)
    bias = random((weights.shape[1] * case["groups"],), dtype, 2) if has_bias else None
    with immediate():
        ours = nn.conv_transpose(x, weights, bias, **case)
    wanted = by_definition(x, weights, case)
    if bias is not None:
        wanted = wanted + bias.reshape(-1, *(1,) * (x.ndim - 2)).astype(float)
    assert (ours.dtype.name, ours.shape) == (dtype, wanted.shape)
    np.testing.assert_allclose(np.asarray(ours), wanted, TOLERANCE[dtype], TOLERANCE[dtype] * 10)


@pytest.mark.parametrize(("kernel", "strides", "padding"), [(2, 2, 0), (4, 2, 1)])
def test_many_filters_go_in_blocks(kernel: int, strides: int, padding: int) -> None:
    x, weights, bias = random((1, 8, 60, 31)), random((8, 70, kernel, kernel), seed=1), random((70,), seed=2)
    pads = ((padding, padding),) * 2
    case = {"strides": (strides,) * 2, "dilation": (1, 1), "padding": pads, "groups": 1, "output_padding": (0, 0)}
    wanted = by_definition(x, weights, case) + bias.reshape(-1, 1, 1)
    ours = np.asarray(nn.conv_transpose(x, weights, bias, strides=strides, padding=padding))
    np.testing.assert_allclose(ours, wanted, 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("options", "pads", "extra"),
    [
        ({"output_shape": (9,)}, (1, 1), 0),
        ({"output_shape": (10,)}, (1, 0), 0),
        ({"output_shape": (10,), "padding": "same_upper"}, (0, 1), 0),
        ({"output_shape": (13,)}, (0, 0), 2),
        ({"padding": "same_upper"}, (0, 1), 0),
        ({"padding": "same_lower"}, (1, 0), 0),
        ({"padding": "valid"}, (0, 0), 0),
    ],
)
def test_padding_follows_from_the_shape_that_is_wanted(
    options: dict[str, Any], pads: tuple[int, int], extra: int
) -> None:
    x, weights = random((1, 2, 5)), random((2, 3, 3), seed=1)
    ours = nn.conv_transpose(x, weights, strides=2, **options)
    wanted = nn.conv_transpose(x, weights, strides=2, padding=(pads,), output_padding=extra)
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(wanted))


def test_what_does_not_fit_is_refused() -> None:
    x = random((1, 4, 5, 5))
    with pytest.raises(ValueError, match=r"4 channels in 1 groups and weights of shape \(3, 2, 3, 3\)"):
        nn.conv_transpose(x, random((3, 2, 3, 3)))
    with pytest.raises(ValueError, match=r"give outputs \(-1, -1\): pad less"):
        nn.conv_transpose(x, random((4, 2, 1, 1)), padding=3)
    with pytest.raises(ValueError, match=r"expected a bias of shape \(2,\), given \(3,\)"):
        nn.conv_transpose(x, random((4, 2, 3, 3)), random((3,)))
    with pytest.raises(TypeError, match="one dtype"):
        nn.conv_transpose(x, random((4, 2, 3, 3), "float64"))
