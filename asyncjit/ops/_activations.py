"""The activation functions of recurrent networks, as functions from a view into a view.

Law: one entry a function, made once for a dtype; ``out`` may be the source. Small temporaries only.

Constants are 0-d arrays of the dtype: a call with one takes 0.8 us where a Python number takes 1.3 us.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

__all__ = ["ACTIVATIONS", "Activate", "Activation", "activation"]

#: Name, alpha, beta.
Activation: TypeAlias = "tuple[str, float, float]"
Activate: TypeAlias = Callable[[Any, Any], object]

# The ufunc behind np.clip, which takes its output by position.
_clip: Any = np._core.umath.clip  # type: ignore[attr-defined]


def _sigmoid(alpha: Any, beta: Any, half: Any) -> Activate:
    """By way of tanh, which is vectorised and overflows nowhere."""

    def run(x: Any, out: Any) -> None:
        np.multiply(x, half, out)
        np.tanh(out, out)
        np.multiply(out, half, out)
        np.add(out, half, out)

    return run


def _tanh(alpha: Any, beta: Any, half: Any) -> Activate:
    return np.tanh


def _affine(alpha: Any, beta: Any, half: Any) -> Activate:
    return lambda x, out: np.add(np.multiply(x, alpha, out), beta, out)


def _relu(alpha: Any, beta: Any, half: Any) -> Activate:
    return lambda x, out: np.maximum(x, half.dtype.type(0), out=out)


def _leaky_relu(alpha: Any, beta: Any, half: Any) -> Activate:
    return lambda x, out: np.copyto(out, np.where(x < 0, x * alpha, x))


def _thresholded_relu(alpha: Any, beta: Any, half: Any) -> Activate:
    return lambda x, out: np.multiply(x, x > alpha, out)


def _scaled_tanh(alpha: Any, beta: Any, half: Any) -> Activate:
    return lambda x, out: np.multiply(np.tanh(np.multiply(x, beta, out), out), alpha, out)


def _hard_sigmoid(alpha: Any, beta: Any, half: Any) -> Activate:
    return lambda x, out: _clip(np.add(np.multiply(x, alpha, out), beta, out), 0, 1, out)


def _elu(alpha: Any, beta: Any, half: Any) -> Activate:
    return lambda x, out: np.copyto(out, np.where(x < 0, np.expm1(np.minimum(x, 0)) * alpha, x))


def _softsign(alpha: Any, beta: Any, half: Any) -> Activate:
    return lambda x, out: np.divide(x, np.abs(x) + 1, out)


def _softplus(alpha: Any, beta: Any, half: Any) -> Activate:
    return lambda x, out: np.logaddexp(x, half.dtype.type(0), out)


#: What makes each function, and the alpha and beta that it has where none are given.
ACTIVATIONS: dict[str, tuple[Callable[[Any, Any, Any], Activate], float, float]] = {
    "affine": (_affine, 1.0, 0.0),
    "elu": (_elu, 1.0, 0.0),
    "hardsigmoid": (_hard_sigmoid, 0.2, 0.5),
    "leakyrelu": (_leaky_relu, 0.01, 0.0),
    "relu": (_relu, 0.0, 0.0),
    "scaledtanh": (_scaled_tanh, 1.0, 1.0),
    "sigmoid": (_sigmoid, 0.0, 0.0),
    "softplus": (_softplus, 0.0, 0.0),
    "softsign": (_softsign, 0.0, 0.0),
    "tanh": (_tanh, 0.0, 0.0),
    "thresholdedrelu": (_thresholded_relu, 1.0, 0.0),
}


def activation(which: Activation, dtype: np.dtype[Any]) -> Activate:
    """The function ``which`` for views of ``dtype``: called with a source and an output."""
    name, alpha, beta = which
    return ACTIVATIONS[name][0](np.array(alpha, dtype), np.array(beta, dtype), np.array(0.5, dtype))
