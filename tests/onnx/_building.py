"""Small models for the tests of the importer, made by onnx's own helpers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper

__all__ = ["graph", "model", "node", "value"]

node = helper.make_node


def value(name: str, dtype: Any, shape: Sequence[int | str | None] | None) -> onnx.ValueInfoProto:
    """An input or output; ``object`` is text."""
    code = onnx.TensorProto.STRING if dtype is object else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, code, shape)


def graph(
    nodes: Sequence[NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Mapping[str, Any] | None = None,
) -> onnx.GraphProto:
    tensors = [numpy_helper.from_array(np.asarray(each), name) for name, each in (weights or {}).items()]
    return helper.make_graph(list(nodes), "small", list(inputs), list(outputs), tensors)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Mapping[str, Any] | None = None,
    opset: int = 21,
    **more: Any,
) -> ModelProto:
    """A checked model."""
    imports = [helper.make_opsetid("", opset), *more.pop("imports", ())]
    made = helper.make_model(graph(nodes, inputs, outputs, weights), opset_imports=imports, **more)
    onnx.checker.check_model(made)
    return made
