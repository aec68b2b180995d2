"""A model of one node, run here and by ONNX Runtime.

Law: builds, runs and compares; which nodes is for the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import asyncjit as aj

__all__ = ["check", "model_of", "ours", "theirs"]

Values = np.ndarray[Any, Any]


def model_of(
    op: str,
    inputs: Sequence[Values | None],
    attributes: dict[str, Any],
    *,
    opset: int,
    domain: str = "",
    outputs: int = 1,
    constants: Sequence[int] = (),
) -> onnx.ModelProto:
    """The node with its inputs named by position, None for an absent one; those in ``constants`` are initializers."""
    names = ["" if each is None else f"x{place}" for place, each in enumerate(inputs)]
    results = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    given = [
        helper.make_tensor_value_info(names[place], helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for place, each in enumerate(inputs)
        if each is not None and place not in constants
    ]
    kept = [numpy_helper.from_array(each, names[place]) for place in constants if (each := inputs[place]) is not None]
    unknown = [onnx.ValueInfoProto(name=name) for name in results]
    opsets = [helper.make_opsetid("", opset if not domain else 21)]
    opsets += [helper.make_opsetid(domain, opset)] if domain else []
    return helper.make_model(helper.make_graph([node], op, given, unknown, kept), opset_imports=opsets, ir_version=10)


def theirs(model: onnx.ModelProto, feed: dict[str, Values]) -> list[Values]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feed))


def ours(model: onnx.ModelProto, feed: dict[str, Values]) -> list[Values]:
    loaded = aj.onnx.load(model)
    outputs = loaded.run(**feed)
    return [np.asarray(outputs[each.name]) for each in loaded.outputs]


def check(
    op: str,
    inputs: Sequence[Values | None],
    attributes: dict[str, Any] | None = None,
    *,
    opset: int = 21,
    domain: str = "",
    outputs: int = 1,
    constants: Sequence[int] = (),
    tolerance: float = 1e-5,
    quanta: int = 0,
) -> None:
    """Both give the same shapes and dtypes, and elements within ``tolerance``; integers within ``quanta``."""
    model = model_of(op, inputs, attributes or {}, opset=opset, domain=domain, outputs=outputs, constants=constants)
    feed = {f"x{place}": each for place, each in enumerate(inputs) if each is not None and place not in constants}
    for got, wanted in zip(ours(model, feed), theirs(model, feed), strict=True):
        assert got.shape == wanted.shape
        assert got.dtype == wanted.dtype
        if wanted.dtype.kind in "iu":
            assert np.abs(got.astype("int64") - wanted.astype("int64")).max(initial=0) <= quanta
        else:
            np.testing.assert_allclose(got.astype("float64"), wanted.astype("float64"), rtol=tolerance, atol=tolerance)
