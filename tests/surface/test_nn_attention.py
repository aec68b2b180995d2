"""Attention equals a plain NumPy computation with the whole matrix of scores, however it is cut up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncjit.numpy as anp
from asyncjit import nn
from asyncjit.ops import attention as op
from tests.surface.immediate import ImmediateSink, immediate

Values = np.ndarray[Any, Any]
TOLERANCE = {"float16": 3e-3, "float32": 2e-5, "float64": 1e-12}


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one:
        yield one


def values(*shape: int, dtype: str = "float32", seed: int = 0) -> Values:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def expected(
    q: Values, k: Values, v: Values, summand: Values | None = None, *, scale: float | None = None, softcap: float = 0.0
) -> Values:
    """In float64; closed keys are -inf in ``summand``, queries without an open key give 0."""
    q, k, v = (each.astype("float64") for each in (q, k, v))
    repeats = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, repeats, axis=1), np.repeat(v, repeats, axis=1)
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = np.tanh(scores / softcap) * softcap
    if summand is not None:
        scores = scores + summand
    top = scores.max(-1, keepdims=True, initial=-1e300)
    powers = np.exp(scores - top)
    total = powers.sum(-1, keepdims=True)
    return np.asarray(np.divide(powers, total, out=np.zeros_like(powers), where=total > 0) @ v)


def causal(m: int, n: int, offset: int) -> Values:
    return np.where(np.arange(n)[None, :] <= np.arange(m)[:, None] + offset, 0, -np.inf)


def close(ours: Any, wanted: Values, dtype: str = "float32") -> None:
    host = np.asarray(ours)
    assert host.dtype == dtype
    np.testing.assert_allclose(host.astype("float64"), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@given(data=st.data(), dtype=st.sampled_from(list(TOLERANCE)), scores_max=st.sampled_from([1, 7, 40, 1 << 16]))
def test_attention_equals_the_whole_matrix(data: st.DataObject, dtype: str, scores_max: int) -> None:
    b, g, r, m, n, d, e = (data.draw(st.integers(1, 4)) for _ in range(7))
    q, k, v = values(b, g * r, m, d, dtype=dtype), values(b, g, n, d, dtype=dtype), values(b, g, n, e, dtype=dtype)
    shape = data.draw(st.sampled_from([None, (m, n), (1, n), (b, 1, m, n), (g * r, m, n), (b, g * r, m, n), (n,)]))
    offset = data.draw(st.sampled_from([None, 0, 1, -1, -3]))
    scale, softcap = data.draw(st.sampled_from([None, 0.3])), data.draw(st.sampled_from([0.0, 2.0]))
    mask = None if shape is None else values(*shape, seed=1)
    is_bool = data.draw(st.booleans())
    summand = np.zeros((m, n)) if mask is None else np.where(mask > -0.5, 0, -np.inf) if is_bool else mask
    if offset is not None:
        summand = summand + causal(m, n, offset)
    given_mask = mask if mask is None or not is_bool else mask > -0.5
    with immediate(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(op, "SCORES_MAX", scores_max)
        ours = nn.attention(q, k, v, given_mask, scale=scale, causal_offset=offset, softcap=softcap)
        close(ours, expected(q, k, v, summand, scale=scale, softcap=softcap), dtype)
        merged = [anp.asarray(each).transpose(0, 2, 1, 3).reshape(b, each.shape[2], -1) for each in (q, k, v)]
        ours = nn.attention(
            *merged, given_mask, scale=scale, causal_offset=offset, softcap=softcap, heads=g * r, kv_heads=g
        )
        wanted = expected(q, k, v, summand, scale=scale, softcap=softcap).transpose(0, 2, 1, 3).reshape(b, m, -1)
        close(ours, wanted, dtype)


def test_scratch_stays_bounded_where_scores_would_not(sink: ImmediateSink) -> None:
    q = anp.asarray(values(1, 4, 600, 8))
    nn.attention(q, q, q)
    scratch = sink.calls[-1][1][-2][2]
    assert scratch.size == op.SCORES_MAX < 4 * 600 * 600


def test_no_query_and_no_key_give_nothing_and_zero() -> None:
    q, k = values(2, 3, 4, 5), values(2, 3, 0, 5)
    assert nn.attention(q[:, :, :0], q, q).shape == (2, 3, 0, 5)
    np.testing.assert_array_equal(np.asarray(nn.attention(q, k, k)), np.zeros((2, 3, 4, 5)))


@given(data=st.data())
def test_rules_become_one_mask(data: st.DataObject) -> None:
    b, m, n = 3, data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    before, behind = (data.draw(st.integers(-1, 3)) for _ in range(2))
    is_causal, by_batch = data.draw(st.booleans()), data.draw(st.booleans())
    offset = np.array([0, 1, -2]) if by_batch else np.array([data.draw(st.integers(-2, 3))] * b)
    lengths = np.array([n, 1, 0]) if data.draw(st.booleans()) else None
    mask = values(b, 1, m, max(n - 1, 1)) > 0 if data.draw(st.booleans()) else None
    is_open = np.ones((b, 1, m, n), bool)
    for index in np.ndindex(is_open.shape):
        batch, _, query, key = index
        place = query + offset[batch]
        is_open[index] &= not (is_causal and key > place)
        is_open[index] &= not (before >= 0 and key < place - before) and not (behind >= 0 and key > place + behind)
        is_open[index] &= lengths is None or key < lengths[batch]
        if mask is not None:
            is_open[index] &= (
                bool(mask[batch, 0, query, 0 if mask.shape[-1] == 1 else key])
                if (key < mask.shape[-1] or mask.shape[-1] == 1)
                else False
            )
    with immediate():
        ours = nn.attention_mask(
            m,
            n,
            offset=offset if by_batch else int(offset[0]),
            is_causal=is_causal,
            window=(before, behind),
            lengths=lengths,
            mask=mask,
        )
        got = np.zeros((b, 1, m, n)) if ours is None else np.asarray(ours)
    np.testing.assert_array_equal(np.broadcast_to(got, is_open.shape) == 0, is_open)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("rotated", [None, 4])
def test_rotary_embedding_turns_pairs(interleaved: bool, rotated: int | None) -> None:
    x, count = values(2, 3, 5, 6), rotated or 6
    angles = np.random.default_rng(1).uniform(0, 6, (9, count // 2))
    positions = np.random.default_rng(2).integers(0, 9, (2, 5))
    wanted = x.astype("float64")
    for index in np.ndindex(2, 3, 5, count // 2):
        batch, head, place, pair = index
        first, second = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + count // 2)
        turn = np.exp(1j * angles[positions[batch, place], pair])
        turned = (x[batch, head, place, first] + 1j * x[batch, head, place, second]) * turn
        wanted[batch, head, place, first], wanted[batch, head, place, second] = turned.real, turned.imag
    options: Any = {"interleaved": interleaved, "rotated": rotated}
    close(nn.rotary_embedding(x, np.cos(angles), np.sin(angles), positions, **options), wanted)
    flat = x.transpose(0, 2, 1, 3).reshape(2, 5, -1)
    ours = nn.rotary_embedding(flat, np.cos(angles)[positions], np.sin(angles)[positions], heads=3, **options)
    close(ours, wanted.transpose(0, 2, 1, 3).reshape(2, 5, -1))


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        ([(1, 3, 2, 4), (1, 2, 2, 4), (1, 2, 2, 4)], {}, "3 heads of queries are no multiple of 2"),
        ([(1, 2, 2, 4), (1, 2, 3, 4), (1, 2, 2, 4)], {}, "do not go together"),
        ([(1, 2, 8), (1, 2, 8), (1, 2, 8)], {"heads": 3}, "with the number of heads, which is 3"),
        ([(1, 2, 2, 4)] * 3 + [(3, 2)], {}, "broadcast"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(shapes: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nn.attention(*[values(*shape) for shape in shapes], **options)
    with pytest.raises(ValueError, match="expected 2 in the last axis"):
        nn.rotary_embedding(values(1, 1, 2, 4), values(1, 2, 3), values(1, 2, 3))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("decay", [None, 1, 4])
@pytest.mark.parametrize("rate", [None, 1, 2])
def test_linear_attention_equals_a_plain_loop(dtype: str, decay: int | None, rate: int | None) -> None:
    b, g, r, t, d, e = 2, 2, 3, 5, 4, 3
    q, k, v = values(b, g * r, t, d, dtype=dtype), values(b, g, t, d, dtype=dtype), values(b, g, t, e, dtype=dtype)
    state = values(b, g, d, e, dtype=dtype, seed=1)
    gates = None if decay is None else -np.abs(values(b, g, t, decay, dtype=dtype, seed=2))
    rates = None if rate is None else np.abs(values(b, rate, t, 1, dtype=dtype, seed=3))
    wanted, now = np.zeros((b, g * r, t, e)), state.astype("float64")
    for step in range(t):
        if gates is not None:
            now = now * np.exp(gates[:, :, step, :, None].astype("float64"))
        value = v[:, :, step].astype("float64")
        if rates is not None:
            value = rates[:, :, step] * (value - np.einsum("bgde,bgd->bge", now, k[:, :, step]))
        now = now + k[:, :, step, :, None] * value[:, :, None]
        wanted[:, :, step] = np.einsum("bhd,bhde->bhe", q[:, :, step], np.repeat(now, r, axis=1)) * 0.5
    ours, last = nn.linear_attention(q, k, v, state=state, decay=gates, beta=rates, scale=0.5)
    tolerance = 1e-3 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(np.asarray(ours), wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(np.asarray(last), now, rtol=tolerance, atol=tolerance)
