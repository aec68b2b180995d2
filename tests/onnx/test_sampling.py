"""Padding, grids, regions and non-maximum suppression, against ONNX Runtime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.onnx.one_node import check


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_padding(mode: str) -> None:
    x, pads = random(2, 3, 5, 6), np.array([0, 1, 3, 0, 1, 0, 2, 4])
    check("Pad", [x, pads], {"mode": mode}, opset=11, constants=(1,))
    check("Pad", [x, np.array([0, 0, -1, 2, 0, 0, 1, -2])], {"mode": mode}, opset=13)
    check("Pad", [x, np.array([1, 2, 3, 1]), None, np.array([3, -2])], {"mode": mode}, opset=18, constants=(1, 3))
    if mode == "constant":
        check("Pad", [x, pads, np.array(7, "float32")], {}, opset=19, constants=(1,))
        check("Pad", [(x * 9).astype("int32"), pads, np.array(7, "int32")], {}, opset=19, constants=(1, 2))


def test_local_response_normalisation() -> None:
    for size in (1, 3, 5):
        check("LRN", [random(2, 7, 4, 3)], {"size": size, "alpha": 0.3, "beta": 0.5, "bias": 2.0}, opset=13)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grids(mode: str) -> None:
    grid = np.random.default_rng(1).uniform(-1.7, 1.7, (2, 4, 3, 2)).astype("float32")
    for padding, align in itertools.product(("zeros", "border", "reflection"), (0, 1)):
        attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
        check("GridSample", [random(2, 3, 5, 6), grid], attributes, opset=20, tolerance=1e-4)
    old = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[mode]
    check("GridSample", [random(2, 3, 5, 6), grid], {"mode": old}, opset=16, tolerance=1e-4)


def test_moved_grids() -> None:
    for align in (0, 1):
        inputs = [random(2, 2, 3), np.array([2, 3, 4, 5])]
        check("AffineGrid", inputs, {"align_corners": align}, opset=20, constants=(1,), tolerance=1e-4)


def test_columns_to_images() -> None:
    attributes = {"pads": [1, 0, 1, 2], "strides": [2, 1], "dilations": [1, 2]}
    inputs = [random(2, 12, 12), np.array([5, 6]), np.array([2, 3])]
    check("Col2Im", inputs, attributes, opset=18, constants=(1, 2))


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions(mode: str) -> None:
    x = random(2, 3, 12, 14)
    regions = np.array([[0, 0, 9, 7], [3.2, 1.5, 20, 11.7], [5, 5, 5.5, 5.2], [-3, -2, 4, 4]], "float32")
    images = np.array([0, 1, 1, 0])
    for coordinates, ratio in itertools.product(("half_pixel", "output_half_pixel"), (0, 2)):
        attributes = {"mode": mode, "output_height": 3, "output_width": 2, "sampling_ratio": ratio}
        attributes |= {"spatial_scale": 0.7, "coordinate_transformation_mode": coordinates}
        check("RoiAlign", [x, regions, images], attributes, opset=16, tolerance=1e-4)


def test_largest_of_regions() -> None:
    regions = np.array([[0, 0, 0, 9, 7], [1, 3.2, 1.5, 20, 11.7], [1, 5, 5, 5, 5]], "float32")
    attributes = {"pooled_shape": [3, 2], "spatial_scale": 0.5}
    check("MaxRoiPool", [random(2, 3, 12, 14), regions], attributes, opset=13)


def test_deformed_windows() -> None:
    x, weights = random(2, 4, 7, 6), random(6, 2, 3, 2, seed=1)
    offset, mask = random(2, 24, 6, 6, seed=2), random(2, 12, 6, 6, seed=3)
    attributes = {"group": 2, "offset_group": 2, "pads": [1, 0, 0, 1], "kernel_shape": [3, 2]}
    check("DeformConv", [x, weights, offset, random(6, seed=4), mask], attributes, opset=19, tolerance=1e-4)


@pytest.mark.parametrize("center_point_box", [0, 1])
def test_boxes_that_cover_each_other_go(center_point_box: int) -> None:
    random_boxes = np.random.default_rng(0)
    boxes = random_boxes.uniform(0, 1, (2, 40, 4)).astype("float32")
    scores = random_boxes.permutation(240).reshape(2, 3, 40).astype("float32") / 240
    for count, overlap, least in ((40, 0.3, 0.2), (3, 0.5, 0.0), (10, 0.0, 0.5)):
        inputs = [boxes, scores, np.array([count]), np.array([overlap], "float32"), np.array([least], "float32")]
        check("NonMaxSuppression", inputs, {"center_point_box": center_point_box}, opset=11)
    check("NonMaxSuppression", [boxes, scores], {}, opset=11)
