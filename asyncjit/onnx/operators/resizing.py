"""Resize and its forerunner Upsample.

Law: translates inputs and attributes of each opset; ``asyncjit.nn.resize`` does the rest.
"""

from __future__ import annotations

from typing import Any

from asyncjit import nn
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import Unsupported, operator

__all__: list[str] = []


@operator("Upsample", since=7)
def upsample(node: Node, x: Array) -> Array:
    return _upsampled(x, node.str("mode", "nearest"), node.floats("scales"))


@operator("Upsample", since=9, host=(1,))
@operator("Resize", since=10, host=(1,))
def upsample_by(node: Node, x: Array, scales: Host) -> Array:
    return _upsampled(x, node.str("mode", "nearest"), scales.tolist())


def _upsampled(x: Array, mode: str, scales: Any) -> Array:
    words: Any = "linear" if mode == "bilinear" else mode
    return nn.resize(x, scales=scales, mode=words, coordinates="asymmetric", nearest="floor")


@operator("Resize", since=11, host=(1, 2, 3))
def resize(
    node: Node, x: Array, roi: Host | None = None, scales: Host | None = None, sizes: Host | None = None
) -> Array:
    axes = [axis % x.ndim for axis in node.ints("axes", range(x.ndim))]
    if sizes is not None and not sizes.size:
        sizes = None
    crop = None
    if roi is not None and roi.size:
        crop = list(zip(roi[: len(axes)].tolist(), roi[len(axes) :].tolist(), strict=True))
    if sizes is None and (scales is None or not scales.size):
        raise Unsupported("neither scales nor sizes")
    mode: Any = node.str("mode", "nearest")
    aspect: Any = node.str("keep_aspect_ratio_policy", "stretch")
    return nn.resize(
        x,
        sizes=None if sizes is None else sizes.tolist(),
        scales=None if sizes is not None or scales is None else scales.tolist(),
        axes=axes,
        mode=mode,
        coordinates=node.str("coordinate_transformation_mode", "half_pixel"),
        nearest=node.str("nearest_mode", "round_prefer_floor"),
        antialias=bool(node.int("antialias", 0)),
        exclude_outside=bool(node.int("exclude_outside", 0)),
        cubic_a=node.float("cubic_coeff_a", -0.75),
        crop=crop,
        extrapolation=node.float("extrapolation_value", 0.0),
        aspect=aspect,
    )
