"""Operators of ``com.microsoft`` that exported models hold.

Law: attributes only; what computes is in ``asyncjit.nn``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncjit.numpy as anp
from asyncjit import nn
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Node
from asyncjit.onnx.operators._registry import Unsupported, operator
from asyncjit.onnx.operators.recurrent import recurrent_options

__all__: list[str] = []

DOMAIN = "com.microsoft"


def _integers(weights: Any, zero: Any) -> Array:
    """Weights (d, inputs, gates) less their zeros, as floats (d, gates, inputs); prepared once where they are known."""
    if isinstance(weights, np.ndarray) and isinstance(zero, np.ndarray):
        column = zero.reshape(len(weights), 1, -1).astype(np.float32)
        return anp.asarray(np.ascontiguousarray((weights.astype(np.float32) - column).transpose(0, 2, 1)))
    values, zeros = anp.asarray(weights).astype("float32"), anp.asarray(zero).astype("float32")
    return (values - zeros.reshape(values.shape[0], 1, -1)).transpose(0, 2, 1)


@operator("DynamicQuantizeLSTM", domain=DOMAIN, known=(1, 2, 9, 11))
def dynamic_quantize_lstm(
    node: Node,
    x: Array,
    weights: Any,
    recurrent: Any,
    bias: Array | None,
    lengths: Array | None,
    state: Array | None,
    cell: Array | None,
    peepholes: Array | None,
    w_scale: Array,
    w_zero: Any,
    r_scale: Array,
    r_zero: Any,
) -> Any:
    return nn.lstm(
        x,
        _integers(weights, w_zero),
        _integers(recurrent, r_zero),
        bias,
        lengths=lengths,
        state=state,
        cell=cell,
        peepholes=peepholes,
        input_forget=bool(node.int("input_forget", 0)),
        scales=(w_scale, r_scale),
        **recurrent_options(node),
    )


def _transposed(node: Node, name: str, x: Array) -> Array:
    if node.int(f"transBatch{name}", 0):
        raise Unsupported(f"transBatch{name}")
    return anp.matrix_transpose(x) if node.int(f"trans{name}", 0) and x.ndim > 1 else x


@operator("FusedMatMul", domain=DOMAIN)
def fused_matmul(node: Node, a: Array, b: Array) -> Array:
    out = anp.matmul(_transposed(node, "A", a), _transposed(node, "B", b))
    alpha = node.float("alpha", 1.0)
    return out if alpha == 1 else out * alpha


@operator("Gelu", domain=DOMAIN)
def gelu(node: Node, x: Array) -> Array:
    return nn.gelu(x)


@operator("FastGelu", domain=DOMAIN)
def fast_gelu(node: Node, x: Array, bias: Array | None = None) -> Array:
    return nn.gelu(x if bias is None else x + bias, approximate="tanh")


@operator("BiasGelu", domain=DOMAIN)
def bias_gelu(node: Node, x: Array, bias: Array) -> Array:
    return nn.gelu(x + bias)


@operator("QuickGelu", domain=DOMAIN)
def quick_gelu(node: Node, x: Array) -> Array:
    return nn.swish(x, node.float("alpha", 1.702))


@operator("SkipLayerNormalization", domain=DOMAIN)
def skip_layer_normalization(
    node: Node, x: Array, skip: Array, scale: Array, shift: Array | None = None, bias: Array | None = None
) -> Any:
    total = x + skip if bias is None else x + skip + bias
    out, mean, inverse = nn.layer_norm_with_statistics(total, scale, shift, epsilon=node.float("epsilon", 1e-12))
    return out, mean, inverse, total


@operator("SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_simplified_layer_normalization(
    node: Node, x: Array, skip: Array, scale: Array, bias: Array | None = None
) -> Any:
    total = x + skip if bias is None else x + skip + bias
    return nn.rms_norm(total, scale, epsilon=node.float("epsilon", 1e-12)), None, None, total


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(node: Node, x: Array, scale: Array) -> Array:
    return nn.rms_norm(x, scale, axis=node.int("axis", -1), epsilon=node.float("epsilon", 1e-5))


@operator("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(
    node: Node,
    q: Array,
    k: Array | None = None,
    v: Array | None = None,
    bias: Array | None = None,
    padding: Array | None = None,
    attention_bias: Array | None = None,
) -> Array:
    """Without packed operands and without a cache."""
    if k is None or v is None or q.ndim != 3 or k.ndim != 3 or v.ndim != 3:
        raise Unsupported("packed queries, keys and values")
    heads, width = node.int("num_heads"), q.shape[2]
    if bias is not None:
        q, k, v = q + bias[:width], k + bias[width : 2 * width], v + bias[2 * width :]
    mask = attention_bias
    if padding is not None:
        if padding.ndim != 2:
            raise Unsupported(f"a key padding mask of {padding.ndim} axes")
        closed = anp.where(padding != 0, 0.0, node.float("mask_filter_value", -10000.0)).astype(q.dtype)
        closed = anp.expand_dims(closed, (1, 2))
        mask = closed if mask is None else mask + closed
    causal_offset = 0 if node.int("unidirectional", 0) else None
    scale = node.float("scale", 0.0) or None
    return nn.attention(q, k, v, mask, heads=heads, scale=scale, causal_offset=causal_offset)


@operator("MatMulIntegerToFloat", domain=DOMAIN, known=(1, 4, 5))
def matmul_integer_to_float(
    node: Node,
    a: Array,
    b: Any,
    a_scale: Array,
    b_scale: Array,
    a_zero: Any = None,
    b_zero: Any = None,
    bias: Array | None = None,
) -> Array:
    out = nn.matmul_integer(a, b, a_zero, b_zero).astype(a_scale.dtype) * (a_scale * b_scale)
    return out if bias is None else out + bias
