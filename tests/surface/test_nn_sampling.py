"""Values between pixels are what their definitions say, position by position."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncjit import nn
from tests.surface.convolutions import conv_by_definition
from tests.surface.immediate import ImmediateSink, immediate


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


def random(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def thrown_back(at: float, low: float, high: float) -> float:
    while not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
        if low == high:
            return low
    return at


def weights_of(at: float, mode: str) -> dict[int, float]:
    if mode == "nearest":
        return {round(at): 1.0}
    low = math.floor(at)
    if mode == "linear":
        return {low: 1 - (at - low), low + 1: at - low}
    a, result = -0.75, {}
    for tap in range(low - 1, low + 3):
        x = abs(at - tap)
        near, far = (a + 2) * x**3 - (a + 3) * x**2 + 1, a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
        result[tap] = near if x <= 1 else far if x < 2 else 0.0
    return result


def value_at(image: Any, place: Any, mode: str, padding: str, align_corners: bool) -> Any:
    """``place`` counts from the first axis, -1 to 1."""
    extents = image.shape[1:]
    edges = [(0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5) for extent in extents]

    def inside(at: float, axis: int) -> float:
        at = thrown_back(at, *edges[axis]) if padding == "reflection" else at
        return min(max(at, 0), extents[axis] - 1)

    taps = []
    for axis, (each, extent) in enumerate(zip(place, extents, strict=True)):
        at = (each + 1) / 2 * (extent - 1) if align_corners else ((each + 1) * extent - 1) / 2
        if padding != "zeros" and mode != "cubic":
            at = inside(at, axis)
        taps.append(weights_of(at, mode))
    total = np.zeros(image.shape[0])
    for choice in product(*(each.items() for each in taps)):
        pixel = [tap for tap, _ in choice]
        if padding != "zeros":
            pixel = [int(inside(tap, axis)) for axis, tap in enumerate(pixel)]
        if all(0 <= tap < extent for tap, extent in zip(pixel, extents, strict=True)):
            total += math.prod(weight for _, weight in choice) * image[(slice(None), *pixel)]
    return total


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(["zeros", "border", "reflection"]),
    st.booleans(),
)
def test_a_grid_is_sampled(extents: list[int], mode: Any, padding: Any, align_corners: bool) -> None:
    x = random(2, 3, *extents)
    grid = np.random.default_rng(1).uniform(-2.5, 2.5, (2, 7, len(extents)))
    with immediate():
        shaped = grid.reshape(2, 7, *(1,) * (len(extents) - 1), len(extents))
        ours = nn.grid_sample(x, shaped, mode=mode, padding=padding, align_corners=align_corners)
    assert ours.shape == (2, 3, 7, *(1,) * (len(extents) - 1))
    values = np.asarray(ours).reshape(2, 3, 7)
    for n, index in np.ndindex(2, 7):
        wanted = value_at(x[n], grid[n, index][::-1], mode, padding, align_corners)
        np.testing.assert_allclose(values[n, :, index], wanted, 1e-9, 1e-9)


def test_many_positions_go_in_blocks_and_halves_are_summed_in_float32() -> None:
    x, grid = random(1, 700, 9, 9, dtype="float16"), np.random.default_rng(1).uniform(-1, 1, (1, 20, 30, 2))
    ours = np.asarray(nn.grid_sample(x, grid.astype("float32")))
    wanted = np.asarray(nn.grid_sample(x.astype("float64"), grid))
    assert ours.dtype == np.float16
    np.testing.assert_allclose(ours, wanted, 2e-3, 2e-3)


def test_what_is_not_a_number_is_nowhere() -> None:
    ours = nn.grid_sample(np.ones((1, 1, 2, 2)), np.full((1, 1, 1, 2), np.nan))
    assert not np.asarray(ours)[np.isfinite(np.asarray(ours))].any()


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("extents", [(4, 5), (3, 4, 5), (1, 1)])
def test_the_grid_of_nothing_moved_gives_the_image_back(extents: tuple[int, ...], align_corners: bool) -> None:
    x = random(2, 3, *extents)
    theta = np.broadcast_to(np.eye(len(extents), len(extents) + 1), (2, len(extents), len(extents) + 1))
    grid = nn.affine_grid(theta.copy(), extents, align_corners=align_corners)
    assert grid.shape == (2, *extents, len(extents))
    np.testing.assert_allclose(np.asarray(nn.grid_sample(x, grid, align_corners=align_corners)), x, 1e-9, 1e-9)


def test_a_grid_is_turned_and_shifted() -> None:
    # The last axis counts first: x becomes y, and y becomes x + 1.
    grid = np.asarray(nn.affine_grid([[[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]], (2, 4)))
    y, x = np.meshgrid([-0.5, 0.5], [-0.75, -0.25, 0.25, 0.75], indexing="ij")
    np.testing.assert_allclose(grid[0], np.stack([y, x + 1], -1))
    with pytest.raises(ValueError, match=r"expected theta of shape \(n, 2, 3\), given \(1, 3, 3\)"):
        nn.affine_grid(np.zeros((1, 3, 3)), (2, 4))


def test_offsets_of_nothing_make_a_convolution() -> None:
    for dtype, tolerance in (("float64", 1e-9), ("float16", 2e-2)):
        x, weights = random(2, 4, 6, 7, dtype=dtype), random(6, 2, 3, 3, dtype=dtype, seed=1)
        options: dict[str, Any] = {"padding": ((1, 0), (1, 2)), "strides": (1, 2), "groups": 2}
        offset, bias = np.zeros((2, 2 * 18, 5, 4), dtype), random(6, dtype=dtype, seed=2)
        ours = nn.deform_conv(x, weights, offset, bias, np.full((2, 18, 5, 4), 0.5, dtype), offset_groups=2, **options)
        wanted = conv_by_definition(x, weights, (1, 2), ((1, 0), (1, 2)), (1, 1), 2) / 2 + bias.reshape(-1, 1, 1)
        assert (ours.shape, ours.dtype) == (wanted.shape, x.dtype)
        np.testing.assert_allclose(np.asarray(ours), wanted, tolerance, tolerance * 4)


def test_each_tap_is_moved_by_its_offset() -> None:
    x, weights = random(1, 2, 5, 6), random(3, 2, 2, 2, seed=1)
    offset = np.random.default_rng(2).uniform(-2, 2, (1, 2 * 4, 4, 5))
    ours = np.asarray(nn.deform_conv(x, weights, offset))
    for place in np.ndindex(4, 5):
        total = np.zeros(3)
        for index, tap in enumerate(np.ndindex(2, 2)):
            at = [place[axis] + tap[axis] + offset[(0, 2 * index + axis, *place)] for axis in range(2)]
            seen = np.zeros(2)
            for (y, one), (z, two) in product(weights_of(at[0], "linear").items(), weights_of(at[1], "linear").items()):
                if 0 <= y < 5 and 0 <= z < 6:
                    seen += one * two * x[0, :, y, z]
            total += weights[(slice(None), slice(None), *tap)] @ seen
        np.testing.assert_allclose(ours[(0, slice(None), *place)], total, 1e-9, 1e-9)


def test_regions_of_one_bin_a_pixel_are_the_pixels() -> None:
    x = random(2, 3, 8, 8)
    ours = nn.roi_align(x, [[2.0, 1.0, 5.0, 5.0]], [1], (4, 3), sampling_ratio=1)
    np.testing.assert_allclose(np.asarray(ours)[0], x[1, :, 1:5, 2:5], 1e-9)
    largest = nn.max_roi_pool(x, [[1.0, 2.0, 1.0, 4.0, 4.0]], (2, 1))
    wanted = np.stack([x[1, :, 1:3, 2:5].max((1, 2)), x[1, :, 3:5, 2:5].max((1, 2))], 1)[:, :, None]
    np.testing.assert_array_equal(np.asarray(largest)[0], wanted)
    assert nn.roi_align(x, np.zeros((0, 4)), np.zeros(0, "int64"), (2, 2)).shape == (0, 3, 2, 2)


def test_shapes_and_words_that_do_not_fit_are_refused() -> None:
    x = random(2, 4, 5, 6)
    with pytest.raises(ValueError, match=r"given \(2, 4, 5, 6\) and \(2, 3, 3, 3\)"):
        nn.grid_sample(x, np.zeros((2, 3, 3, 3)))
    with pytest.raises(ValueError, match="mode is one of nearest, linear, cubic, given 'bilinear'"):
        nn.grid_sample(x, np.zeros((2, 3, 3, 2)), mode="bilinear")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected floats"):
        nn.grid_sample(x.astype("int32"), np.zeros((2, 3, 3, 2)))
    with pytest.raises(ValueError, match=r"regions of shape \(count, 4\)"):
        nn.roi_align(x, np.zeros((1, 5)), [0], (2, 2))
    with pytest.raises(ValueError, match="expected an image number a region"):
        nn.roi_align(x, np.zeros((1, 4)), [0, 1], (2, 2))
    with pytest.raises(TypeError, match="floats of one dtype"):
        nn.max_roi_pool(x, np.zeros((1, 5), "float32"), (2, 2))
    with pytest.raises(ValueError, match=r"expected offsets of shape \(2, 8, 4, 5\), given \(2, 4, 4, 5\)"):
        nn.deform_conv(x, random(3, 4, 2, 2), np.zeros((2, 4, 4, 5)))
    with pytest.raises(ValueError, match="4 channels, 3 groups"):
        nn.deform_conv(x, random(3, 1, 2, 2), np.zeros((2, 8, 4, 5)), groups=3)
