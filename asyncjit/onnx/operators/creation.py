"""Operators that make arrays from shapes and numbers: filled, counted, windows, random.

Law: what follows from known numbers is folded and stays under the limit for one value; random numbers are new in each
replay.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto

import asyncjit.numpy as anp
from asyncjit import random
from asyncjit.numpy import Array
from asyncjit.onnx._dtypes import dtype_of_code
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import Unsupported, operator

__all__: list[str] = []


@operator("Range", since=11, host=(0, 1, 2))
def range_(node: Node, start: Host, limit: Host, delta: Host) -> Array:
    return anp.arange(start.item(), limit.item(), delta.item(), start.dtype)


@operator("ConstantOfShape", since=9, host=(0,))
def constant_of_shape(node: Node, shape: Host) -> Array:
    value = node.tensor("value") if node.has("value") else np.zeros(1, np.float32)
    return anp.full(shape.tolist(), value.reshape(-1)[0], value.dtype)


@operator("EyeLike", since=9, of_shapes=True)
def eye_like(node: Node, x: Any) -> Host:
    dtype = dtype_of_code(node.int("dtype")) if node.has("dtype") else x.dtype
    rows, columns = x.shape
    return np.asarray(np.eye(rows, columns, node.int("k", 0), dtype))


def _window(node: Node, size: Host, weights: tuple[float, ...]) -> Array:
    """A sum of cosines over one period, or with ``periodic=0`` from end to end."""
    count = int(size.item())
    dtype = dtype_of_code(node.int("output_datatype", TensorProto.FLOAT))
    steps = anp.arange(0, count, 1, "float64") * (2 * math.pi / max(count if node.int("periodic", 1) else count - 1, 1))
    total = anp.full((count,), weights[0])
    for order, weight in enumerate(weights[1:], 1):
        total = total + anp.cos(steps * order) * weight
    return total.astype(dtype)


@operator("HannWindow", since=17, host=(0,))
def hann_window(node: Node, size: Host) -> Array:
    return _window(node, size, (0.5, -0.5))


@operator("HammingWindow", since=17, host=(0,))
def hamming_window(node: Node, size: Host) -> Array:
    return _window(node, size, (25 / 46, -21 / 46))


@operator("BlackmanWindow", since=17, host=(0,))
def blackman_window(node: Node, size: Host) -> Array:
    return _window(node, size, (0.42, -0.5, 0.08))


def _generator(node: Node) -> random.Generator:
    """With a seed, the same numbers in each replay."""
    if not node.has("seed"):
        return random.default_generator()
    return random.Generator(int.from_bytes(np.float32(node.float("seed")).tobytes(), "little"))


def _drawn(node: Node, shape: Any, dtype: np.dtype[Any], normal: bool) -> Array:
    wide = "float64" if dtype.itemsize == 8 else "float32"
    generator = _generator(node)
    if normal:
        made = generator.normal(node.float("mean", 0.0), node.float("scale", 1.0), shape, wide)
    else:
        made = generator.uniform(node.float("low", 0.0), node.float("high", 1.0), shape, wide)
    return made.astype(dtype, copy=False)


for _normal, _name in ((True, "RandomNormal"), (False, "RandomUniform")):

    def _of_shape(node: Node, normal: bool = _normal) -> Array:
        return _drawn(node, node.ints("shape"), dtype_of_code(node.int("dtype", TensorProto.FLOAT)), normal)

    def _like(node: Node, x: Array, normal: bool = _normal) -> Array:
        dtype = dtype_of_code(node.int("dtype")) if node.has("dtype") else x.dtype
        return _drawn(node, x.shape, dtype, normal)

    operator(_name, is_pure=False)(_of_shape)
    operator(f"{_name}Like", is_pure=False)(_like)


@operator("Bernoulli", since=15, is_pure=False)
def bernoulli(node: Node, x: Array) -> Array:
    dtype = dtype_of_code(node.int("dtype")) if node.has("dtype") else x.dtype
    return _generator(node).bernoulli(x).astype(dtype)


@operator("Multinomial", since=7, is_pure=False)
def multinomial(node: Node, x: Array) -> Array:
    """Rows of logarithms of weights: for each draw the first class whose cumulated weight is above it."""
    dtype = dtype_of_code(node.int("dtype", TensorProto.INT32))
    if dtype.kind != "i":
        raise Unsupported(f"draws of dtype {dtype}")
    weights = anp.exp(x - anp.max(x, axis=1, keepdims=True))
    ends = anp.cumulative_sum(weights, axis=1)
    draws = _generator(node).random((x.shape[0], node.int("sample_size", 1)), "float64") * ends[:, -1:]
    return anp.sum(draws[:, :, None] >= ends[:, None, :-1], axis=2).astype(dtype)
