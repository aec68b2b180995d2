"""Elementwise functions and operators equal those of array-api-strict."""

from __future__ import annotations

import operator
from typing import Any

import array_api_strict as reference
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncjit.numpy as anp
from tests.surface import array_api
from tests.surface.array_api import arrays, check, compare, operands, quick

UNARY = {
    # Of complex numbers as in NumPy, which gives 1j for an infinite one where the reference divides: nan.
    "sign": "real",
    **dict.fromkeys(("abs", "negative", "positive", "square", "isfinite", "isinf", "isnan", "round"), "numeric"),
    **dict.fromkeys(("ceil", "floor", "trunc"), "real"),
    **dict.fromkeys(("conj", "real"), "numeric"),
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1"), "floating"),
    **dict.fromkeys(("log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh", "reciprocal"), "floating"),
    "bitwise_invert": "integer or bool",
    "imag": "complex",
    "logical_not": "bool",
    "signbit": "real floating",
}
BINARY = {
    **dict.fromkeys(("add", "multiply", "subtract"), "numeric"),
    **dict.fromkeys(("equal", "not_equal"), "all"),
    **dict.fromkeys(("less", "less_equal", "greater", "greater_equal", "maximum", "minimum"), "real"),
    **dict.fromkeys(("floor_divide", "remainder"), "real"),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), "integer or bool"),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), "bool"),
    **dict.fromkeys(("atan2", "copysign", "hypot", "logaddexp", "nextafter"), "real floating"),
    "divide": "floating",
}
#: Exponents and shifts for which the standard says what comes out.
SMALL_BINARY = {"pow": "numeric", "bitwise_left_shift": "integer", "bitwise_right_shift": "integer"}
#: NumPy takes other loops for other layouts, which round differently in the last place.
ROUNDED = ("pow", "divide", "reciprocal", "multiply", "square")


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions(name: str) -> None:
    @quick
    @given(arrays(UNARY[name]))
    def run(x: Any) -> None:
        check(name, ((x,), {}), exact=x.dtype.kind != "c")

    run()


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions(name: str) -> None:
    @quick
    @given(operands(BINARY[name]))
    def run(pair: Any) -> None:
        check(name, (pair, {}), exact=name not in ROUNDED)

    run()


@pytest.mark.parametrize("name", SMALL_BINARY)
def test_powers_and_shifts(name: str) -> None:
    @quick
    @given(operands(SMALL_BINARY[name], small=True))
    def run(pair: Any) -> None:
        if any(np.any(np.asarray(each) < 0) for each in pair[1:] if np.asarray(each).dtype.kind in "iu"):
            pair = pair[0], abs(pair[1])
        check(name, (pair, {}), exact=False)

    run()


@quick
@given(arrays("bool"), operands("all"))
def test_where(condition: Any, pair: Any) -> None:
    check("where", ((condition, *pair), {}))


@quick
@given(arrays("real"), st.data())
def test_clip(x: Any, data: st.DataObject) -> None:
    bounds = data.draw(st.tuples(*[st.none() | array_api.made(x.dtype.name, ())] * 2))
    low, high = (None if each is None else each if data.draw(st.booleans()) else each.item() for each in bounds)
    if low is not None and high is not None and not low <= high:
        low = None
    check("clip", ((x, low, high), {}))


OPERATORS = {
    **dict.fromkeys(("add", "mul", "sub"), "numeric"),
    **dict.fromkeys(("eq", "ne"), "all"),
    **dict.fromkeys(("lt", "le", "gt", "ge", "floordiv", "mod"), "real"),
    **dict.fromkeys(("and_", "or_", "xor"), "integer or bool"),
    "truediv": "floating",
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_and_reflected_ones(name: str) -> None:
    function = getattr(operator, name)

    @quick
    @given(operands(OPERATORS[name]))
    def run(pair: Any) -> None:
        with array_api.quiet():
            try:
                wanted = function(*map(array_api._strict, pair))
            except (TypeError, OverflowError):
                return
            compare(function(*map(array_api._ours, pair)), wanted, exact=False)

    run()


@pytest.mark.parametrize("name", ["iadd", "isub", "imul"])
def test_operators_in_place(name: str) -> None:
    function = getattr(operator, name)

    @quick
    @given(operands("numeric"))
    def run(pair: Any) -> None:
        if not isinstance(pair[0], np.ndarray):
            return
        with array_api.quiet():
            try:
                wanted = function(*map(array_api._strict, pair))
            except (TypeError, ValueError, OverflowError):
                return
            target = anp.asarray(pair[0])
            assert function(target, array_api._ours(pair[1])) is target
            compare(target, wanted, exact=False)

    run()


@pytest.mark.parametrize("name", ["neg", "pos", "abs", "invert"])
def test_unary_operators(name: str) -> None:
    function = getattr(operator, name)

    @quick
    @given(arrays("integer or bool" if name == "invert" else "numeric"))
    def run(x: Any) -> None:
        with array_api.quiet():
            compare(function(anp.asarray(x)), function(reference.asarray(x)), exact=x.dtype.kind != "c")

    run()
