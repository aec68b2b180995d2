"""Attention of ONNX gives what ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.onnx.one_node import check

RNG = np.random.default_rng(0)


def values(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("attributes", [{}, {"is_causal": 1}, {"scale": 0.3, "softcap": 2.0}], ids=str)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_attention_with_heads_apart_and_merged(attributes: dict[str, Any], kv_heads: int) -> None:
    q, k, v = values(2, 4, 5, 8), values(2, kv_heads, 7, 8), values(2, kv_heads, 7, 8)
    check("Attention", [q, k, v], attributes, opset=23)
    merged = [each.transpose(0, 2, 1, 3).reshape(2, each.shape[2], -1) for each in (q, k, v)]
    heads = {"q_num_heads": 4, "kv_num_heads": kv_heads}
    check("Attention", [*merged, values(5, 7)], attributes | heads, opset=23)


def test_attention_with_a_cache() -> None:
    q, k, v = values(2, 3, 2, 8), values(2, 3, 2, 8), values(2, 3, 2, 8)
    check("Attention", [q, k, v, None, values(2, 3, 4, 8), values(2, 3, 4, 8)], {"is_causal": 1}, opset=23, outputs=3)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int) -> None:
    positions = RNG.integers(0, 9, (2, 5))
    x, cosines, sines = values(2, 3, 5, 8), values(9, 4), values(9, 4)
    check("RotaryEmbedding", [x, cosines, sines, positions], {"interleaved": interleaved}, opset=23)
