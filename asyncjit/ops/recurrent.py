"""Recurrent layers: one operation for one direction of a whole sequence.

Law: float32 and float64. What the steps have in common, the products of the inputs with their weights, is one matrix
product before the first step; a step works in views of scratch that is an output of the operation.

Shapes: t steps, n rows, i inputs, u units, k gates. Operands are x (t, n, i), weights (k u, i), recurrent weights
(k u, u), then, where the parameters say so, biases (2 k u,), first state (n, u), first cell (n, u), lengths (n,) and
peepholes (3 u,). Outputs are all states (t, n, u), the last state (n, u) and, of an LSTM, the last cell (n, u), then
scratch. Beyond the length of a row its states are 0 and what is carried stays; a reversed row begins at its own end.

Sources: Hochreiter and Schmidhuber, "Long short-term memory", 1997, with the peepholes of Gers and Schmidhuber, 2000;
Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014; gates in ONNX's order (i, o, f, c and
z, r, h).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from asyncjit.ir import Operand
from asyncjit.ops._activations import Activate, activation
from asyncjit.ops._recurrent_products import product_of, project, quantised_product
from asyncjit.ops._recurrent_shapes import OPTIONAL, Cell, cell_of, infer_gru, infer_lstm, infer_rnn, recurrent_cost
from asyncjit.ops._spec import NumPyKernel, Op, Params, register

__all__: list[str] = []

# The ufunc behind np.clip, which takes its output by position.
_clip: Any = np._core.umath.clip  # type: ignore[attr-defined]

#: One step of a cell: gates of the step by gate, mask of rows that are not over or None, state before, output.
Step: TypeAlias = Callable[[Any, Any, Any, Any], None]


def _walk(cell: Cell, gates: Any, states: Any, last: Any, lengths: Any, step: Step) -> None:
    """Do the steps in their order. ``last`` holds the first state, and in the end the last one."""
    t, n, u = states.shape
    by_gate = gates.reshape(t, n, gates.shape[2] // max(u, 1), u).transpose(0, 2, 1, 3)
    order = range(t)[:: -1 if cell.is_reversed else 1]
    if lengths is None:
        before = last
        for index in order:
            out = states[index]
            step(by_gate[index], None, before, out)
            before = out
        if before is not last:
            np.copyto(last, before)
        return
    for index in order:
        alive = (lengths > index)[:, None]
        out = states[index]
        step(by_gate[index], alive, last, out)
        np.multiply(out, alive, out)
        np.copyto(last, out, where=alive)


def _bound(cell: Cell, operands: Sequence[Any]) -> tuple[dict[str, Any], Sequence[Any]]:
    """The optional operands by name, None where they are not given, and the outputs."""
    count = sum(cell.given)
    given = iter(operands[:count])
    return {
        name: next(given) if is_given else None for name, is_given in zip(OPTIONAL, cell.given, strict=True)
    }, operands[count:]


def _begin(target: Any, first: Any) -> None:
    if first is None:
        target.fill(0)
    else:
        np.copyto(target, first)


def _functions(cell: Cell, operands: tuple[Operand, ...]) -> tuple[Activate, ...]:
    dtype = np.dtype(operands[0].dtype)
    return tuple(activation(each, dtype) for each in cell.activations)


# ------------------------------------------------------------------------------------------------------------- lstm


def _lstm_gates(
    cell: Cell, gate: Activate, peepholes: Any, carried: Any, product: Any, work: Any
) -> Callable[[], None]:
    """What opens the gates of a step before the cell changes: all three at once, where none waits for the cell."""
    i, _, f, _ = product
    both, clip = product[:3], cell.clip

    def at_once() -> None:
        gate(both, both)

    def one_by_one() -> None:
        if peepholes is not None:
            np.add(i, np.multiply(carried, peepholes[0], work), i)
            np.add(f, np.multiply(carried, peepholes[2], work), f)
            if clip:
                _clip(i, -clip, clip, i)
                _clip(f, -clip, clip, f)
        gate(i, i)
        if cell.coupled:
            np.subtract(1, i, f)
        else:
            gate(f, f)

    return at_once if peepholes is None and not cell.coupled else one_by_one


def _lstm_leave(cell: Cell, gate: Activate, peepholes: Any, o: Any, work: Any) -> Callable[[Any], None] | None:
    """What opens the output gate, where that waits for the new cell."""
    if peepholes is None and not cell.coupled:
        return None

    def run(fresh: Any) -> None:
        if peepholes is not None:
            np.add(o, np.multiply(fresh, peepholes[1], work), o)
            if cell.clip:
                _clip(o, -cell.clip, cell.clip, o)
        gate(o, o)

    return run


def _lstm_step(
    cell: Cell, functions: Sequence[Activate], multiply: Callable[[Any], object], peepholes: Any, memory: Sequence[Any]
) -> Step:
    gate, candidate, leave = functions
    carried, product, (work, other) = memory
    (i, o, f, z), clip = product, cell.clip
    # With peepholes the other gates are clipped when the cell has had its say.
    clipped = product if peepholes is None else z
    open_gates = _lstm_gates(cell, gate, peepholes, carried, product, work)
    open_output = _lstm_leave(cell, gate, peepholes, o, work)

    def run(gates: Any, alive: Any, before: Any, out: Any) -> None:
        multiply(before)
        np.add(gates, product, product)
        if clip:
            _clip(clipped, -clip, clip, clipped)
        open_gates()
        candidate(z, z)
        np.multiply(i, z, z)
        # Rows that are over keep their cell, so a new one is made beside it.
        fresh = carried if alive is None else other
        np.multiply(f, carried, fresh)
        np.add(fresh, z, fresh)
        if open_output is not None:
            open_output(fresh)
        leave(fresh, work)
        np.multiply(o, work, out)
        if alive is not None:
            np.copyto(carried, fresh, where=alive)

    return run


def _lstm(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    cell = cell_of(params)
    functions = _functions(cell, operands)

    def run(x: Any, weights: Any, recurrent: Any, *rest: Any) -> None:
        given, (states, last, carried, gates, product, turned, rows) = _bound(cell, rest)
        bias, peepholes, width = given["bias"], given["peepholes"], len(recurrent)
        project(x, weights, given["input_scale"], None if bias is None else bias[:width] + bias[width:], gates)
        _begin(last, given["state"])
        _begin(carried, given["cell"])
        peeps = None if peepholes is None else peepholes.reshape(3, -1)
        multiply, scale = product_of(recurrent, turned, product), given["recurrent_scale"]
        if scale is not None:
            multiply = quantised_product(recurrent, scale, turned, product, rows[0])
        step = _lstm_step(cell, functions, multiply, peeps, (carried, product, rows))
        _walk(cell, gates, states, last, given["lengths"], step)

    return run


# -------------------------------------------------------------------------------------------------------------- gru


def _gru_step(
    cell: Cell, functions: Sequence[Activate], recurrent: Any, turned: Any, bias_h: Any, product: Any, work: Any
) -> Step:
    gate, candidate = functions
    u, clip, reset_after = recurrent.shape[1], cell.clip, cell.coupled
    z, r, h = product
    both = product[:2]
    last = recurrent[2 * u :].T
    multiply = (
        product_of(recurrent, turned, product) if reset_after else product_of(recurrent[: 2 * u], turned[:0], both)
    )

    def run(gates: Any, alive: Any, before: Any, out: Any) -> None:
        multiply(before)
        np.add(gates[:2], both, both)
        if clip:
            _clip(both, -clip, clip, both)
        gate(both, both)
        if not reset_after:
            np.multiply(r, before, r)
            np.matmul(r, last, h)
        else:
            if bias_h is not None:
                np.add(h, bias_h, h)
            np.multiply(r, h, h)
        np.add(gates[2], h, h)
        if clip:
            _clip(h, -clip, clip, h)
        candidate(h, h)
        np.subtract(before, h, work)
        np.multiply(z, work, work)
        np.add(h, work, out)

    return run


def _gru(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    cell = cell_of(params)
    functions = _functions(cell, operands)

    def run(x: Any, weights: Any, recurrent: Any, *rest: Any) -> None:
        given, (states, last, gates, product, turned, rows) = _bound(cell, rest)
        bias, u = given["bias"], recurrent.shape[1]
        first, bias_h = None, None
        if bias is not None:
            first, second = bias[: 3 * u].copy(), bias[3 * u :]
            first[: 2 * u] += second[: 2 * u]
            # With the reset after the product, the recurrent bias of the candidate is reset too.
            if cell.coupled:
                bias_h = second[2 * u :]
            else:
                first[2 * u :] += second[2 * u :]
        project(x, weights, None, first, gates)
        _begin(last, given["state"])
        step = _gru_step(cell, functions, recurrent, turned, bias_h, product, rows[0])
        _walk(cell, gates, states, last, given["lengths"], step)

    return run


# -------------------------------------------------------------------------------------------------------------- rnn


def _rnn(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    cell = cell_of(params)
    (function,) = _functions(cell, operands)

    def run(x: Any, weights: Any, recurrent: Any, *rest: Any) -> None:
        given, (states, last, gates, product, turned, _) = _bound(cell, rest)
        bias, u = given["bias"], len(recurrent)
        project(x, weights, given["input_scale"], None if bias is None else bias[:u] + bias[u:], gates)
        _begin(last, given["state"])
        multiply, fresh = product_of(recurrent, turned, product), product[0]

        def step(gates: Any, alive: Any, before: Any, out: Any) -> None:
            multiply(before)
            np.add(gates[0], fresh, fresh)
            if cell.clip:
                _clip(fresh, -cell.clip, cell.clip, fresh)
            function(fresh, out)

        _walk(cell, gates, states, last, given["lengths"], step)

    return run


register(Op(name="lstm", infer=infer_lstm, kernel=_lstm, cost=recurrent_cost))
register(Op(name="gru", infer=infer_gru, kernel=_gru, cost=recurrent_cost))
register(Op(name="rnn", infer=infer_rnn, kernel=_rnn, cost=recurrent_cost))
