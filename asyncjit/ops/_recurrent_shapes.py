"""Operands of recurrent layers: which there are, and what shapes they have.

Law: rules on specs only; ``recurrent`` computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from asyncjit.ir import Cost
from asyncjit.ops._activations import Activation
from asyncjit.ops._spec import Params, Shape, Spec, same_shape
from asyncjit.symbols import upper

__all__ = ["OPTIONAL", "Cell", "cell_of", "infer_gru", "infer_lstm", "infer_rnn", "recurrent_cost"]

#: Optional operands, in order.
OPTIONAL = ("bias", "state", "cell", "lengths", "peepholes", "input_scale", "recurrent_scale")


class Cell(NamedTuple):
    """Parameters of one direction of a layer. ``given``: which optional operands there are, by ``OPTIONAL``.
    ``coupled`` is the input-forget gate of an LSTM and, of a GRU, whether the reset comes after the product."""

    is_reversed: bool
    activations: tuple[Activation, ...]
    clip: float
    coupled: bool
    given: tuple[bool, ...]


def cell_of(params: Params) -> Cell:
    return Cell(*cast("tuple[Any, ...]", params))


def _check(name: str, gates: int, specs: tuple[Spec, ...], cell: Cell) -> tuple[Any, Any, Any]:
    """Extents t, n, u, when all shapes agree."""
    x, weights, recurrent, *rest = specs
    if len(x.shape) != 3 or len(recurrent.shape) != 2:
        raise ValueError(f"{name}: expected x (t, n, i) and recurrent weights (k, u), got {x.shape}, {recurrent.shape}")
    (t, n, i), u = x.shape, recurrent.shape[1]
    wanted = {
        "bias": (2 * gates * u,),
        "state": (n, u),
        "cell": (n, u),
        "lengths": (n,),
        "peepholes": (3 * u,),
        "input_scale": (gates * u,),
        "recurrent_scale": (gates * u,),
    }
    names = [each for each, is_given in zip(OPTIONAL, cell.given, strict=True) if is_given]
    expected: list[tuple[str, Spec, Shape]] = [
        ("weights", weights, (gates * u, i)),
        ("recurrent weights", recurrent, (gates * u, u)),
    ]
    expected += [(each, spec, wanted[each]) for each, spec in zip(names, rest, strict=True)]
    for what, spec, shape in expected:
        if not same_shape(spec.shape, shape):
            raise ValueError(f"{name}: {what} of shape {spec.shape}, expected {shape} for x of shape {x.shape}")
        if what == "lengths":
            if spec.dtype.kind not in "iu":
                raise TypeError(f"{name}: lengths are integers, got {spec.dtype}")
        elif spec.dtype is not x.dtype or x.dtype.char not in "fd":
            raise TypeError(f"{name}: {what} of {spec.dtype} with x of {x.dtype}; both are float32, or both float64")
    return t, n, u


#: A sequence at least this long has its recurrent weights transposed into scratch first: the product of one row with
#: (128, 512) takes 6.1 us then, 9.5 us as they are; the transposition takes about as long as 10 products.
STEPS_MIN_TO_TURN = 16


def _outputs(name: str, gates: int, specs: tuple[Spec, ...], params: Params, carried: int) -> tuple[Spec, ...]:
    """All states; ``carried`` of a row each; scratch: the gates of all steps, a row by gates, the recurrent weights
    transposed, two rows."""
    t, n, u = _check(name, gates, specs, cell_of(params))
    turned = specs[2].shape if upper(t) >= STEPS_MIN_TO_TURN else (0, u)
    shapes: list[Shape] = [(t, n, u), *[(n, u)] * carried, (t, n, gates * u), (gates, n, u), turned, (2, n, u)]
    return tuple(Spec(shape, specs[0].dtype) for shape in shapes)


def infer_lstm(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    return _outputs("lstm", 4, specs, params, 2)


def infer_gru(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    return _outputs("gru", 3, specs, params, 1)


def infer_rnn(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    return _outputs("rnn", 1, specs, params, 1)


def recurrent_cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    weights, recurrent = inputs[1:3]
    rows = outputs[0].size // max(upper(recurrent.shape[1]), 1)
    return Cost(2 * rows * (weights.size + recurrent.size), sum(spec.nbytes for spec in (*inputs, *outputs)))
