"""Attention: products of queries and keys, softmax, product with values, as one operation.

Law: float32 and float64. Scores exist for a block of queries at a time, in scratch that stays in the cache; the
division by the sum of the exponentials comes last, on the fewer elements of the result.

Shapes: b batches, g heads of keys and values, r heads of queries for each of these, m queries, n keys, d and e elements
of a head. Operands are queries (b, g, r, m, d), keys (b, g, n, d), values (b, g, n, e) and, where there is one, a
summand of the scores that broadcasts to (b, g, r, m, n). The result is (b, g, r, m, e), or with heads merged
(b, m, g, r, e). A query that no key is open to gives 0.

Source: Vaswani et al., "Attention is all you need", 2017; blocks of queries as in Rabe and Staats, "Self-attention does
not need O(n^2) memory", 2021. All keys of a query are done at once, so no sum has to be corrected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._blocks import ranges
from asyncjit.ops._spec import NumPyKernel, Op, Params, Spec, broadcast, register, same_shape
from asyncjit.symbols import upper

__all__ = ["SCORES_MAX", "Attention"]

#: Elements of a block of scores: 256 KiB of float32. Eight heads of 1024 queries and keys of 64: 124 ms; 154 with half
#: of it, 168 at once (one process, one thread, min of 7).
SCORES_MAX = 1 << 16

# Called by position, which NumPy's stubs do not know for ``out``.
_largest: Any = np.maximum.reduce
_total: Any = np.add.reduce


class Attention(NamedTuple):
    """Parameters. ``softcap`` bounds scores smoothly where it is not 0. With ``offset``, query ``i`` sees keys up to
    ``i + offset``."""

    scale: float
    softcap: float
    offset: int | None
    is_biased: bool
    is_merged: bool


def _infer(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """The result, and scratch for scores and for an element a query."""
    given = Attention(*cast("tuple[Any, ...]", params))
    q, k, v = specs[:3]
    if q.dtype.char not in "fd" or any(each.dtype is not q.dtype for each in specs):
        listed = ", ".join(each.dtype.name for each in specs)
        raise TypeError(f"attention takes operands of one dtype, float32 or float64, got {listed}; use astype")
    b, g, r, m, d = q.shape
    n, e = k.shape[2], v.shape[3]
    if not same_shape(k.shape, (b, g, n, d)) or not same_shape(v.shape, (b, g, n, e)):
        raise ValueError(
            f"attention: queries {q.shape}, keys {k.shape} and values {v.shape} do not go together; expected "
            "(b, g, r, m, d), (b, g, n, d), (b, g, n, e)"
        )
    scores = (b, g, r, m, n)
    if given.is_biased and not same_shape(broadcast("attention", [scores, specs[3].shape]), scores):
        raise ValueError(f"attention: a mask of shape {specs[3].shape} does not broadcast to the scores, {scores}")
    rows, keys = upper(b * g * r * m), upper(n)
    count = min(rows * keys, max(SCORES_MAX, keys))
    out = (b, m, g, r, e) if given.is_merged else (b, g, r, m, e)
    return tuple(Spec(shape, q.dtype) for shape in (out, (count,), (min(rows, count),)))


def _cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    q, k, v = inputs[:3]
    rows = q.size // max(upper(q.shape[4]), 1)
    keys = upper(k.shape[2])
    flops = rows * keys * (2 * upper(q.shape[4]) + 2 * upper(v.shape[3]) + 14)
    return Cost(flops, sum(spec.nbytes for spec in (*inputs, outputs[0])))


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice, slice, slice]]:
    """Parts of the scores (b, g, r, m, n), all keys each: of b, of g, of r and of m."""
    b, g, r, m, n = shape
    whole = slice(None)
    if b * g * r * m * n <= SCORES_MAX:
        yield whole, whole, whole, slice(0, m)
        return
    for batch in range(b):
        one = slice(batch, batch + 1)
        if r * m * n <= SCORES_MAX:
            for low, high in ranges(g, SCORES_MAX // (r * m * n)):
                yield one, slice(low, high), whole, slice(0, m)
            continue
        for head in range(g):
            for query_head in range(r):
                for low, high in ranges(m, SCORES_MAX // n):
                    yield one, slice(head, head + 1), slice(query_head, query_head + 1), slice(low, high)


def _score(given: Attention, q: Any, keys: Any, bias: Any, first: int, scores: Any) -> None:
    """Fill ``scores`` (…, m, n); the queries are those from ``first`` on."""
    np.matmul(q, keys, scores)
    if given.scale != 1:
        np.multiply(scores, scores.dtype.type(given.scale), scores)
    if given.softcap:
        cap = scores.dtype.type(given.softcap)
        np.divide(scores, cap, scores)
        np.tanh(scores, scores)
        np.multiply(scores, cap, scores)
    if bias is not None:
        np.add(scores, bias, scores)
    m, n = scores.shape[-2:]
    if given.offset is not None and first + given.offset < n - 1:
        last = np.arange(first + given.offset, first + given.offset + m)
        np.copyto(scores, -np.inf, where=np.arange(n) > last[:, None])


def _weigh(values: Any, scores: Any, row: Any, out: Any) -> None:
    """Fill ``out`` (…, m, e) from the scores, which are used up."""
    _largest(scores, -1, None, row, True)
    # A row of nothing but -inf comes to 0 in this way.
    limits = np.finfo(scores.dtype)
    np.maximum(row, limits.min, out=row)
    np.subtract(scores, row, scores)
    np.exp(scores, scores)
    _total(scores, -1, None, row, True)
    np.maximum(row, limits.tiny, out=row)
    np.matmul(scores, values, out)
    np.divide(out, row, out)


def _block(given: Attention, part: tuple[slice, ...], arrays: Sequence[Any], scratch: Any, rows: Any) -> None:
    q, keys, values, bias, out = arrays
    b, g, r, m = part
    queries, target, n = q[part], out[part], keys.shape[-1]
    if given.offset is not None:
        # Keys that no query of the block may see are not even multiplied.
        n = min(n, m.stop + given.offset)
        if n <= 0:
            target.fill(0)
            return
    lead, count = queries.shape[:4], queries.size // queries.shape[4]
    scores = scratch[: count * n].reshape(*lead, n)
    summand = None if bias is None else bias[b, g, r, m, :n]
    _score(given, queries, keys[b, g, :, :, :n], summand, m.start, scores)
    _weigh(values[b, g, :, :n], scores, rows[:count].reshape(*lead, 1), target)


def _attention(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    given = Attention(*cast("tuple[Any, ...]", params))

    def run(q: Any, k: Any, v: Any, *rest: Any) -> None:
        *summands, out, scratch, rows = rest
        if given.is_merged:
            out = out.transpose(0, 2, 3, 1, 4)
        shape = (*q.shape[:4], k.shape[2])
        if not k.size or not q.size:
            out.fill(0)
            return
        bias = np.broadcast_to(summands[0], shape) if summands else None
        arrays = q, k[:, :, None].swapaxes(-1, -2), v[:, :, None], bias, out
        for part in _blocks(shape):
            _block(given, part, arrays, scratch, rows)

    return run


register(Op(name="attention", infer=_infer, kernel=_attention, cost=_cost))
