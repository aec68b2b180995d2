"""Recurrent layers.

Law: cuts weights by direction, calls the entries of ``ops.recurrent``, one call a direction so that two may run side by
side, and joins the results.

Operands have ONNX's shapes, with d directions, k gates, n rows, t steps, i inputs and u units: ``x`` (t, n, i),
``weights`` (d, k u, i), ``recurrent`` (d, k u, u), ``bias`` (d, 2 k u), ``state`` and ``cell`` (d, n, u), ``lengths``
(n,), ``peepholes`` (d, 3 u). With ``batch_first`` it is ``x`` (n, t, i), states (n, t, d, u), ``state`` and ``cell``
(n, d, u). Activations are given by name, with alpha and beta where they have them, one after the other for each
direction: ``"tanh"`` or ``("leakyrelu", 0.1)``; case does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from asyncjit.nn._floats import rounded, widened
from asyncjit.nn._quantised import dynamic_quantize
from asyncjit.numpy._array import Array
from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._movement import as_array, broadcast_to, expand_dims, stack, swapaxes
from asyncjit.ops._activations import ACTIVATIONS, Activation
from asyncjit.ops._recurrent_shapes import OPTIONAL, Cell

__all__ = ["gru", "lstm", "rnn"]

Direction: TypeAlias = Literal["forward", "reverse", "bidirectional"]
ActivationLike: TypeAlias = "str | tuple[str, float] | tuple[str, float, float]"

#: For each direction whether it runs from the end.
DIRECTIONS: dict[str, tuple[bool, ...]] = {
    "forward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}


def lstm(
    x: ArrayLike,
    weights: ArrayLike,
    recurrent: ArrayLike,
    bias: ArrayLike | None = None,
    /,
    *,
    state: ArrayLike | None = None,
    cell: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    peepholes: ArrayLike | None = None,
    direction: Direction = "forward",
    activations: Sequence[ActivationLike] | None = None,
    clip: float = 0.0,
    input_forget: bool = False,
    batch_first: bool = False,
    scales: tuple[ArrayLike, ArrayLike] | None = None,
) -> tuple[Array, Array, Array]:
    """Long short-term memory over a whole sequence: all states (t, d, n, u), the last state and the last cell, each
    (d, n, u).

    Gates stand in the order input, output, forget, cell; the activations, sigmoid, tanh and tanh where none are given,
    are those of the gates, of the candidate and of what leaves the cell. ``clip`` bounds what goes into an activation
    where it is not 0; ``input_forget`` makes the forget gate 1 less the input gate. Beyond the length of a row its
    states are 0.

    With ``scales`` the weights and the recurrent weights are integers to be multiplied by these, each (d,) or (d, 4 u);
    ``x`` as a whole and the states of each step are rounded to 8 bits, over their range and 0, before their products.

    Raises:
        ValueError, TypeError: shapes or dtypes do not fit, or an activation is not known.
    """
    defaults = "sigmoid", "tanh", "tanh"
    options = _Options("lstm", direction, defaults, activations, clip, input_forget, batch_first)
    optional: list[ArrayLike | None] = [bias, state, cell, lengths, peepholes, None, None]
    if scales is not None:
        x, optional[5], optional[6] = _quantised(x, weights, scales)
    states, last, carried = _layer(options, (x, weights, recurrent), optional)
    return states, last, carried


def _quantised(x: ArrayLike, weights: ArrayLike, scales: tuple[ArrayLike, ArrayLike]) -> tuple[Array, Array, Array]:
    """``x`` as integers, and the factors of the products for each direction and gate."""
    directions, width, _ = as_array(weights).shape
    integers, quantum, zero = dynamic_quantize(x)
    spread = [
        broadcast_to(expand_dims(each, 1) if each.ndim == 1 else each, (directions, width))
        for each in map(as_array, scales)
    ]
    centred: Array = apply("dequantize", (integers, zero), ("float32", True, False))
    return centred, spread[0] * quantum, spread[1]


def gru(
    x: ArrayLike,
    weights: ArrayLike,
    recurrent: ArrayLike,
    bias: ArrayLike | None = None,
    /,
    *,
    state: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    direction: Direction = "forward",
    activations: Sequence[ActivationLike] | None = None,
    clip: float = 0.0,
    reset_after: bool = False,
    batch_first: bool = False,
) -> tuple[Array, Array]:
    """Gated recurrent units over a whole sequence: all states (t, d, n, u) and the last state (d, n, u).

    Gates stand in the order update, reset, hidden; the activations, sigmoid and tanh where none are given, are those of
    the gates and of the candidate. ``reset_after`` applies the reset gate to the product of the state with its weights
    and their bias, not to the state. See ``lstm`` for the rest.
    """
    options = _Options("gru", direction, ("sigmoid", "tanh"), activations, clip, reset_after, batch_first)
    states, last = _layer(options, (x, weights, recurrent), (bias, state, None, lengths, None, None, None))
    return states, last


def rnn(
    x: ArrayLike,
    weights: ArrayLike,
    recurrent: ArrayLike,
    bias: ArrayLike | None = None,
    /,
    *,
    state: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    direction: Direction = "forward",
    activations: Sequence[ActivationLike] | None = None,
    clip: float = 0.0,
    batch_first: bool = False,
) -> tuple[Array, Array]:
    """A simple recurrent layer over a whole sequence: all states (t, d, n, u) and the last state (d, n, u).

    The activation is tanh where none is given. See ``lstm`` for the rest.
    """
    options = _Options("rnn", direction, ("tanh",), activations, clip, False, batch_first)
    states, last = _layer(options, (x, weights, recurrent), (bias, state, None, lengths, None, None, None))
    return states, last


class _Options:
    """What the three kinds of layers have in common, checked."""

    def __init__(
        self,
        name: str,
        direction: str,
        defaults: tuple[str, ...],
        activations: Sequence[ActivationLike] | None,
        clip: float,
        coupled: bool,
        batch_first: bool,
    ) -> None:
        if direction not in DIRECTIONS:
            raise ValueError(f"{name}: direction is one of {', '.join(DIRECTIONS)}, given {direction!r}")
        self.name = name
        self.batch_first = batch_first
        self.reversals = DIRECTIONS[direction]
        self.clip = float(clip)
        self.coupled = bool(coupled)
        count = len(defaults)
        chosen = list(activations) if activations is not None else list(defaults) * len(self.reversals)
        if len(chosen) != count * len(self.reversals):
            raise ValueError(
                f"{name}: {direction} takes {count * len(self.reversals)} activations, given {len(chosen)}"
            )
        known = [_activation(name, each) for each in chosen]
        self.activations = [tuple(known[at : at + count]) for at in range(0, len(known), count)]


def _activation(name: str, given: ActivationLike) -> Activation:
    word, *numbers = (given,) if isinstance(given, str) else given
    found = ACTIVATIONS.get(str(word).lower())
    if found is None:
        raise ValueError(f"{name}: activation {word!r} is not known; known are {', '.join(ACTIVATIONS)}")
    _, alpha, beta = found
    given_numbers = dict(enumerate(map(float, numbers)))
    return str(word).lower(), given_numbers.get(0, alpha), given_numbers.get(1, beta)


def _layer(
    options: _Options, operands: tuple[ArrayLike, ...], optional: Sequence[ArrayLike | None]
) -> tuple[Array, ...]:
    given = dict(zip(OPTIONAL, optional, strict=True))
    lengths = given.pop("lengths")
    dtype, (x, weights, recurrent, *wide) = widened(*operands, *given.values())
    shared = dict(zip(given, wide, strict=True))
    count = len(options.reversals)
    if weights.ndim != 3 or weights.shape[0] != count:
        raise ValueError(
            f"{options.name}: weights of shape {weights.shape}, expected {count} directions, gates, inputs"
        )
    if options.batch_first:
        x = swapaxes(x, 0, 1)
        for name in ("state", "cell"):
            shared[name] = None if shared[name] is None else swapaxes(shared[name], 0, 1)
    shared["lengths"] = None if lengths is None else as_array(lengths)
    parts = [_direction(options, at, x, weights, recurrent, shared) for at in range(count)]
    states = stack([part[0] for part in parts], axis=1) if count > 1 else expand_dims(parts[0][0], 1)
    lasts = [
        stack([part[place] for part in parts]) if count > 1 else expand_dims(parts[0][place], 0)
        for place in range(1, len(parts[0]))
    ]
    if options.batch_first:
        states = states.transpose(2, 0, 1, 3)
        lasts = [swapaxes(each, 0, 1) for each in lasts]
    return tuple(rounded(each, dtype) for each in (states, *lasts))


def _direction(
    options: _Options, at: int, x: Array, weights: Array, recurrent: Array, shared: dict[str, Array | None]
) -> Sequence[Array]:
    """All states, the last one, and the last cell of an LSTM."""
    given: list[Array | None] = []
    for name in OPTIONAL:
        each = shared[name]
        given.append(each if each is None or name == "lengths" else each[at])
    is_given = tuple(each is not None for each in given)
    params = Cell(options.reversals[at], options.activations[at], options.clip, options.coupled, is_given)
    operands = [x, weights[at], recurrent[at], *(each for each in given if each is not None)]
    results: Any = apply(options.name, operands, tuple(params))
    return list(results[: 3 if options.name == "lstm" else 2])
