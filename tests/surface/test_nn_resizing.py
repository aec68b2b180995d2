"""Resizing gives what its definition gives, element by element."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncjit.numpy as anp
from asyncjit import nn
from tests.surface.immediate import ImmediateSink, immediate


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


def position(x: int, extent: int, count: int, scale: float, coordinates: str) -> float:
    """Where output ``x`` of ``count`` lies among ``extent`` elements."""
    if coordinates == "align_corners":
        return x * (extent - 1) / (count - 1) if count > 1 else 0.0
    if coordinates == "asymmetric":
        return x / scale
    if coordinates == "pytorch_half_pixel" and count == 1:
        return 0.0
    shift = extent / 2 * (1 - count / (scale * extent)) if coordinates == "half_pixel_symmetric" else 0.0
    return shift + (x + 0.5) / scale - 0.5


def chosen(at: float, nearest: str) -> int:
    low = math.floor(at)
    up = {
        "floor": False,
        "ceil": at > low,
        "round_prefer_floor": at - low > 0.5,
        "round_prefer_ceil": at - low >= 0.5,
    }[nearest]
    return low + up


def weight(distance: float, mode: str, a: float) -> float:
    x = abs(distance)
    if mode == "linear":
        return max(0.0, 1 - x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def row_by_definition(row: Any, count: int, scale: float, options: dict[str, Any]) -> Any:
    """One axis, in float64."""
    extent, mode = len(row), options["mode"]
    out = np.zeros((count, *row.shape[1:]))
    for x in range(count):
        at = position(x, extent, count, scale, options["coordinates"])
        if mode == "nearest":
            out[x] = row[min(max(chosen(at, options["nearest"]), 0), extent - 1)]
            continue
        stretch = min(scale, 1.0) if options["antialias"] else 1.0
        reach = math.ceil((1 if mode == "linear" else 2) / stretch) + 1
        taps = range(math.floor(at) - reach, math.floor(at) + reach + 1)
        weights = {tap: weight((tap - at) * stretch, mode, options["cubic_a"]) for tap in taps}
        if options["exclude_outside"]:
            weights = {tap: each for tap, each in weights.items() if 0 <= tap < extent}
        total = sum(weights.values()) if options["exclude_outside"] or options["antialias"] else 1.0
        for tap, each in weights.items():
            out[x] += each / total * row[min(max(tap, 0), extent - 1)]
    return out


# Powers of two, so that positions are the same in float32 and in float64 and ties are ties.
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.data(),
    st.fixed_dictionaries(
        {
            "mode": st.sampled_from(["nearest", "linear", "cubic"]),
            "coordinates": st.sampled_from(
                ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
            ),
            "nearest": st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
            "antialias": st.booleans(),
            "exclude_outside": st.booleans(),
            "cubic_a": st.sampled_from([-0.5, -0.75]),
        }
    ),
)
def test_resizing_equals_its_definition(shape: list[int], data: st.DataObject, options: dict[str, Any]) -> None:
    scales = [data.draw(st.sampled_from([each for each in SCALES if each * extent >= 1])) for extent in shape]
    if options["coordinates"] == "align_corners" and options["mode"] == "nearest":
        # Thirds and sevenths round either way.
        options = {**options, "coordinates": "asymmetric"}
    x = np.random.default_rng(0).standard_normal(shape)
    with immediate():
        ours = np.asarray(nn.resize(x, scales=scales, **options))
    wanted = x
    for axis, scale in enumerate(scales):
        count = math.floor(shape[axis] * scale)
        rows = np.moveaxis(wanted, axis, 0)
        wanted = np.moveaxis(row_by_definition(rows, count, scale, options), 0, axis)
    np.testing.assert_allclose(ours, wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    ("shape", "sizes"), [((3, 40, 41), (80, 90)), ((3, 70, 200), (31, 77)), ((2, 5, 200), (9, 300))]
)
def test_large_and_small_axes_give_the_same(mode: Any, shape: tuple[int, ...], sizes: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    options = {"mode": mode, "coordinates": "half_pixel", "nearest": "floor", "antialias": False, "cubic_a": -0.75}
    ours = np.asarray(nn.resize(x, sizes=sizes, axes=(1, -1), mode=mode, nearest="floor"))
    wanted = x.astype("float64")
    for axis, size in ((1, sizes[0]), (2, sizes[1])):
        rows = np.moveaxis(wanted, axis, 0)
        scaled = row_by_definition(rows, size, size / shape[axis], {**options, "exclude_outside": False})
        wanted = np.moveaxis(scaled, 0, axis)
    np.testing.assert_allclose(ours, wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "float64"])
def test_the_dtype_stays(dtype: str) -> None:
    x = (np.arange(24).reshape(2, 3, 4) % 7).astype(dtype)
    nearest = nn.resize(x, scales=(1, 2, 3), coordinates="asymmetric", nearest="floor")
    np.testing.assert_array_equal(np.asarray(nearest), x.repeat(2, 1).repeat(3, 2))
    linear = nn.resize(x, sizes=(2, 5, 8), mode="linear", coordinates="align_corners")
    assert nearest.dtype == linear.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(linear)[:, ::2][..., [0, -1]], x[:, :, [0, -1]])


def test_a_crop_is_stretched_and_beyond_the_input_there_is_one_value() -> None:
    x = np.arange(5.0)
    options: dict[str, Any] = {"mode": "linear", "coordinates": "tf_crop_and_resize", "extrapolation": 9.0}
    np.testing.assert_allclose(np.asarray(nn.resize(x, sizes=(3,), crop=[(0.25, 0.75)], **options)), [1, 2, 3])
    np.testing.assert_allclose(np.asarray(nn.resize(x, sizes=(5,), crop=[(0.5, 1.5)], **options)), [2, 3, 4, 9, 9])
    square = np.asarray(nn.resize(np.ones((2, 2)), sizes=(3, 3), crop=[(0, 1), (-1, 1)], **options))
    np.testing.assert_array_equal(square, [[9, 1, 1]] * 3)


def test_proportions_are_kept_when_asked_for() -> None:
    x = anp.zeros((1, 10, 20))
    assert nn.resize(x, sizes=(7, 8), axes=(1, 2), aspect="not_larger").shape == (1, 4, 8)
    assert nn.resize(x, sizes=(7, 8), axes=(1, 2), aspect="not_smaller").shape == (1, 7, 14)


def test_empty_arrays_and_equal_sizes() -> None:
    assert nn.resize(anp.zeros((0, 3)), sizes=(0, 6)).shape == (0, 6)
    x = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(np.asarray(nn.resize(x, sizes=(2, 3))), x)
    with pytest.raises(ValueError, match="0 elements along axis 1 do not become 4"):
        nn.resize(anp.zeros((2, 0)), sizes=(2, 4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected sizes or scales for 2 axes, given None and None"),
        ({"sizes": (1, 2), "scales": (1, 2)}, "expected sizes or scales"),
        ({"sizes": (1,)}, "for 2 axes"),
        ({"scales": (0, 1)}, "scales are positive"),
        *(
            ({"sizes": (2, 2), word: "odd"}, f"{word} is one of .*given 'odd'")
            for word in ("mode", "coordinates", "nearest", "aspect")
        ),
    ],
)
def test_what_says_nothing_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nn.resize(np.zeros((2, 2)), **options)


def test_every_order_of_axes_is_the_same() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    wanted = np.asarray(nn.resize(x, sizes=(6, 2, 9), axes=(1, 2, 3), mode="linear"))
    for order in itertools.permutations(range(3)):
        sizes, axes = [(6, 2, 9)[each] for each in order], [(1, 2, 3)[each] for each in order]
        np.testing.assert_array_equal(np.asarray(nn.resize(x, sizes=sizes, axes=axes, mode="linear")), wanted)
