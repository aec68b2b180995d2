"""Constants, and what is read off a value without computing on it.

Law: nothing here takes an element from the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
