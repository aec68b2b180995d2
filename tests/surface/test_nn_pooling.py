"""Pooling gives what its definition gives, window by window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncjit.numpy as anp
from asyncjit import nn
from tests.surface.immediate import ImmediateSink, immediate

TOLERANCE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


@st.composite
def windows(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Shape of an input, and arguments of a pooling whose window fits."""
    axes = draw(st.integers(1, 3))
    each = st.tuples(*[st.integers(1, 3)] * axes)
    kernel, strides, dilation = draw(each), draw(each), draw(each)
    pads = draw(st.tuples(*[st.tuples(st.integers(0, 3), st.integers(0, 3))] * axes))
    least = [max(1, (taps - 1) * step + 1 - sum(pad)) for taps, step, pad in zip(kernel, dilation, pads, strict=True)]
    spatial = tuple(size + draw(st.integers(0, 4)) for size in least)
    shape = (draw(st.integers(0, 2)), draw(st.integers(1, 3)), *spatial)
    options = {"kernel": kernel, "strides": strides, "padding": pads, "dilation": dilation}
    return shape, {**options, "ceil": draw(st.booleans())}


def outputs_of(shape: tuple[int, ...], case: dict[str, Any]) -> tuple[int, ...]:
    """Windows that begin inside the input or the padding before it; whole ones, unless rounded up."""
    counts = []
    for axis, extent in enumerate(shape[2:]):
        low, high = case["padding"][axis]
        reach, stride = (case["kernel"][axis] - 1) * case["dilation"][axis] + 1, case["strides"][axis]
        last = extent + low + high - reach
        starts = [start for start in range(0, extent + low + high + stride, stride) if start <= last]
        if case["ceil"]:
            starts = [
                start for start in [*starts, starts[-1] + stride] if start < extent + low and start < last + stride
            ]
        counts.append(len(starts))
    return tuple(counts)


def seen_by(place: tuple[int, ...], shape: tuple[int, ...], case: dict[str, Any]) -> tuple[list[tuple[int, ...]], int]:
    """Positions of the input that a window sees, in order, and how many of its taps are in the padded input."""
    inside, padded = [], 0
    for tap in np.ndindex(*case["kernel"]):
        at = tuple(
            o * stride + t * step - low
            for o, stride, t, step, (low, _) in zip(
                place, case["strides"], tap, case["dilation"], case["padding"], strict=True
            )
        )
        rooms = list(zip(at, shape[2:], case["padding"], strict=True))
        padded += all(-low <= each < extent + high for each, extent, (low, high) in rooms)
        if all(0 <= each < extent for each, extent, _ in rooms):
            inside.append(at)
    return inside, padded


@settings(max_examples=60, deadline=None)
@given(windows(), st.sampled_from([*TOLERANCE, "int8", "uint8"]), st.booleans())
def test_the_largest_and_where_it_stands(case: Any, dtype: str, column_major: bool) -> None:
    shape, options = case
    x = np.random.default_rng(0).integers(-4 if dtype != "uint8" else 0, 5, shape).astype(dtype)
    with immediate():
        arrays = nn.max_pool(x, **options), *nn.max_pool_with_indices(x, column_major=column_major, **options)
    ours, again, indices = map(np.asarray, arrays)
    outputs = outputs_of(shape, options)
    assert ours.shape == again.shape == indices.shape == (*shape[:2], *outputs)
    assert (ours.dtype, indices.dtype) == (x.dtype, np.int64)
    np.testing.assert_array_equal(ours, again)
    numbers = np.arange(np.prod(shape[2:])).reshape(shape[2:], order="F" if column_major else "C")
    for place in np.ndindex(*outputs):
        positions, _ = seen_by(place, shape, options)
        for n, c in np.ndindex(*shape[:2]):
            values = [x[(n, c, *at)] for at in positions]
            if not values:
                continue
            best = int(np.argmax(values))
            assert ours[(n, c, *place)] == values[best]
            plane = (n * shape[1] + c) * numbers.size
            assert indices[(n, c, *place)] == plane + numbers[positions[best]]


