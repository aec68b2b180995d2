"""Where the elements of a resized axis come from: positions and weights.

Law: one axis at a time, from parameters to tables, made when a kernel is bound; no operation.

The rules are those of the ONNX operator Resize, opset 19, whose names are used; coordinates are worked out in float32,
as ONNX Runtime does, so that ties fall to the same side. Where ``align_corners`` meets a scale that gives no whole
number of outputs, the corners are those of the outputs that there are, as in ONNX Runtime and PyTorch; ONNX's reference
puts the last corner at the fraction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

__all__ = ["COORDINATES", "NEAREST", "Axis", "Table", "table"]

Host: TypeAlias = "np.ndarray[Any, Any]"

#: How an output's position becomes one in the input.
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
#: Which neighbour is the nearest.
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


class Axis(NamedTuple):
    """How one axis is resized; ``start`` and ``end`` are what is cropped, as fractions."""

    mode: str
    coordinates: str
    nearest: str
    antialias: bool
    exclude_outside: bool
    cubic_a: float
    outputs: int
    scale: float
    start: float = 0.0
    end: float = 1.0


class Table(NamedTuple):
    """For each output its taps: positions in the input, and weights, both of shape (outputs, taps); ``outside`` marks
    outputs whose position is not in the input at all. No weights for the nearest neighbour."""

    positions: Host
    weights: Host | None
    outside: Host


def _coordinates(axis: Axis, extent: int) -> Host:
    """Positions in the input, as float32."""
    one = np.float32
    x, scale, length = np.arange(axis.outputs, dtype=one), one(axis.scale), one(extent)
    resized = one(axis.scale * extent)
    match axis.coordinates:
        case "align_corners":
            return x * one((extent - 1) / max(1, axis.outputs - 1))
        case "asymmetric":
            return x / scale
        case "tf_half_pixel_for_nn":
            return (x + one(0.5)) / scale
        case "tf_crop_and_resize":
            last, room = length - 1, one(axis.end - axis.start)
            if axis.outputs == 1:
                return x + one(0.5 * (axis.start + axis.end)) * last
            return one(axis.start) * last + x * room * last / one(axis.outputs - 1)
        case "half_pixel_symmetric":
            shift = length / 2 * (1 - one(axis.outputs) / resized)
            return shift + (x + one(0.5)) / scale - one(0.5)
        case "pytorch_half_pixel":
            return (x + one(0.5)) / scale - one(0.5) if axis.outputs > 1 else x * one(0)
        case _:
            return (x + one(0.5)) / scale - one(0.5)


def _linear(distance: Host) -> Host:
    return np.asarray(np.maximum(1 - np.abs(distance), 0))


def _cubic(a: float) -> Callable[[Host], Host]:
    """Keys, "Cubic convolution interpolation for digital image processing", 1981."""

    def weights(distance: Host) -> Host:
        x = np.abs(distance)
        near = ((a + 2) * x - (a + 3)) * x * x + 1.0
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.asarray(np.where(x <= 1, near, np.where(x < 2, far, 0)))

    return weights


def _nearest(axis: Axis, at: Host) -> Host:
    match axis.nearest:
        case "floor":
            chosen = np.floor(at)
        case "ceil":
            chosen = np.ceil(at)
        case "round_prefer_ceil":
            chosen = np.floor(at + np.float32(0.5))
        case _:
            chosen = np.ceil(at - np.float32(0.5))
    return chosen.astype(np.int64)


def table(axis: Axis, extent: int) -> Table:
    """The taps of every output of ``axis`` over an input of ``extent`` elements."""
    at = _coordinates(axis, extent)
    outside = ((at < 0) | (at > extent - 1)) if axis.coordinates == "tf_crop_and_resize" else np.zeros(len(at), bool)
    if axis.mode == "nearest":
        return Table(np.clip(_nearest(axis, at), 0, extent - 1)[:, None], None, outside)
    # Where it shrinks, antialias stretches the window, so that every element of the input counts.
    stretch = min(axis.scale, 1.0) if axis.antialias else 1.0
    radius, window = (1, _linear) if axis.mode == "linear" else (2, _cubic(axis.cubic_a))
    first = int(np.floor(-radius / stretch)) + 1
    offsets = np.arange(first, 2 - first)
    base = np.floor(at)
    distance = offsets - (at - base).astype(np.float64)[:, None]
    weights = window(distance * stretch)
    positions = base.astype(np.int64)[:, None] + offsets
    if axis.exclude_outside:
        weights = np.where((positions < 0) | (positions >= extent), 0, weights)
    if axis.exclude_outside or axis.antialias:
        weights = weights / weights.sum(1, keepdims=True)
    kept = (weights != 0).any(0)
    kept[0] |= not kept.any()
    return Table(np.clip(positions, 0, extent - 1)[:, kept], weights[:, kept], outside)
