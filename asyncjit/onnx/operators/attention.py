"""Attention with its cache, masks and windows, and rotary embeddings.

Law: attributes, cache and masks; what computes is in ``asyncjit.nn``.
"""

from __future__ import annotations

import math
from typing import Any

import asyncjit.numpy as anp
from asyncjit import nn
from asyncjit.numpy import Array
from asyncjit.onnx._dtypes import dtype_of_code
from asyncjit.onnx._model_data import Node
from asyncjit.onnx.operators._registry import Unsupported, operator

__all__: list[str] = []


@operator("Attention", since=23)
def attention(
    node: Node,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    lengths: Array | None = None,
) -> Any:
    queries, keys, values = (
        _heads(each, node.int(name, None))
        for each, name in ((q, "q_num_heads"), (k, "kv_num_heads"), (v, "kv_num_heads"))
    )
    past = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2]
        keys, values = anp.concatenate([past_key, keys], axis=2), anp.concatenate([past_value, values], axis=2)
    joined, causal_offset = _rules(node, queries, keys, mask, past, lengths)
    options: dict[str, Any] = {
        "scale": node.float("scale", None),
        "softcap": node.float("softcap", 0.0),
        "causal_offset": causal_offset,
    }
    scores = None
    if len(node.outputs) > 3 and node.outputs[3]:
        out, scores = _with_scores(node, queries, keys, values, joined, options)
    else:
        out = nn.attention(queries, keys, values, joined, **options)
    if q.ndim == 3:
        out = out.transpose(0, 2, 1, 3).reshape(*q.shape[:2], -1)
    return out, keys, values, scores


def _rules(
    node: Node, queries: Array, keys: Array, mask: Array | None, past: int, lengths: Array | None
) -> tuple[Array | None, int | None]:
    """All that closes keys: one mask, and the offset of a causal rule, where that is all there is to it."""
    is_causal = bool(node.int("is_causal", 0))
    window = node.int("left_window_size", -1), node.int("right_window_size", -1)
    is_plain = is_causal and lengths is None and window == (-1, -1)
    joined = nn.attention_mask(
        queries.shape[2],
        keys.shape[2],
        dtype=_wide(queries),
        offset=past if lengths is None else lengths - queries.shape[2],
        is_causal=is_causal and not is_plain,
        window=window,
        lengths=lengths,
        mask=mask,
    )
    return joined, past if is_plain else None


def _wide(x: Array) -> str:
    return "float64" if x.dtype == "float64" else "float32"


