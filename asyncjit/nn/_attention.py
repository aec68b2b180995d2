"""Attention and rotary positions.

Law: brings operands into the shapes of ``ops.attention``, and masks into one summand of the scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncjit.nn._floats import rounded, widened
from asyncjit.numpy._array import Array
from asyncjit.numpy._creation import arange, asarray, full
from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._functions import where
from asyncjit.numpy._movement import as_array, concatenate, expand_dims, take
from asyncjit.ops.attention import Attention
from asyncjit.symbols import Int, same

__all__ = ["attention", "attention_mask", "linear_attention", "rotary_embedding"]


def _split(x: Array, heads: int | None, what: str) -> Array:
    """Heads as an axis: (b, h, l, d)."""
    if x.ndim == 4:
        return x
    if x.ndim != 3 or heads is None or heads < 1 or not same(x.shape[2] % heads, 0):
        raise ValueError(
            f"attention: {what} of shape {x.shape}; expected (b, h, l, d), or (b, l, h * d) with the number of heads, "
            f"which is {heads}"
        )
    b, length, width = x.shape
    return x.reshape(b, length, heads, width // heads).transpose(0, 2, 1, 3)


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    mask: ArrayLike | None = None,
    /,
    *,
    scale: float | None = None,
    causal_offset: int | None = None,
    softcap: float = 0.0,
    heads: int | None = None,
    kv_heads: int | None = None,
) -> Array:
    """``softmax(q @ k.mT * scale + mask) @ v`` for each head, without the matrix of all scores.

    Operands are (b, h, l, d), and so is the result; or all are (b, l, h * d), with ``heads`` and ``kv_heads``, and so
    is the result. There may be fewer heads of keys and values than of queries: each serves as many neighbours.

    Args:
        mask: broadcasts to (b, h, queries, keys); added to the scores, or of bool: False closes a key.
        scale: ``1 / sqrt(d)`` where it is not given.
        causal_offset: query ``i`` sees the keys up to ``i + causal_offset`` only; 0 where both are the same tokens.
        softcap: scores go through ``softcap * tanh(scores / softcap)`` before the mask, where it is not 0.

    Queries to which no key is open give 0.

    Raises:
        ValueError, TypeError: shapes, heads or dtypes do not go together.
    """
    dtype, (queries, keys, values) = widened(q, k, v)
    is_merged = queries.ndim == 3
    queries = _split(queries, heads, "queries")
    keys, values = (_split(each, kv_heads or heads, name) for each, name in ((keys, "keys"), (values, "values")))
    b, h, m, d = queries.shape
    g = keys.shape[1]
    if g < 1 or h % g:
        raise ValueError(f"attention: {h} heads of queries are no multiple of {g} heads of keys and values")
    factor = 1 / math.sqrt(d) if scale is None else float(scale)
    params = Attention(factor, float(softcap), causal_offset, mask is not None, is_merged)
    operands = [_by_key_head(queries, g), keys, values]
    if mask is not None:
        operands.append(_grouped(_summand(as_array(mask), queries.dtype), g, h))
    out: Any = apply("attention", operands, tuple(params))
    e = values.shape[3]
    return rounded(out[0].reshape((b, m, h * e) if is_merged else (b, h, m, e)), dtype)


def _by_key_head(queries: Array, g: int) -> Array:
    """Queries (b, h, m, d) as (b, g, h / g, m, d)."""
    b, h, m, d = queries.shape
    return expand_dims(queries, 2) if same(h, g) else queries.reshape(b, g, h // g, m, d)


def _summand(mask: Array, dtype: np.dtype[Any]) -> Array:
    if mask.dtype == np.bool_:
        return where(mask, asarray(0, dtype), asarray(-np.inf, dtype))
    return mask.astype(dtype, copy=False)


def _grouped(mask: Array, g: int, h: int) -> Array:
    """A mask for (b, h, m, n) as one for (b, g, r, m, n)."""
    while mask.ndim < 4:
        mask = expand_dims(mask, 0)
    b, over, m, n = mask.shape
    return mask.reshape(b, g, h // g, m, n) if same(over, h) else mask.reshape(b, over, 1, m, n)


def attention_mask(
    queries: int,
    keys: int,
    *,
    dtype: Any = "float32",
    offset: int | ArrayLike = 0,
    is_causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    lengths: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> Array | None:
    """The rules on which keys a query may see, as a summand of the scores: 0 or -inf, (queries, keys), or
    (b, 1, queries, keys) where they differ by batch element; None where there is no rule.

    Args:
        offset: keys before the first query, whose own key is number ``offset``; an array has one for each element.
        is_causal: no key behind the query's own.
        window: keys before and behind the query's own that it sees; -1 is all.
        lengths: keys of each batch element that count, the first ones.
        mask: another summand, or of bool, to be joined; one with fewer keys is closed for the others.
    """
    before, behind = window
    behind = 0 if is_causal else behind
    rules: list[Array] = []
    if before >= 0 or behind >= 0:
        rules.append(_band(queries, keys, offset, before, behind))
    if lengths is not None:
        rules.append((arange(keys) < expand_dims(as_array(lengths), 1)).reshape(-1, 1, 1, keys))
    summand = None if mask is None else _completed(_summand(as_array(mask), np.dtype(dtype)), keys)
    for rule in rules:
        closed = _summand(rule, np.dtype(dtype))
        summand = closed if summand is None else summand + closed
    return summand


def _band(queries: int, keys: int, offset: int | ArrayLike, before: int, behind: int) -> Array:
    """Where a key is open to a query: (queries, keys), or (b, 1, queries, keys)."""
    # Of each key, how far it is behind the query's own place without the offset.
    distance = np.arange(keys)[None, :] - np.arange(queries)[:, None]
    if isinstance(offset, int):
        own = distance - offset
        is_open = np.ones(own.shape, bool)
        if before >= 0:
            is_open &= own >= -before
        if behind >= 0:
            is_open &= own <= behind
        return asarray(is_open)
    own_of_each = asarray(distance) - as_array(offset).reshape(-1, 1, 1, 1)
    if before < 0:
        return own_of_each <= behind
    return own_of_each >= -before if behind < 0 else (own_of_each >= -before) & (own_of_each <= behind)


def _completed(mask: Array, keys: int) -> Array:
    missing: Int = keys - mask.shape[-1]
    if same(mask.shape[-1], 1) or missing <= 0:
        return mask
    closed = full((*mask.shape[:-1], missing), -np.inf, dtype=mask.dtype)
    return concatenate([mask, closed], axis=-1)


def rotary_embedding(
    x: ArrayLike,
    cosines: ArrayLike,
    sines: ArrayLike,
    positions: ArrayLike | None = None,
    /,
    *,
    interleaved: bool = False,
    rotated: int | None = None,
    heads: int | None = None,
) -> Array:
    """Pairs of elements of each head of ``x`` turned by an angle that depends on the position.

    ``x`` is (b, h, l, d), or (b, l, h * d) with ``heads``. ``cosines`` and ``sines`` hold a row of half of the elements
    turned for each position, which ``positions`` (b, l) chooses; without it they are (b, l, …). The first ``rotated``
    elements of a head are turned, all by default: neighbours with ``interleaved``, else element ``i`` of the first half
    with element ``i`` of the second. Source: Su et al., "RoFormer", 2021.
    """
    dtype, (array, cos, sin) = widened(x, cosines, sines)
    split = _split(array, heads, "x")
    count = rotated if rotated else split.shape[3]
    if positions is not None:
        cos, sin = take(cos, positions, axis=0), take(sin, positions, axis=0)
    if not same(cos.shape[-1], count // 2) or not same(sin.shape[-1], count // 2):
        raise ValueError(
            f"rotary_embedding: cosines {cos.shape} and sines {sin.shape} for {count} elements turned; expected "
            f"{count // 2} in the last axis"
        )
    cos, sin = expand_dims(cos, 1), expand_dims(sin, 1)
    turning = split[..., :count]
    first = turning[..., 0::2] if interleaved else turning[..., : count // 2]
    second = turning[..., 1::2] if interleaved else turning[..., count // 2 :]
    parts: Sequence[Array] = first * cos - second * sin, first * sin + second * cos
    if interleaved:
        turned = concatenate([expand_dims(each, -1) for each in parts], axis=-1).reshape(turning.shape)
    else:
        turned = concatenate(parts, axis=-1)
    whole = turned if same(count, split.shape[3]) else concatenate([turned, split[..., count:]], axis=-1)
    return rounded(whole if array.ndim == 4 else whole.transpose(0, 2, 1, 3).reshape(array.shape), dtype)


def linear_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    /,
    *,
    state: ArrayLike | None = None,
    decay: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    scale: float | None = None,
) -> tuple[Array, Array]:
    """Attention with a state of fixed size in the place of keys and values: ``q`` (b, h, t, d), ``k`` (b, g, t, d),
    ``v`` (b, g, t, e) give (b, h, t, e) and the last state (b, g, d, e).

    At each step the state is multiplied by ``exp(decay)``, where that is given, (b, g, t, d or 1); then the outer
    product of key and value is added, or with ``beta`` (b, g or 1, t, 1), ``beta`` times what the value
    differs by from what the state has for that key; and the query, times ``scale`` (``1 / sqrt(d)`` by default), reads
    it. Sources: Katharopoulos et al., "Transformers are RNNs", 2020; Yang et al., "Gated delta networks", 2024.
    """
    dtype, (queries, keys, values, first, gates, rates) = widened(q, k, v, state, decay, beta)
    b, h, t, d = queries.shape
    g = keys.shape[1]
    if g < 1 or h % g:
        raise ValueError(f"linear_attention: {h} heads of queries are no multiple of {g} heads of keys and values")
    given = tuple(each is not None for each in (first, gates, rates))
    optional = [each for each in (first, gates, rates) if each is not None]
    factor = 1 / math.sqrt(d) if scale is None else float(scale)
    operands = [_by_key_head(queries, g), keys, values, *optional]
    out, last, *_ = apply("linear_attention", operands, (factor, given))
    kept = dtype if state is None else as_array(state).dtype
    return rounded(out.reshape(b, h, t, values.shape[3]), dtype), rounded(last, kept)
