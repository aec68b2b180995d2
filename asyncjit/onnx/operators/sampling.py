"""Padding, cropping, sampling and regions of images.

Law: translates attributes; the functions are those of ``asyncjit.nn``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncjit import nn
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import ALL, Unsupported, operator

__all__: list[str] = []


def _padded(node: Node, x: Array, pads: Any, axes: Any, value: Any) -> Array:
    places = list(range(x.ndim)) if axes is None else [int(axis) % x.ndim for axis in axes]
    if len(pads) != 2 * len(places):
        raise Unsupported(f"expected {2 * len(places)} pads for {len(places)} axes, given {len(pads)}")
    pairs = [(0, 0)] * x.ndim
    for index, place in enumerate(places):
        pairs[place] = (int(pads[index]), int(pads[index + len(places)]))
    mode: Any = node.str("mode", "constant")
    return nn.pad(x, pairs, mode=mode, value=value)


@operator("Pad", since=2)
def pad_by_attributes(node: Node, x: Array) -> Array:
    return _padded(node, x, node.ints("pads"), None, node.float("value", 0.0))


@operator("Pad", since=11, host=(1, 3))
def pad(node: Node, x: Array, pads: Host, value: Any = None, axes: Any = None) -> Array:
    return _padded(node, x, pads, axes, 0 if value is None else value)


@operator("CenterCropPad", since=18, host=(1,))
def center_crop_pad(node: Node, x: Array, shape: Host) -> Array:
    return nn.center_crop_or_pad(x, shape.tolist(), axes=node.ints("axes", range(x.ndim)))


@operator("Col2Im", since=18, host=(1, 2))
def col2im(node: Node, x: Array, image: Host, block: Host) -> Array:
    axes = len(image)
    pads = node.ints("pads", (0,) * (2 * axes))
    return nn.col2im(
        x,
        image.tolist(),
        block.tolist(),
        strides=node.ints("strides", (1,) * axes),
        dilation=node.ints("dilations", (1,) * axes),
        padding=tuple(zip(pads[:axes], pads[axes:], strict=True)),
    )


#: Names before opset 20.
_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@operator("GridSample", since=16)
def grid_sample(node: Node, x: Array, grid: Array) -> Array:
    word = node.str("mode", "linear")
    mode: Any = _MODES.get(word, word)
    padding: Any = node.str("padding_mode", "zeros")
    return nn.grid_sample(x, grid, mode=mode, padding=padding, align_corners=bool(node.int("align_corners", 0)))


@operator("AffineGrid", since=20, host=(1,))
def affine_grid(node: Node, theta: Array, size: Host) -> Array:
    return nn.affine_grid(theta, size.tolist()[2:], align_corners=bool(node.int("align_corners", 0)))


@operator("RoiAlign", since=10)
def roi_align_before(node: Node, x: Array, regions: Array, images: Array) -> Array:
    return _aligned(node, x, regions, images, "output_half_pixel")


@operator("RoiAlign", since=16)
def roi_align(node: Node, x: Array, regions: Array, images: Array) -> Array:
    return _aligned(node, x, regions, images, node.str("coordinate_transformation_mode", "half_pixel"))


def _aligned(node: Node, x: Array, regions: Array, images: Array, coordinates: str) -> Array:
    mode: Any = node.str("mode", "avg")
    return nn.roi_align(
        x,
        regions,
        images,
        (node.int("output_height", 1), node.int("output_width", 1)),
        mode=mode,
        sampling_ratio=node.int("sampling_ratio", 0),
        spatial_scale=node.float("spatial_scale", 1.0),
        half_pixel=coordinates == "half_pixel",
    )


@operator("MaxRoiPool")
def max_roi_pool(node: Node, x: Array, regions: Array) -> Array:
    height, width = node.ints("pooled_shape")
    return nn.max_roi_pool(x, regions, (height, width), spatial_scale=node.float("spatial_scale", 1.0))


@operator("NonMaxSuppression", since=10, host=ALL)
def non_max_suppression(
    node: Node, boxes: Host, scores: Host, most: Any = None, overlap_max: Any = None, score_min: Any = None
) -> Host:
    """Boxes in the order of their scores, without those that cover too much of one before."""
    count_max = 0 if most is None else int(most.reshape(-1)[0])
    threshold = 0.0 if overlap_max is None else float(overlap_max.reshape(-1)[0])
    least = None if score_min is None else float(score_min.reshape(-1)[0])
    chosen: list[tuple[int, int, int]] = []
    for image in range(scores.shape[0]):
        corners = _corners(boxes[image].astype(np.float32), bool(node.int("center_point_box", 0)))
        for kind in range(scores.shape[1]):
            each = scores[image, kind]
            order = np.argsort(-each, kind="stable")
            order = order if least is None else order[each[order] > least]
            chosen += [(image, kind, int(box)) for box in _kept(corners, order, count_max, threshold)]
    return np.array(chosen, np.int64).reshape(-1, 3)


def _corners(boxes: Host, are_centred: bool) -> Host:
    """Low y, low x, high y, high x."""
    if are_centred:
        x, y, width, height = boxes.T
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], 1)
    one, two = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(one, two), np.maximum(one, two)], 1)


def _kept(corners: Host, order: Host, count_max: int, threshold: float) -> list[int]:
    kept: list[int] = []
    areas = np.prod(corners[:, 2:] - corners[:, :2], 1)
    while order.size and len(kept) < count_max:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        low = np.maximum(corners[order, :2], corners[best, :2])
        high = np.minimum(corners[order, 2:], corners[best, 2:])
        shared = np.prod(np.maximum(high - low, 0), 1)
        union = areas[order] + areas[best] - shared
        order = order[shared <= threshold * union] if threshold else order[shared <= 0]
    return kept
