"""Quantised operators.

Law: attributes only; what computes is in ``asyncjit.nn``. Weights and zeros that are known come as NumPy arrays, so
that they are prepared once.
"""

from __future__ import annotations

from typing import Any

from asyncjit import nn
from asyncjit.numpy import Array
from asyncjit.onnx._dtypes import dtype_of_code
from asyncjit.onnx._model_data import Node
from asyncjit.onnx.operators._registry import operator
from asyncjit.onnx.operators.vision import _window

__all__: list[str] = []


def _options(node: Node) -> dict[str, Any]:
    code = node.int("output_dtype", 0)
    return {
        "axis": node.int("axis", 1),
        "block_size": node.int("block_size", 0),
        "dtype": dtype_of_code(code) if code else None,
    }


def _quantize(node: Node, x: Array, scale: Array, zero: Array | None = None) -> Array:
    return nn.quantize(x, scale, zero, **_options(node))


def _dequantize(node: Node, x: Array, scale: Array, zero: Array | None = None) -> Array:
    return nn.dequantize(x, scale, zero, **_options(node))


for _domain, _since in (("", 10), ("com.microsoft", 1)):
    operator("QuantizeLinear", since=_since, domain=_domain)(_quantize)
    operator("DequantizeLinear", since=_since, domain=_domain)(_dequantize)


@operator("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(node: Node, x: Array) -> Any:
    return nn.dynamic_quantize(x)


@operator("MatMulInteger", since=10, known=(1, 2, 3))
def matmul_integer(node: Node, a: Array, b: Any, a_zero: Any = None, b_zero: Any = None) -> Array:
    return nn.matmul_integer(a, b, a_zero, b_zero)


@operator("QLinearMatMul", since=10, known=(1, 2, 3, 4, 5, 6, 7))
def qlinear_matmul(
    node: Node, a: Array, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, scale: Any, zero: Any
) -> Array:
    return nn.qlinear_matmul(a, a_scale, a_zero, b, b_scale, b_zero, scale, zero)


@operator("ConvInteger", since=10, known=(1, 2, 3))
def conv_integer(node: Node, x: Array, weights: Any, x_zero: Any = None, w_zero: Any = None) -> Array:
    return nn.conv_integer(x, weights, x_zero, w_zero, groups=node.int("group", 1), **_window(node, x))


@operator("QLinearConv", since=10, known=(1, 2, 3, 4, 5, 6, 7))
def qlinear_conv(
    node: Node,
    x: Array,
    x_scale: Any,
    x_zero: Any,
    weights: Any,
    w_scale: Any,
    w_zero: Any,
    scale: Any,
    zero: Any,
    bias: Array | None = None,
) -> Array:
    options = {"groups": node.int("group", 1), **_window(node, x)}
    return nn.qlinear_conv(x, x_scale, x_zero, weights, w_scale, w_zero, scale, zero, bias, **options)
