"""Operators of ``com.microsoft`` give what ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.onnx.one_node import check

RNG = np.random.default_rng(0)
MICROSOFT: dict[str, Any] = {"opset": 1, "domain": "com.microsoft"}


def values(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("by_gate", [False, True])
@pytest.mark.parametrize("n", [1, 3])
def test_an_lstm_with_quantised_weights(direction: str, by_gate: bool, n: int) -> None:
    d, t, i, u = 1 + (direction == "bidirectional"), 4, 6, 8
    x, state, cell, bias = values(t, n, i), values(d, n, u), values(d, n, u), values(d, 8 * u)
    weights = [RNG.integers(-64, 64, (d, each, 4 * u)).astype("int8") for each in (i, u)]
    # ONNX Runtime takes a scale for each gate with zeros of 0 only.
    shape = (d, 4 * u) if by_gate else (d,)
    scales = [np.abs(values(*shape)) / 100 + np.float32(0.002) for _ in range(2)]
    zeros = [np.zeros(shape, "int8") if by_gate else RNG.integers(-9, 9, shape).astype("int8") for _ in range(2)]
    inputs = [x, *weights, bias, None, state, cell, None, scales[0], zeros[0], scales[1], zeros[1]]
    attributes = {"hidden_size": u, "direction": direction}
    constants = (1, 2, 3, 8, 9, 10, 11)
    check("DynamicQuantizeLSTM", inputs, attributes, outputs=3, constants=constants, **MICROSOFT)


def test_elementwise_and_normalising_operators() -> None:
    x, bias = values(2, 3, 4), values(4)
    check("Gelu", [x], **MICROSOFT)
    check("FastGelu", [x, bias], **MICROSOFT)
    check("BiasGelu", [x, bias], **MICROSOFT)
    check("QuickGelu", [x], {"alpha": 1.5}, **MICROSOFT)
    check("FusedMatMul", [values(2, 4, 3), values(2, 5, 4)], {"transA": 1, "transB": 1, "alpha": 0.5}, **MICROSOFT)
    check("SkipLayerNormalization", [x, values(2, 3, 4), values(4), values(4), bias], **MICROSOFT)
    check("SkipSimplifiedLayerNormalization", [x, values(2, 3, 4), values(4), bias], **MICROSOFT)


@pytest.mark.parametrize("causal", [0, 1])
def test_multi_head_attention(causal: int) -> None:
    q, k, v = values(2, 5, 12), values(2, 5, 12), values(2, 5, 12)
    attributes = {"num_heads": 3, "unidirectional": causal}
    check("MultiHeadAttention", [q, k, v], attributes, **MICROSOFT)
    check("MultiHeadAttention", [q, k, v, values(36)], attributes, **MICROSOFT)
    padding = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], "int32")
    check("MultiHeadAttention", [q, k, v, None, padding, values(2, 3, 5, 5)], {"num_heads": 3}, **MICROSOFT)


def test_products_of_integers_to_floats() -> None:
    a, b = RNG.integers(0, 256, (3, 6)).astype("uint8"), RNG.integers(-60, 60, (6, 4)).astype("int8")
    scales = [np.float32([0.02]), np.float32([0.03]), np.uint8([7]), np.int8([2])]
    check("MatMulIntegerToFloat", [a, b, *scales, values(4)], constants=(1, 5), **MICROSOFT)