@settings(max_examples=60, deadline=None)
@given(windows(), st.sampled_from(list(TOLERANCE)), st.booleans(), st.integers(1, 3))
def test_means_and_norms_of_windows(case: Any, dtype: str, count_padding: bool, p: int) -> None:
    shape, options = case
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    with immediate():
        ours = np.asarray(nn.average_pool(x, count_padding=count_padding, **options))
        norms = np.asarray(nn.lp_pool(x, p=p, **options))
    outputs = outputs_of(shape, options)
    assert ours.shape == norms.shape == (*shape[:2], *outputs)
    assert ours.dtype == norms.dtype == x.dtype
    for place in np.ndindex(*outputs):
        positions, padded = seen_by(place, shape, options)
        if not positions:
            continue
        values = np.stack([x[(slice(None), slice(None), *at)].astype(float) for at in positions])
        mean = values.sum(0) / (padded if count_padding else len(positions))
        norm = (abs(values) ** p).sum(0) ** (1 / p)
        at = (slice(None), slice(None), *place)
        assert np.allclose(ours[at], mean, TOLERANCE[dtype], TOLERANCE[dtype]), (place, ours[at], mean)
        assert np.allclose(norms[at], norm, TOLERANCE[dtype], TOLERANCE[dtype]), (place, norms[at], norm)


def test_many_channels_go_in_blocks() -> None:
    x = np.random.default_rng(0).standard_normal((3, 50, 70, 71)).astype("float32")
    options: dict[str, Any] = {"kernel": (3, 5), "strides": (2, 1), "padding": ((1, 1), (2, 2))}
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 2)), constant_values=-np.inf)
    wanted = np.lib.stride_tricks.sliding_window_view(padded, (3, 5), (2, 3))[:, :, ::2].max((-1, -2))
    np.testing.assert_array_equal(np.asarray(nn.max_pool(x, **options)), wanted)
    half = np.asarray(nn.average_pool(x.astype("float16"), count_padding=True, **options))
    zeros = np.pad(x.astype("float16").astype("float32"), ((0, 0), (0, 0), (1, 1), (2, 2)))
    mean = np.lib.stride_tricks.sliding_window_view(zeros, (3, 5), (2, 3))[:, :, ::2].mean((-1, -2))
    np.testing.assert_allclose(half, mean, 2e-3, 2e-3)


def test_nan_is_the_largest() -> None:
    x = np.array([[[1.0, np.nan, 2.0, 3.0]]])
    np.testing.assert_array_equal(np.asarray(nn.max_pool(x, 2)), [[[np.nan, np.nan, 3.0]]])


def test_pooling_over_everything() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    np.testing.assert_array_equal(np.asarray(nn.global_max_pool(x)), x.max((2, 3), keepdims=True))
    np.testing.assert_allclose(np.asarray(nn.global_average_pool(x)), x.mean((2, 3), keepdims=True))
    for p in (1, 2, 3):
        wanted = (abs(x) ** p).sum((2, 3), keepdims=True) ** (1 / p)
        np.testing.assert_allclose(np.asarray(nn.global_lp_pool(x, p=p)), wanted)


def test_unpooling_puts_elements_back() -> None:
    x = np.random.default_rng(0).permutation(48).reshape(2, 1, 4, 6).astype("float32")
    values, indices = nn.max_pool_with_indices(x, 2, strides=2)
    back = np.asarray(nn.max_unpool(values, indices, x.shape))
    np.testing.assert_array_equal(np.flatnonzero(back), np.sort(np.asarray(indices).ravel()))
    np.testing.assert_array_equal(back[back != 0], x[back != 0])
    with pytest.raises(ValueError, match="expected int64 indices of shape"):
        nn.max_unpool(values, anp.asarray(indices)[:1], x.shape)
    with pytest.raises(IndexError):
        nn.max_unpool(values, indices, (2, 1, 2, 2))


def test_what_does_not_fit_is_refused() -> None:
    x = np.zeros((1, 2, 4, 4), "float32")
    with pytest.raises(ValueError, match=r"max_pool: a window of \(5, 5\) .* the padded input has \(4, 4\)"):
        nn.max_pool(x, 5)
    with pytest.raises(ValueError, match="expected kernel of at least 1 for 2 spatial axes, given 0"):
        nn.average_pool(x, 0)
    with pytest.raises(ValueError, match="expected p of at least 1, given 0"):
        nn.lp_pool(x, 2, p=0)
    with pytest.raises(TypeError, match="average_pool: expected floats, given int32"):
        nn.average_pool(x.astype("int32"), 2)
    with pytest.raises(ValueError, match=r"expected shape \(batch, channels, \*spatial\), given \(4, 4\)"):
        nn.global_max_pool(x[0, 0])
