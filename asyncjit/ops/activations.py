"""Activations that an operation applies to a block of its result while that is in cache.

Law: in place, on NumPy views; no operation of the registry. A spec is a tuple: the name, then its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

__all__ = ["ACTIVATIONS", "Activation", "Apply", "activation", "needs_scratch"]

#: Name and parameters.
Activation: TypeAlias = "tuple[str, *tuple[float, ...]]"
#: Changes a block in place; the second argument is scratch of the same shape and dtype, where it is needed.
Apply: TypeAlias = Callable[[Any, Any], None]

#: Every name, with the number of its parameters.
ACTIVATIONS = {
    "relu": 0,
    "clip": 2,
    "sigmoid": 0,
    "hard_sigmoid": 2,
    "silu": 0,
    "hard_swish": 0,
    "leaky_relu": 1,
    "tanh": 0,
}
_NEEDS_SCRATCH = frozenset({"silu", "hard_swish", "leaky_relu"})


def needs_scratch(spec: Activation | None) -> bool:
    """Whether the second argument is used."""
    return spec is not None and spec[0] in _NEEDS_SCRATCH


def _relu(block: Any, _: Any) -> None:
    np.maximum(block, 0, out=block)


def _tanh(block: Any, _: Any) -> None:
    np.tanh(block, block)


def _sigmoid(block: Any, _: Any) -> None:
    # exp of a large number is inf, and 1 / inf the 0 that is wanted; kernels run with warnings off.
    np.negative(block, block)
    np.exp(block, block)
    np.add(block, 1, block)
    np.reciprocal(block, block)


def _silu(block: Any, scratch: Any) -> None:
    np.copyto(scratch, block)
    _sigmoid(scratch, None)
    np.multiply(block, scratch, block)


def _affine_clip(source: Any, factor: float, offset: float, out: Any) -> None:
    np.multiply(source, factor, out)
    np.add(out, offset, out)
    np.maximum(out, 0, out=out)
    np.minimum(out, 1, out=out)


def _hard_swish(block: Any, scratch: Any) -> None:
    _affine_clip(block, 1 / 6, 0.5, scratch)
    np.multiply(block, scratch, block)


def activation(spec: Activation) -> Apply:
    """The function that applies ``spec`` to a block of floats.

    ``clip`` takes low and high, ``hard_sigmoid`` factor and offset, ``leaky_relu`` the slope below 0.
    """
    name, *numbers = spec
    plain: dict[str, Apply] = {
        "relu": _relu,
        "sigmoid": _sigmoid,
        "silu": _silu,
        "hard_swish": _hard_swish,
        "tanh": _tanh,
    }
    if name in plain:
        return plain[name]
    if name == "leaky_relu":
        (slope,) = numbers
        return lambda block, scratch: _leaky(block, slope, scratch)
    first, second = numbers
    if name == "clip":
        return lambda block, _: _clip(block, first, second)
    return lambda block, _: _affine_clip(block, first, second, block)


def _leaky(block: Any, slope: float, scratch: Any) -> None:
    if 0 <= slope <= 1:
        np.multiply(block, slope, scratch)
        np.maximum(block, scratch, out=block)
        return
    np.minimum(block, 0, out=scratch)
    np.multiply(scratch, slope, scratch)
    np.maximum(block, 0, out=block)
    np.add(block, scratch, block)


def _clip(block: Any, low: float, high: float) -> None:
    np.maximum(block, low, out=block)
    np.minimum(block, high, out=block)
