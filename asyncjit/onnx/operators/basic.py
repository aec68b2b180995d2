"""The operators that nearly every model has.

Law: constants, shapes and the arithmetic that NumPy has by the same name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncjit.numpy as anp
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import Unsupported, operator

__all__: list[str] = []


@operator("Constant")
def constant(node: Node) -> Host:
    attributes = node.attributes
    if "value" in attributes:
        return node.tensor("value")
    if "sparse_value" in attributes:
        return node.tensor("sparse_value")
    for name, dtype in (("float", np.float32), ("int", np.int64), ("string", object)):
        if f"value_{name}" in attributes:
            return np.array(attributes[f"value_{name}"], dtype)
        if f"value_{name}s" in attributes:
            return np.array(attributes[f"value_{name}s"], dtype)
    raise Unsupported(f"a constant without a value; attributes are {sorted(attributes)}")


@operator("Shape", of_shapes=True)
def shape(node: Node, x: Any) -> Host:
    return np.array(x.shape[slice(node.int("start", 0), node.int("end", None))], np.int64)


@operator("Size", of_shapes=True)
def size(node: Node, x: Any) -> Host:
    return np.array(x.size, np.int64)


@operator("Identity", whole=True)
def identity(node: Node, run: Any, env: Any, x: Any) -> Any:
    return x


@operator("Reshape", since=5, host=(1,))
def reshape(node: Node, x: Array, shape: Host) -> Array:
    wanted = [int(extent) for extent in shape]
    if not node.int("allowzero", 0):
        wanted = [x.shape[axis] if extent == 0 else extent for axis, extent in enumerate(wanted)]
    return x.reshape(tuple(wanted))


for _name, _function in {
    "Add": anp.add,
    "Sub": anp.subtract,
    "Mul": anp.multiply,
}.items():

    def _binary(node: Node, a: Array, b: Array, function: Any = _function) -> Any:
        return function(a, b)

    operator(_name, since=7)(_binary)


@operator("Relu")
def relu(node: Node, x: Array) -> Array:
    return anp.maximum(x, 0)


@operator("MatMul")
def matmul(node: Node, a: Array, b: Array) -> Array:
    return anp.matmul(a, b)
