"""Attention by way of a state of fixed size: one operation for a whole sequence.

Law: float32 and float64. A step is a handful of products on the state of all heads, which is an output and changes in
place.

Shapes: b batches, g heads of keys, r heads of queries for each of these, t steps, d and e elements. Operands are
queries (b, g, r, t, d), keys (b, g, t, d), values (b, g, t, e) and, where the parameters say so, first state
(b, g, d, e), decay (b, g, t, d or 1) and rate (b, g or 1, t, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._spec import NumPyKernel, Op, Params, Shape, Spec, broadcast, register, same_shape
from asyncjit.symbols import upper

__all__: list[str] = []


def _infer(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """All results (b, g, r, t, e), the last state; scratch: something like the state, and a row a head."""
    _, given = cast("tuple[float, tuple[bool, ...]]", params)
    q, k, v, *optional = specs
    if q.dtype.char not in "fd" or any(each.dtype is not q.dtype for each in specs):
        listed = ", ".join(each.dtype.name for each in specs)
        raise TypeError(f"linear_attention takes operands of one dtype, float32 or float64, got {listed}; use astype")
    b, g, r, t, d = q.shape
    e = v.shape[3]
    wanted: list[tuple[str, Spec, Shape]] = [("keys", k, (b, g, t, d)), ("values", v, (b, g, t, e))]
    shapes = ("a state", (b, g, d, e)), ("a decay", (b, g, t, d)), ("a rate", (b, g, t, 1))
    named = [each for each, is_given in zip(shapes, given, strict=True) if is_given]
    wanted += [(name, spec, shape) for (name, shape), spec in zip(named, optional, strict=True)]
    for name, spec, shape in wanted:
        if not same_shape(broadcast("linear_attention", [spec.shape, shape]), shape):
            raise ValueError(f"linear_attention: {name} of shape {spec.shape} with queries of shape {q.shape}")
    state: Shape = (b, g, d, e)
    return tuple(Spec(each, q.dtype) for each in ((b, g, r, t, e), state, state, (b, g, 1, e), (b, g, t, d)))


def _cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    q = inputs[0]
    steps = upper(q.shape[3])
    return Cost((6 + 2 * upper(q.shape[2])) * steps * outputs[1].size, sum(spec.nbytes for spec in (*inputs, *outputs)))


def _linear_attention(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    scale, given = cast("tuple[float, tuple[bool, ...]]", params)

    def run(q: Any, k: Any, v: Any, *rest: Any) -> None:
        optional = iter(rest)
        first, decay, rate = (next(optional) if is_given else None for is_given in given)
        out, state, product, row, factors = optional
        if first is None:
            state.fill(0)
        else:
            np.copyto(state, first)
        if decay is not None:
            np.exp(decay, out=factors[..., : decay.shape[-1]])
            factors = factors[..., : decay.shape[-1]]
        for step in range(q.shape[3]):
            key = k[:, :, step, :, None]
            value = v[:, :, step, None]
            if decay is not None:
                np.multiply(state, factors[:, :, step, :, None], state)
            if rate is not None:
                np.matmul(key.swapaxes(-1, -2), state, row)
                np.subtract(value, row, row)
                np.multiply(row, rate[:, :, step, None], row)
                value = row
            np.multiply(key, value, product)
            np.add(state, product, state)
            np.matmul(q[:, :, :, step], state, out[:, :, :, step])
        np.multiply(out, out.dtype.type(scale), out)

    return run


register(Op(name="linear_attention", infer=_infer, kernel=_linear_attention, cost=_cost))
