"""A small model in a file, and one that nobody can run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3) / 10 - 0.5


def model(*nodes: onnx.NodeProto, inputs: list[onnx.ValueInfoProto], outputs: list[str]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "tiny",
        inputs,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="tests")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """``y = relu(x @ w)`` and ``scores/last:0 = y + bias``, for rows of four numbers."""
    path = tmp_path / "tiny.onnx"
    rows = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    bias = helper.make_tensor_value_info("bias", TensorProto.FLOAT, [3])
    nodes = (
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["y"]),
        helper.make_node("Add", ["y", "bias"], ["scores/last:0"]),
    )
    onnx.save(model(*nodes, inputs=[rows, bias], outputs=["y", "scores/last:0"]), path)
    return path


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    """A model with an operator that there is not."""
    path = tmp_path / "unknown.onnx"
    rows = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    nodes = (helper.make_node("Relu", ["x"], ["z"]), helper.make_node("Nonsense", ["z"], ["y"], name="the_node"))
    onnx.save(model(*nodes, inputs=[rows], outputs=["y"]), path)
    return path
