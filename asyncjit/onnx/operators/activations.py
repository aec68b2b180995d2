"""Activation functions.

Law: one line an operator over ``asyncjit.nn``; attributes have the defaults of ONNX.
"""

from __future__ import annotations

import math

from asyncjit import nn
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Node
from asyncjit.onnx.operators._registry import operator

__all__: list[str] = []

for _name, _function in {
    "HardSwish": nn.hard_swish,
    "Mish": nn.mish,
    "Relu": nn.relu,
    "Sigmoid": nn.sigmoid,
    "Softplus": nn.softplus,
    "Softsign": nn.softsign,
}.items():

    def _plain(node: Node, x: Array, function: object = _function) -> Array:
        return function(x)  # type: ignore[operator, no-any-return]

    operator(_name)(_plain)


@operator("LeakyRelu")
def leaky_relu(node: Node, x: Array) -> Array:
    return nn.leaky_relu(x, node.float("alpha", 0.01))


@operator("PRelu", since=7)
def prelu(node: Node, x: Array, slope: Array) -> Array:
    return nn.prelu(x, slope)


@operator("PRelu")
def old_prelu(node: Node, x: Array, slope: Array) -> Array:
    """One slope a channel."""
    if slope.size != 1:
        slope = slope.reshape((slope.size, *(1,) * (x.ndim - 2)))
    return nn.prelu(x, slope)


@operator("Elu")
def elu(node: Node, x: Array) -> Array:
    return nn.elu(x, node.float("alpha", 1.0))


@operator("Celu", since=12)
def celu(node: Node, x: Array) -> Array:
    return nn.celu(x, node.float("alpha", 1.0))


@operator("Selu")
def selu(node: Node, x: Array) -> Array:
    return nn.selu(x, node.float("alpha", 1.67326319217681884765625), node.float("gamma", 1.05070102214813232421875))


@operator("HardSigmoid")
def hard_sigmoid(node: Node, x: Array) -> Array:
    return nn.hard_sigmoid(x, node.float("alpha", 0.2), node.float("beta", 0.5))


@operator("ThresholdedRelu", since=10)
def thresholded_relu(node: Node, x: Array) -> Array:
    return nn.thresholded_relu(x, node.float("alpha", 1.0))


@operator("Shrink", since=9)
def shrink(node: Node, x: Array) -> Array:
    return nn.shrink(x, node.float("bias", 0.0), node.float("lambd", 0.5))


@operator("Swish", since=24)
def swish(node: Node, x: Array) -> Array:
    return nn.swish(x, node.float("alpha", 1.0))


@operator("Gelu", since=20)
def gelu(node: Node, x: Array) -> Array:
    return nn.gelu(x, approximate=node.str("approximate", "none"))


@operator("Hardmax", since=13)
def hardmax(node: Node, x: Array) -> Array:
    return nn.hardmax(x, node.int("axis", -1))


@operator("Hardmax")
def old_hardmax(node: Node, x: Array) -> Array:
    """Axes from ``axis`` on count as one."""
    axis = node.int("axis", 1) % x.ndim
    rows = math.prod(x.shape[:axis])
    return nn.hardmax(x.reshape((rows, -1) if x.size else (rows, math.prod(x.shape[axis:])))).reshape(x.shape)
