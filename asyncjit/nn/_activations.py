"""Activation functions: elementwise, of real numbers.

Law: each is made of elementwise operations of the namespace, one call each; integers become floats as ``np.exp`` would
have it. Formulas as in the papers that are named.
"""

from __future__ import annotations

from asyncjit.numpy import (
    Array,
    abs,
    argmax,
    asarray,
    clip,
    expm1,
    logaddexp,
    maximum,
    minimum,
    one_hot,
    tanh,
    where,
)
from asyncjit.numpy._elementwise import ArrayLike, elementwise

__all__ = [
    "celu",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "hardmax",
    "leaky_relu",
    "mish",
    "prelu",
    "relu",
    "selu",
    "shrink",
    "sigmoid",
    "softplus",
    "softsign",
    "swish",
    "thresholded_relu",
]


def relu(x: ArrayLike, /) -> Array:
    """``x`` above 0, else 0; nan stays."""
    return maximum(x, 0)


def leaky_relu(x: ArrayLike, /, alpha: float = 0.01) -> Array:
    """``x`` above 0, else ``alpha * x``."""
    array = asarray(x)
    return maximum(array, array * alpha) if 0 <= alpha <= 1 else where(array < 0, array * alpha, array)


def prelu(x: ArrayLike, slope: ArrayLike, /) -> Array:
    """``x`` where it is not below 0, else ``slope * x``; ``slope`` broadcasts."""
    array = asarray(x)
    return where(array < 0, array * asarray(slope), array)


def elu(x: ArrayLike, /, alpha: float = 1.0) -> Array:
    """``x`` above 0, else ``alpha * (exp(x) - 1)`` (Clevert, Unterthiner, Hochreiter, 2015)."""
    array = asarray(x)
    return where(array > 0, array, expm1(minimum(array, 0)) * alpha)


def celu(x: ArrayLike, /, alpha: float = 1.0) -> Array:
    """``max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)`` (Barron, 2017)."""
    array = asarray(x)
    return maximum(array, 0) + minimum(expm1(minimum(array, 0) / alpha) * alpha, 0)


def selu(x: ArrayLike, /, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Array:
    """``gamma * elu(x, alpha)`` (Klambauer, Unterthiner, Mayr, Hochreiter, 2017)."""
    return elu(x, alpha) * gamma


def sigmoid(x: ArrayLike, /) -> Array:
    """``1 / (1 + exp(-x))``."""
    return elementwise("sigmoid", (x,), Array)


def swish(x: ArrayLike, /, alpha: float = 1.0) -> Array:
    """``x * sigmoid(alpha * x)``, which for ``alpha`` 1 is SiLU too (Ramachandran, Zoph, Le, 2017)."""
    array = asarray(x)
    return array * sigmoid(array if alpha == 1 else array * alpha)


def gelu(x: ArrayLike, /, *, approximate: str = "none") -> Array:
    """``x`` times the probability that a standard normal number is below it; with ``approximate="tanh"`` by the formula
    that the paper gives for that (Hendrycks and Gimpel, "Gaussian error linear units", 2016).

    Raises:
        ValueError: another approximation.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', given {approximate!r}")
    return elementwise("gelu" if approximate == "none" else "gelu_tanh", (x,), Array)


def hard_sigmoid(x: ArrayLike, /, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """``alpha * x + beta``, kept between 0 and 1."""
    return clip(asarray(x) * alpha + beta, 0, 1)


def hard_swish(x: ArrayLike, /) -> Array:
    """``x * hard_sigmoid(x, 1/6, 1/2)`` (Howard and others, 2019)."""
    array = asarray(x)
    return array * hard_sigmoid(array, 1 / 6, 0.5)


def softplus(x: ArrayLike, /) -> Array:
    """``log(1 + exp(x))``, which does not overflow."""
    return logaddexp(x, 0)


def softsign(x: ArrayLike, /) -> Array:
    """``x / (1 + |x|)``."""
    array = asarray(x)
    return array / (abs(array) + 1)


def mish(x: ArrayLike, /) -> Array:
    """``x * tanh(softplus(x))`` (Misra, 2019)."""
    array = asarray(x)
    return array * tanh(softplus(array))


def thresholded_relu(x: ArrayLike, /, alpha: float = 1.0) -> Array:
    """``x`` above ``alpha``, else 0."""
    array = asarray(x)
    return where(array > alpha, array, 0)


def shrink(x: ArrayLike, /, bias: float = 0.0, lambd: float = 0.5) -> Array:
    """``x + bias`` below ``-lambd``, ``x - bias`` above ``lambd``, else 0."""
    array = asarray(x)
    return where(array < -lambd, array + bias, where(array > lambd, array - bias, 0))


def hardmax(x: ArrayLike, /, axis: int = -1) -> Array:
    """1 at the first largest element along ``axis``, else 0, in the dtype of ``x``."""
    array = asarray(x)
    return one_hot(argmax(array, axis=axis), array.shape[axis], axis=axis, dtype=array.dtype)
