"""Padding is NumPy's; cropping keeps the middle; windows add up to the image that they are of."""

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
from tests.surface.immediate import ImmediateSink, immediate
from tests.surface.samples import same_bits


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(-2, 9), st.integers(-2, 9)), min_size=0, max_size=3),
    st.sampled_from(["constant", "edge", "reflect", "wrap"]),
    st.sampled_from(["float32", "int8", "bool", "complex64"]),
)
def test_padding_equals_numpy_with_negative_pads_cut_off_first(
    axes: list[tuple[int, int, int]], mode: Any, dtype: str
) -> None:
    # At least one element is left for others to come from.
    axes = [
        (extent, low, high) if extent + min(0, low) + min(0, high) > 0 else (extent, 0, 0) for extent, low, high in axes
    ]
    shape, pads = tuple(extent for extent, _, _ in axes), [(low, high) for _, low, high in axes]
    x = np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    kept = x[tuple(slice(max(0, -low), extent - max(0, -high)) for extent, low, high in axes)]
    grown = [(max(0, low), max(0, high)) for low, high in pads]
    wanted = np.pad(kept, grown, mode=mode) if axes else kept
    with immediate():
        ours = np.asarray(nn.pad(x, pads, mode=mode))
    same_bits(ours, wanted)


def test_the_value_is_a_number_or_an_array() -> None:
    x = np.ones((2, 2), "float32")
    wanted = np.pad(x, ((1, 0), (0, 2)), constant_values=7)
    same_bits(nn.pad(x, ((1, 0), (0, 2)), value=7), wanted)
    same_bits(nn.pad(x, ((1, 0), (0, 2)), value=anp.asarray(np.float32([7]))), wanted)
    with pytest.raises(TypeError, match="has the dtype of the array, float32, given float64"):
        nn.pad(x, ((1, 0), (0, 2)), value=anp.asarray(7.0))
    with pytest.raises(ValueError, match=r"expected one value, given shape \(2,\)"):
        nn.pad(x, ((1, 0), (0, 2)), value=anp.zeros(2, "float32"))


def test_what_cannot_be_padded_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected pads for 1 axes, given \(\)"):
        nn.pad(np.ones(3), ())
    with pytest.raises(ValueError, match="mode is one of constant, edge, wrap, reflect, given 'mirror'"):
        nn.pad(np.ones(3), [(1, 1)], mode="mirror")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="an axis of extent 0 has nothing for mode 'edge' to repeat"):
        nn.pad(np.ones((0, 3)), [(1, 1), (0, 0)], mode="edge")
    same_bits(nn.pad(np.ones((0, 3)), [(1, 1), (0, 0)]), np.zeros((2, 3)))


async def test_an_axis_may_be_sized_by_a_variable() -> None:
    token = recording.set(None)
    try:
        n = aj.Variable("n", 1, 9)
        padded = aj.jit(lambda x, n: nn.pad(x[:n], [(1, 2)], value=3.0))
        x = np.arange(9.0)
        for count in (4, 9, 1):
            same_bits(np.asarray(await padded(x, n.bind(count))), np.pad(x[:count], (1, 2), constant_values=3.0))
        assert len(padded.captures) == 1
    finally:
        recording.reset(token)


def test_the_middle_stays_in_the_middle() -> None:
    x = np.arange(7.0)
    same_bits(nn.center_crop_or_pad(x, [4]), x[1:5])
    same_bits(nn.center_crop_or_pad(x, [10]), np.pad(x, (1, 2)))
    square = np.arange(12.0).reshape(3, 4)
    same_bits(nn.center_crop_or_pad(square, [2], axes=[-1]), square[:, 1:3])
    same_bits(nn.center_crop_or_pad(square, range(5, 7)), np.pad(square, ((1, 1), (1, 1))))
    with pytest.raises(ValueError, match=r"expected extents for 2 axes, given \(1,\)"):
        nn.center_crop_or_pad(square, [1])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_windows_add_up_to_the_image_they_are_of(data: st.DataObject) -> None:
    axes = data.draw(st.integers(1, 3))
    each = st.tuples(*[st.integers(1, 3)] * axes)
    kernel, strides, dilation = data.draw(each), data.draw(each), data.draw(each)
    pads = data.draw(st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * axes))
    reach = [(taps - 1) * step + 1 for taps, step in zip(kernel, dilation, strict=True)]
    image = [max(1, size - sum(pad)) + data.draw(st.integers(0, 3)) for size, pad in zip(reach, pads, strict=True)]
    counts = [
        (extent + sum(pad) - size) // stride + 1
        for extent, pad, size, stride in zip(image, pads, reach, strides, strict=True)
    ]
    taps, windows = int(np.prod(kernel)), int(np.prod(counts))
    x = np.random.default_rng(0).integers(-9, 9, (2, 2 * taps, windows)).astype("float32")
    whole = np.zeros((2, 2, *(extent + sum(pad) for extent, pad in zip(image, pads, strict=True))), "float32")
    parts = x.reshape(2, 2, *kernel, *counts)
    for tap in np.ndindex(*kernel):
        for place in np.ndindex(*counts):
            at = tuple(o * s + t * d for o, s, t, d in zip(place, strides, tap, dilation, strict=True))
            whole[(slice(None), slice(None), *at)] += parts[(slice(None), slice(None), *tap, *place)]
    kept = tuple(slice(low, low + extent) for extent, (low, _) in zip(image, pads, strict=True))
    with immediate():
        ours = nn.col2im(x, image, kernel, strides=strides, dilation=dilation, padding=pads)
    same_bits(ours, whole[(slice(None), slice(None), *kept)])


def test_columns_of_another_image_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected shape \(n, channels \* 4, 9\) for an image of \(4, 4\)"):
        nn.col2im(np.zeros((1, 4, 8)), (4, 4), (2, 2))
