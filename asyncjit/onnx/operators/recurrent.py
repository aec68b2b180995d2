"""LSTM, GRU and RNN.

Law: attributes only; what computes is in ``asyncjit.nn``, whose operands have ONNX's shapes.
"""

from __future__ import annotations

from typing import Any

from asyncjit import nn
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Node
from asyncjit.onnx.operators._registry import operator

__all__ = ["recurrent_options"]

#: How many of alpha and beta each function takes; others take none.
_NUMBERS = {"affine": 2, "elu": 1, "hardsigmoid": 2, "leakyrelu": 1, "scaledtanh": 2, "thresholdedrelu": 1}


def recurrent_options(node: Node) -> dict[str, Any]:
    """Direction, activations, clip and layout of a recurrent node, as ``asyncjit.nn`` takes them."""
    options: dict[str, Any] = {
        "direction": node.str("direction", "forward"),
        "clip": node.float("clip", 0.0),
        "batch_first": bool(node.int("layout", 0)),
    }
    if node.has("activations"):
        options["activations"] = _activations(node)
    return options


def _activations(node: Node) -> list[Any]:
    """Functions with their numbers, which the attributes hold one after the other for those functions that take any."""
    alphas, betas = iter(node.floats("activation_alpha")), iter(node.floats("activation_beta"))
    chosen: list[Any] = []
    for name in node.strs("activations"):
        count = _NUMBERS.get(name.lower(), 0)
        numbers = [next(each, None) for each in (alphas, betas)[:count]]
        # A list that has come to its end leaves the function its own numbers; beta alone cannot be given.
        known = numbers[: numbers.index(None)] if None in numbers else numbers
        chosen.append((name, *known) if known else name)
    return chosen


@operator("LSTM")
def lstm(
    node: Node,
    x: Array,
    weights: Array,
    recurrent: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    state: Array | None = None,
    cell: Array | None = None,
    peepholes: Array | None = None,
) -> Any:
    return nn.lstm(
        x,
        weights,
        recurrent,
        bias,
        lengths=lengths,
        state=state,
        cell=cell,
        peepholes=peepholes,
        input_forget=bool(node.int("input_forget", 0)),
        **recurrent_options(node),
    )


@operator("GRU")
def gru(
    node: Node,
    x: Array,
    weights: Array,
    recurrent: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    state: Array | None = None,
) -> Any:
    reset_after = bool(node.int("linear_before_reset", 0))
    options = recurrent_options(node)
    return nn.gru(x, weights, recurrent, bias, lengths=lengths, state=state, reset_after=reset_after, **options)


@operator("RNN")
def rnn(
    node: Node,
    x: Array,
    weights: Array,
    recurrent: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    state: Array | None = None,
) -> Any:
    return nn.rnn(x, weights, recurrent, bias, lengths=lengths, state=state, **recurrent_options(node))
