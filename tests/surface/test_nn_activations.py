"""Activation functions equal their formulas in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from asyncjit import nn
from tests.surface.immediate import ImmediateSink, immediate


@pytest.fixture(autouse=True)
def sink() -> Iterator[ImmediateSink]:
    with immediate() as one, np.errstate(all="ignore"):
        yield one


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _elu(x: Any, alpha: float) -> Any:
    return np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1))


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "relu": (nn.relu, lambda x: np.where(x > 0, x, 0)),
    "leaky_relu": (nn.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x)),
    "steep leaky_relu": (lambda x: nn.leaky_relu(x, 3.0), lambda x: np.where(x > 0, x, 3 * x)),
    "prelu": (lambda x: nn.prelu(x, np.float32([2, 0.5])), lambda x: np.where(x > 0, x, x * np.array([2, 0.5]))),
    "elu": (lambda x: nn.elu(x, 2.0), lambda x: _elu(x, 2)),
    "celu": (lambda x: nn.celu(x, 2.0), lambda x: np.where(x > 0, x, 2 * (np.exp(np.minimum(x, 0) / 2) - 1))),
    "selu": (nn.selu, lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772)),
    "sigmoid": (nn.sigmoid, _sigmoid),
    "swish": (nn.swish, lambda x: x * _sigmoid(x)),
    "gelu": (nn.gelu, lambda x: x * 0.5 * (1 + np.vectorize(math.erf, otypes=["float64"])(x / math.sqrt(2)))),
    "gelu by tanh": (
        lambda x: nn.gelu(x, approximate="tanh"),
        lambda x: x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "swish with a slope": (lambda x: nn.swish(x, 2.0), lambda x: x * _sigmoid(2 * x)),
    "hard_sigmoid": (nn.hard_sigmoid, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    "hard_swish": (nn.hard_swish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "softplus": (nn.softplus, lambda x: np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)),
    "softsign": (nn.softsign, lambda x: x / (1 + np.abs(x))),
    "mish": (nn.mish, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "thresholded_relu": (lambda x: nn.thresholded_relu(x, 0.7), lambda x: np.where(x > 0.7, x, 0)),
    "shrink": (lambda x: nn.shrink(x, 0.5, 1.5), lambda x: np.sign(x) * (np.abs(x) - 0.5) * (np.abs(x) > 1.5)),
    "hardmax": (nn.hardmax, lambda x: (np.arange(2) == x.argmax(-1)[..., None]) * 1.0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_an_activation_equals_its_formula_and_keeps_the_dtype(name: str, dtype: str) -> None:
    ours, formula = CASES[name]
    host = np.concatenate([np.linspace(-6, 6, 46), [-20.0, -0.0, 0.0, 15.0]]).reshape(25, 2).astype(dtype)
    result = np.asarray(ours(host.astype(dtype)))
    if name == "prelu" and dtype == "float16":
        assert result.dtype == "float32"
    else:
        assert result.dtype == dtype
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(result.astype("float64"), formula(host.astype("float64")), rtol=8 * eps, atol=4 * eps)
    assert np.isnan(np.asarray(ours(np.full((2, 2), np.nan, dtype)))).any() == (name not in NAN_GOES)


#: Comparisons with nan are False, and the position of a nan is one.
NAN_GOES = ("thresholded_relu", "shrink", "hardmax")


def test_hardmax_along_another_axis_takes_the_first_of_equals() -> None:
    assert np.asarray(nn.hardmax(np.float32([[1, 3], [1, 3]]), axis=0)).tolist() == [[1, 1], [0, 0]]
