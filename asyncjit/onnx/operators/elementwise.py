"""Arithmetic, comparison, logic and functions, element by element.

Law: results have the dtypes of ONNX, which are those of the operands where NumPy would promote. Before opset 7 an
operand broadcasts by attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import asyncjit.numpy as anp
from asyncjit.numpy import Array
from asyncjit.onnx._dtypes import is_integer
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import Unsupported, operator

__all__: list[str] = []

Function = Callable[..., Any]

_UNARY: dict[str, Function] = {
    "Abs": anp.abs,
    "Acos": anp.acos,
    "Acosh": anp.acosh,
    "Asin": anp.asin,
    "Asinh": anp.asinh,
    "Atan": anp.atan,
    "Atanh": anp.atanh,
    "BitwiseNot": anp.bitwise_invert,
    "Ceil": anp.ceil,
    "Cos": anp.cos,
    "Cosh": anp.cosh,
    "Erf": anp.erf,
    "Exp": anp.exp,
    "Floor": anp.floor,
    "IsNaN": anp.isnan,
    "Log": anp.log,
    "Neg": anp.negative,
    "Not": anp.logical_not,
    "Reciprocal": anp.reciprocal,
    "Round": anp.round,
    "Sign": anp.sign,
    "Sin": anp.sin,
    "Sinh": anp.sinh,
    "Sqrt": anp.sqrt,
    "Tan": anp.tan,
    "Tanh": anp.tanh,
}

for _name, _function in _UNARY.items():

    def _unary(node: Node, x: Array, function: Function = _function) -> Any:
        return function(x)

    operator(_name)(_unary)


def _divide(a: Array, b: Array) -> Array:
    """Integers are divided towards 0."""
    if not is_integer(a.dtype):
        return anp.divide(a, b)
    if a.dtype.name.startswith("u"):
        return anp.floor_divide(a, b)
    return anp.floor_divide(a - anp.fmod(a, b), b)


_BINARY: dict[str, Function] = {
    "Add": anp.add,
    "And": anp.logical_and,
    "Div": _divide,
    "Greater": anp.greater,
    "Less": anp.less,
    "Mul": anp.multiply,
    "Or": anp.logical_or,
    "Sub": anp.subtract,
    "Xor": anp.logical_xor,
}
#: Without a version before opset 7.
_NEWER_BINARY: dict[str, Function] = {
    "BitwiseAnd": anp.bitwise_and,
    "BitwiseOr": anp.bitwise_or,
    "BitwiseXor": anp.bitwise_xor,
    "GreaterOrEqual": anp.greater_equal,
    "LessOrEqual": anp.less_equal,
}

for _name, _function in (_BINARY | _NEWER_BINARY).items():

    def _binary(node: Node, a: Array, b: Array, function: Function = _function) -> Any:
        return function(a, b)

    operator(_name, since=7)(_binary)


def _aligned(node: Node, a: Array, b: Array) -> Array:
    """``b`` with its axes beside those of ``a`` that begin at attribute ``axis``."""
    axis = node.int("axis", a.ndim - b.ndim) % max(a.ndim, 1)
    rest = a.ndim - axis - b.ndim
    return b.reshape((*b.shape, *(1,) * rest)) if node.int("broadcast") and rest > 0 else b


for _name, _function in _BINARY.items():

    def _old_binary(node: Node, a: Array, b: Array, function: Function = _function) -> Any:
        return function(a, _aligned(node, a, b))

    operator(_name)(_old_binary)


@operator("Equal", since=7)
def equal(node: Node, a: Array, b: Array) -> Array:
    return anp.equal(a, b)


@operator("Equal")
def old_equal(node: Node, a: Array, b: Array) -> Array:
    return anp.equal(a, _aligned(node, a, b))


_POWERS: dict[float, Function] = {2: anp.square, 0.5: anp.sqrt, -1: anp.reciprocal}


@operator("Pow", since=7, known=(1,))
def power(node: Node, x: Array, y: Array | Host) -> Array:
    if isinstance(y, np.ndarray):
        short = _POWERS.get(y.item()) if y.size == 1 and y.ndim <= x.ndim and not is_integer(x.dtype) else None
        if short is not None:
            result: Array = short(x)
            return result
        y = anp.asarray(y, device=x.device)
    if y.dtype is x.dtype:
        return anp.pow(x, y)
    if not is_integer(x.dtype) or is_integer(y.dtype):
        return anp.pow(x, y.astype(x.dtype))
    return anp.pow(x, y).astype(x.dtype)


@operator("Pow", known=(1,))
def old_power(node: Node, x: Array, y: Array | Host) -> Array:
    return power(node, x, _aligned(node, x, anp.asarray(y, device=x.device)))


@operator("Mod", since=10)
def modulo(node: Node, a: Array, b: Array) -> Array:
    return anp.fmod(a, b) if node.int("fmod") else anp.remainder(a, b)


@operator("BitShift", since=11)
def bit_shift(node: Node, x: Array, y: Array) -> Array:
    return anp.left_shift(x, y) if node.str("direction") == "LEFT" else anp.right_shift(x, y)


@operator("IsInf", since=10)
def is_inf(node: Node, x: Array) -> Array:
    negative, positive = node.int("detect_negative", 1), node.int("detect_positive", 1)
    if negative and positive:
        return anp.isinf(x)
    if not negative and not positive:
        return anp.zeros(x.shape, "bool", device=x.device)
    return anp.equal(x, float("inf") if positive else float("-inf"))


def _folded(function: Function) -> Function:
    def fold(node: Node, *arrays: Array) -> Any:
        result = arrays[0]
        for other in arrays[1:]:
            result = function(result, other)
        return result

    return fold


operator("Max")(_folded(anp.maximum))
operator("Min")(_folded(anp.minimum))
operator("Sum")(_folded(anp.add))


@operator("Mean")
def mean(node: Node, *arrays: Array) -> Any:
    return _folded(anp.add)(node, *arrays) / len(arrays)


@operator("Clip", since=11, known=(1, 2))
def clip(node: Node, x: Array, low: Array | Host | None = None, high: Array | Host | None = None) -> Array:
    bounds = [each.item() if isinstance(each, np.ndarray) and each.size == 1 else each for each in (low, high)]
    return anp.clip(x, *bounds)


@operator("Clip")
def old_clip(node: Node, x: Array) -> Array:
    return anp.clip(x, node.float("min", None), node.float("max", None))


@operator("Where", since=9)
def where(node: Node, condition: Array, x: Array, y: Array) -> Array:
    return anp.where(condition, x, y)


@operator("CumSum", since=11, host=(1,))
def cumulative_sum(node: Node, x: Array, axis: Host) -> Array:
    return _running(node, anp.cumulative_sum, x, int(axis.item()))


@operator("CumProd", since=26, host=(1,))
def cumulative_product(node: Node, x: Array, axis: Host) -> Array:
    return _running(node, anp.cumulative_prod, x, int(axis.item()))


def _running(node: Node, function: Function, x: Array, axis: int) -> Array:
    """``exclusive`` leaves out the element itself; ``reverse`` begins at the end."""
    if node.int("reverse"):
        x = anp.flip(x, axis)
    exclusive = bool(node.int("exclusive"))
    if exclusive:
        x = x[(*(slice(None),) * (axis % x.ndim), slice(None, -1))]
    result: Array = function(x, axis=axis, dtype=x.dtype, include_initial=exclusive)
    return anp.flip(result, axis) if node.int("reverse") else result


@operator("Det", since=11)
def determinant(node: Node, x: Array) -> Array:
    if x.dtype.kind != "f":
        raise Unsupported(f"determinants of {x.dtype}")
    return anp.det(x)
