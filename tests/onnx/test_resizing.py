"""Resize and Upsample against ONNX Runtime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.onnx.one_node import check

COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def random(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def floats(*values: float) -> Any:
    return np.array(values, "float32")


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_the_nearest_element(coordinates: str) -> None:
    scales = (floats(1, 1, 2, 3), floats(1, 1, 0.6, 2.5), floats(1, 1, 0.5, 0.34))
    for nearest, by in itertools.product(NEAREST, scales):
        attributes = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
        check("Resize", [random(1, 2, 6, 7), None, by], attributes, opset=19, constants=(2,))


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_sums_of_neighbours(coordinates: str, mode: str) -> None:
    for sizes, exclude, antialias in itertools.product(((1, 2, 11, 5), (1, 2, 3, 20)), (0, 1), (0, 1)):
        attributes = {
            "coordinate_transformation_mode": coordinates,
            "mode": mode,
            "exclude_outside": exclude if mode == "cubic" else 0,
            "antialias": antialias,
        }
        inputs = [random(1, 2, 6, 7), None, None, np.array(sizes)]
        check("Resize", inputs, attributes, opset=19, constants=(3,), tolerance=1e-4)


def test_older_opsets() -> None:
    x = random(1, 2, 5, 6)
    for mode in ("nearest", "linear"):
        check("Upsample", [x, floats(1, 1, 2, 3)], {"mode": mode}, opset=9, constants=(1,))
        check("Resize", [x, floats(1, 1, 2, 0.5)], {"mode": mode}, opset=10, constants=(1,))
        sizes = np.array((1, 2, 7, 9))
        check("Resize", [x, floats(), floats(), sizes], {"mode": mode}, opset=11, constants=(1, 2, 3))
        # ONNX Runtime takes sizes from inputs that are known at the call only, too; here they become part of the call.
        check("Resize", [x, floats(), floats(), sizes], {"mode": mode}, opset=13, constants=(1, 2))
    nearest = {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    check("Resize", [x, floats(), floats(1, 1, 1.5, 0.7)], nearest, opset=11, constants=(1, 2))
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear", "extrapolation_value": 7.0}
    inputs = [x, floats(0, 0, 0.2, -0.5, 1, 1, 0.8, 1.0), None, np.array((1, 2, 6, 4))]
    check("Resize", inputs, crop, opset=13, constants=(1, 3))


def test_axes_and_proportions() -> None:
    x = random(1, 2, 6, 7)
    for policy in ("not_larger", "not_smaller"):
        attributes = {"axes": [3, 2], "keep_aspect_ratio_policy": policy, "mode": "linear"}
        check("Resize", [x, None, None, np.array((9, 4))], attributes, opset=18, constants=(3,))
    check("Resize", [(x * 20).astype("uint8"), None, floats(2, 2)], {"axes": [2, 3]}, opset=18, constants=(2,))
