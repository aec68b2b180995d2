"""Quantised operators of ONNX give what ONNX Runtime gives, to the bit or to one quantum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.onnx.one_node import check

RNG = np.random.default_rng(0)


def values(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


def integers(dtype: str, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantize_and_dequantize(dtype: str) -> None:
    for scale, axis in ((np.float32(0.1), 1), (np.abs(values(3)) + 0.1, 1), (np.abs(values(4)) + 0.1, -1)):
        zero = integers(dtype, *np.shape(scale))
        check("QuantizeLinear", [values(2, 3, 4) * 9, np.asarray(scale), zero], {"axis": axis}, opset=13)
        check("DequantizeLinear", [integers(dtype, 2, 3, 4), np.asarray(scale), zero], {"axis": axis}, opset=13)
    blocks = np.abs(values(2, 3, 2)) + 0.1
    check("QuantizeLinear", [values(2, 3, 4) * 9, blocks], {"axis": 2, "block_size": 2}, opset=21)


def test_dynamic_quantize() -> None:
    for x in (values(3, 4), np.abs(values(5)) + 3):
        check("DynamicQuantizeLinear", [x], opset=11, outputs=3, quanta=1)


@pytest.mark.parametrize("constants", [(), (1, 3)])
@pytest.mark.parametrize("b_type", ["uint8", "int8"])
def test_products_of_integers(constants: tuple[int, ...], b_type: str) -> None:
    # Without the instructions for it ONNX Runtime adds two products in 16 bits, which larger weights of int8 overflow.
    a, b, a_zero, b_zero = integers("uint8", 5, 300), integers(b_type, 300, 4) // 2, np.uint8(7), integers(b_type, 4)
    check("MatMulInteger", [a, b, np.asarray(a_zero), b_zero], opset=10, constants=constants)
    x, w = integers("uint8", 1, 4, 6, 7), integers("uint8", 6, 2, 3, 3)
    options = {"group": 2, "pads": [1, 0, 1, 2], "strides": [2, 1]}
    check("ConvInteger", [x, w, np.asarray(a_zero), np.uint8([3])], options, opset=10, constants=constants)


def test_quantised_products() -> None:
    a, b = integers("uint8", 4, 9), integers("uint8", 9, 5)
    one = [np.asarray(each) for each in (np.float32(0.02), np.uint8(9), np.float32(0.03), np.uint8(5))]
    out = [np.asarray(np.float32(0.7)), np.asarray(np.uint8(100))]
    check("QLinearMatMul", [a, *one[:2], b, *one[2:], *out], opset=10, quanta=1)
    x, w, bias = integers("uint8", 2, 3, 6, 6), integers("uint8", 4, 3, 3, 3), integers("int16", 4).astype("int32")
    check("QLinearConv", [x, *one[:2], w, *one[2:], *out, bias], opset=10, quanta=1, constants=(3, 4, 5, 8))
