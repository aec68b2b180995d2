"""Convolution, pooling and what moves pixels, against ONNX Runtime.

Law: variants that ONNX's own tests leave out; those are in ``conformance``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.onnx.one_node import check

RANDOM = np.random.default_rng(0)


def random(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("float32")


@pytest.mark.parametrize(
    ("x", "weights", "attributes"),
    [
        ((2, 4, 9, 50), (6, 4, 3, 3), {"pads": [0, 1, 2, 1], "strides": [2, 1]}),
        ((2, 4, 9, 9), (6, 2, 3, 3), {"group": 2, "dilations": [2, 1], "pads": [1, 2, 0, 1]}),
        ((2, 6, 8, 9), (6, 1, 5, 5), {"group": 6, "pads": [2, 2, 2, 2], "strides": [1, 2]}),
        ((1, 129, 5), (16, 129, 3), {"pads": [1, 1]}),
        ((1, 2, 5, 6, 7), (3, 2, 2, 3, 1), {"auto_pad": "SAME_UPPER", "strides": [2, 1, 3]}),
        ((2, 3, 5, 5), (4, 3, 1, 1), {"auto_pad": "VALID", "strides": [2, 2]}),
        ((2, 3, 5, 6), (4, 3, 2, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 1]}),
    ],
)
def test_convolution(x: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, Any]) -> None:
    check("Conv", [random(*x), random(*weights), random(weights[0])], attributes, constants=(1, 2), tolerance=1e-4)
    check("Conv", [random(*x), random(*weights)], attributes, opset=11, tolerance=1e-4)


@pytest.mark.parametrize(
    ("x", "weights", "attributes"),
    [
        ((2, 4, 5, 6), (4, 3, 2, 2), {"strides": [2, 2]}),
        ((2, 4, 5, 6), (4, 3, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((2, 4, 5), (4, 3, 3), {"strides": [3], "output_padding": [1], "dilations": [2], "group": 2}),
        ((1, 2, 4, 4), (2, 3, 3, 3), {"strides": [2, 2], "output_shape": [9, 10]}),
        ((1, 2, 4, 4), (2, 3, 3, 3), {"strides": [2, 2], "output_shape": [8, 8], "auto_pad": "SAME_UPPER"}),
        ((1, 2, 4, 4), (2, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ],
)
def test_transposed_convolution(x: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, Any]) -> None:
    filters = weights[1] * attributes.get("group", 1)
    check("ConvTranspose", [random(*x), random(*weights), random(filters)], attributes, tolerance=1e-4)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [3, 2], "strides": [3, 2], "auto_pad": "SAME_UPPER"},
        {"kernel_shape": [2, 3], "auto_pad": "SAME_LOWER", "strides": [1, 2]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [5, 5], "strides": [1, 1], "pads": [2, 2, 2, 2]},
    ],
)
def test_pooling(op: str, attributes: dict[str, Any]) -> None:
    check(op, [random(2, 3, 10, 9)], attributes, opset=22 if op == "LpPool" else 19, tolerance=1e-4)
    if op == "AveragePool":
        check(op, [random(2, 3, 10, 9)], {**attributes, "count_include_pad": 1}, opset=19)
    if op == "MaxPool":
        check(op, [random(2, 3, 10, 9)], attributes, outputs=2)
        check(op, [random(2, 3, 10, 9)], {**attributes, "storage_order": 1}, outputs=2)
        check(op, [(random(2, 3, 10, 9) * 50).astype("int8")], attributes)


@pytest.mark.parametrize("op", ["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"])
def test_pooling_over_everything(op: str) -> None:
    check(op, [random(2, 3, 7, 5)], {"p": 3} if op == "GlobalLpPool" else {})
    check(op, [random(2, 3, 7)])


def test_unpooling() -> None:
    values, indices = random(1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]])
    check("MaxUnpool", [values, indices], {"kernel_shape": [2, 2], "strides": [2, 2]})


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_channels_become_pixels(mode: str) -> None:
    check("DepthToSpace", [random(2, 12, 2, 3)], {"blocksize": 2, "mode": mode})
    check("SpaceToDepth", [random(2, 3, 4, 6)], {"blocksize": 2})