def _heads(x: Array, heads: int | None) -> Array:
    if x.ndim == 4:
        return x
    if heads is None:
        raise Unsupported("three axes without q_num_heads and kv_num_heads")
    b, length, width = x.shape
    return x.reshape(b, length, heads, width // heads).transpose(0, 2, 1, 3)


def _with_scores(
    node: Node, q: Array, k: Array, v: Array, mask: Array | None, options: dict[str, Any]
) -> tuple[Array, Array]:
    """The same step by step, where the scores are wanted: mode 0 as multiplied, 1 with the softcap (opset 24: with the
    softcap, 23: with the mask), 2 with both, 3 after the softmax."""
    scale = options["scale"] if options["scale"] is not None else 1 / math.sqrt(q.shape[3])
    repeats = q.shape[1] // k.shape[1]
    keys, values = (anp.repeat(each, repeats, axis=1) if repeats > 1 else each for each in (k, v))
    precision = node.int("softmax_precision", 0)
    wide = _wide(q)
    multiplied = anp.matmul(q.astype(wide), anp.matrix_transpose(keys.astype(wide))) * scale
    softcap = options["softcap"]
    capped = anp.tanh(multiplied / softcap) * softcap if softcap else multiplied
    masked = capped
    if options["causal_offset"] is not None:
        rule = nn.attention_mask(q.shape[2], k.shape[2], dtype=wide, offset=options["causal_offset"], is_causal=True)
        mask = rule if mask is None or rule is None else mask + rule
    if mask is not None:
        masked = capped + mask
    if precision and dtype_of_code(precision) == "float64":
        weights = nn.softmax(masked.astype("float64")).astype(wide)
    else:
        weights = nn.softmax(masked)
    if mask is not None:
        weights = anp.where(mask.max(-1, keepdims=True) == -math.inf, 0, weights)
    out = anp.matmul(weights, values.astype(wide))
    modes = (multiplied, capped, masked, weights)
    scores = modes[node.int("qk_matmul_output_mode", 0)]
    return out.astype(q.dtype), scores.astype(q.dtype)


@operator("RotaryEmbedding", since=23)
def rotary_embedding(node: Node, x: Array, cosines: Array, sines: Array, positions: Array | None = None) -> Array:
    return nn.rotary_embedding(
        x,
        cosines,
        sines,
        positions,
        interleaved=bool(node.int("interleaved", 0)),
        rotated=node.int("rotary_embedding_dim", 0) or None,
        heads=node.int("num_heads", 0) or None,
    )


@operator("FlexAttention", domain="ai.onnx.preview", whole=True)
def flex_attention(node: Node, run: Any, env: Any, q: Any, k: Any, v: Any) -> Any:
    """With graphs that change the scores before the softmax, and the weights after it."""
    q, k, v = (run.array(each) for each in (q, k, v))
    scale = node.float("scale", None)
    if not node.has("score_mod") and not node.has("prob_mod"):
        return nn.attention(q, k, v, scale=scale)
    repeats = q.shape[1] // k.shape[1]
    keys, values = (anp.repeat(each, repeats, axis=1) if repeats > 1 else each for each in (k, v))
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    scores = anp.matmul(q.astype(_wide(q)), anp.matrix_transpose(keys.astype(_wide(q)))) * factor
    precision = node.int("softmax_precision", 0)
    if precision:
        scores = scores.astype(dtype_of_code(precision))
    if node.has("score_mod"):
        (scores,) = run.graph(node.graph("score_mod"), env, [scores])
    weights = nn.softmax(scores)
    if node.has("prob_mod"):
        (weights,) = run.graph(node.graph("prob_mod"), env, [weights])
    return anp.matmul(weights, values.astype(weights.dtype)).astype(q.dtype)


@operator("LinearAttention", since=27)
def linear_attention(
    node: Node,
    q: Array,
    k: Array,
    v: Array,
    state: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
) -> Any:
    rule = node.str("update_rule", "gated_delta")
    if (decay is not None) is not ("gated" in rule) or (beta is not None) is not ("delta" in rule):
        raise Unsupported(f"update rule {rule!r} with decay: {decay is not None}, beta: {beta is not None}")
    heads, kv_heads = node.int("q_num_heads"), node.int("kv_num_heads")
    queries, keys, values = (_heads(each, count) for each, count in ((q, heads), (k, kv_heads), (v, kv_heads)))
    scale = node.float("scale", 0.0) or None
    if decay is not None:
        decay = decay.reshape(*decay.shape[:2], kv_heads, -1).transpose(0, 2, 1, 3)
    if beta is not None:
        beta = anp.expand_dims(beta.transpose(0, 2, 1), -1)
    out, last = nn.linear_attention(queries, keys, values, state=state, decay=decay, beta=beta, scale=scale)
    return out.transpose(0, 2, 1, 3).reshape(*q.shape[:2], -1), last


@operator("CausalConvWithState", since=27)
def causal_conv_with_state(
    node: Node, x: Array, weights: Array, bias: Array | None = None, state: Array | None = None
) -> Any:
    kept = weights.shape[2] - 1
    before = anp.zeros((*x.shape[:2], kept), x.dtype) if state is None else state
    padded = anp.concatenate([before, x], axis=2)
    activation = {"none": None, "silu": "silu", "swish": "silu"}[node.str("activation", "none")]
    out = nn.conv(padded, weights, bias, groups=x.shape[1], activation=activation)
    return out, padded[:, :, padded.shape[2] - kept :].copy()


@operator("SwiGLU", since=27)
def swiglu(node: Node, a: Array, b: Array) -> Array:
    return nn.swish(a, node.float("alpha", 1.0)) * b
