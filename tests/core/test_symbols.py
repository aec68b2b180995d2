"""Symbolic integers compute what integers compute, and answer exactly what their ranges decide."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from itertools import product
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from asyncjit.algebra import Symbol
from asyncjit.errors import CaptureError, HostReadError
from asyncjit.symbols import Expr, Int, bounds, combine, lower, same, upper
from asyncjit.variables import Bound, Variable, compiled, evaluate, has_symbols, symbols_in

N, M = Variable("n", 1, 6), Variable("m", 0, 3)
POINTS = list(product(range(1, 7), range(4)))

Pair = tuple[Int, Callable[[int, int], int]]


def smaller(left: Int, right: Int) -> Int:
    return combine("min", left, right)


def larger(left: Int, right: Int) -> Int:
    return combine("max", left, right)


SUMS: list[tuple[Callable[[Any, Any], Any], Callable[[int, int], int]]] = [
    (operator.add, operator.add),
    (operator.sub, operator.sub),
    (operator.mul, operator.mul),
    (smaller, min),
    (larger, max),
]


def leaves() -> st.SearchStrategy[Pair]:
    constants = st.integers(-5, 9).map(lambda c: (c, lambda n, m: c))
    return st.one_of(constants, st.just((N, lambda n, m: n)), st.just((M, lambda n, m: m)))


def grown(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    def both(pairs: tuple[Pair, Pair, int]) -> Pair:
        (left, value), (right, other), which = pairs
        if which < len(SUMS):
            ours, plain = SUMS[which]
            return ours(left, right), lambda n, m: plain(value(n, m), other(n, m))
        # Divisors that are never 0: of one sign, or a variable's.
        divisor: Int = right if isinstance(right, int) and right else N + 1
        given_by = (lambda n, m: right) if divisor is right else (lambda n, m: n + 1)
        how: Callable[[Any, Any], Any] = operator.floordiv if which % 2 else operator.mod
        return how(left, divisor), lambda n, m: how(value(n, m), given_by(n, m))

    return st.tuples(inner, inner, st.integers(0, len(SUMS) + 3)).map(both)


def everywhere(expr: Int) -> list[int]:
    """The values at all points."""
    function = compiled(expr, (N.symbol, M.symbol))
    return [function(*point) for point in POINTS]


EXPRESSIONS = st.recursive(leaves(), grown, max_leaves=6)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_expressions_evaluate_as_integers_do_and_stay_inside_their_bounds(pair: Pair) -> None:
    expr, plain = pair
    values = [plain(*point) for point in POINTS]
    assert everywhere(expr) == values
    low, high = bounds(expr)
    assert low <= min(values)
    assert max(values) <= high
    assert (lower(expr), upper(expr)) == (low, high)


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_a_comparison_answers_for_all_values_or_refuses(left: Pair, right: Pair) -> None:
    one, other = left[0], right[0]
    for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
        answers = {compare(*values) for values in zip(everywhere(one), everywhere(other), strict=True)}
        try:
            answer = compare(one, other)
        except HostReadError:
            continue
        assert answers == {answer}
    if same(one, other):
        assert everywhere(one) == everywhere(other)


def test_linear_comparisons_are_decided_wherever_the_range_decides() -> None:
    for limit, (name, compare) in product(
        range(-1, 9), [("<", operator.lt), ("<=", operator.le), (">", operator.gt), ("==", operator.eq)]
    ):
        answers = {compare(n, limit) for n in range(1, 7)}
        if len(answers) == 1:
            assert compare(N, limit) is answers.pop(), (name, limit)
        else:
            with pytest.raises(HostReadError, match="asks for the value of n"):
                compare(N, limit)


def test_what_is_equal_for_all_values_is_the_same() -> None:
    assert same(2 * (N + M) - N, N + 2 * M)
    assert same((N + 1) * (N - 1), N * N - 1)
    assert same((4 * N + 8) // 4, N + 2)
    assert same((6 * N * M) // (2 * N), 3 * M)
    assert same((4 * N + 4) // (N + 1), 4)
    assert same((N * N + N) // N, N + 1)
    assert same((4 * N + 3) % 4, 3)
    assert same((N * M) % N, 0)
    assert same(N // 7, 0)
    assert same((N + 7) // 7, 1 + N // 7)
    assert same(N % 8, N)
    assert same(N // (N + 1), 0)
    assert same(N % (N + 1), N)
    assert same(N // -2, -N // 2)
    assert same(larger(N, 0), N)
    assert same(larger(N, 9), 9)
    assert same(smaller(M, N), smaller(N, M))
    assert same(larger(N, N), N)
    assert not same(N, M)
    assert not same(N, 1)
    assert not same(Variable("n", 1, 7), N)
    assert (N - N, N * 0, M - M + 3) == (0, 0, 3)
    assert hash(N + 1) == hash(1 + N)
    assert {N + 1: "found"}[1 + N] == "found"
    # -1 and -2 have one hash, yet no dictionary may compare these.
    assert {8 - M: 1, 8 - 2 * M: 2}[8 - 2 * M] == 2


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (N - N // 2, (1, 3)),
        (smaller(N, 3) - N, (-3, 0)),
        (N - larger(N - 2, 0), (1, 2)),
        (larger(0, N - M) + M, (1, 6)),
        (4 * (N // 4) - N, (-3, 0)),
        (-(N // 4) * 4 + N, (0, 3)),
        ((N + 5) % 3, (0, 2)),
        (M % N, (0, 5)),
        ((N * N) // (M + 1), (0, 36)),
        (2 - smaller(N, M), (-1, 2)),
    ],
    ids=str,
)
def test_bounds_see_what_cancels(expr: Int, expected: tuple[int, int]) -> None:
    assert bounds(expr) == expected


def test_bounds_of_many_extremes_hold() -> None:
    """Unfolded one after the other in every order, seven atoms once took half a minute."""
    several = [Variable(f"v{index}", 0, 9) for index in range(40)]
    for count in (2, 4, 40):
        total: Any = sum((each.at_most(5) - each for each in several[:count]), 0)
        low, high = bounds(total)
        assert low <= -4 * count
        assert high >= 0
        assert count == 40 or (low, high) == (-4 * count, 0)


def test_the_order_of_atoms_in_atoms_stays_short() -> None:
    """Text of text in quotes was twice as long at each level."""
    wide = Variable("wide", 0, 2**40)
    nested: Any = wide
    value = 2**33
    for step in range(60):
        nested = (nested * 3 + wide) % (1000 + step)
        value = (value * 3 + 2**33) % (1000 + step)
    assert len(str(nested.key)) < 60 * 100
    assert evaluate(nested, {wide.symbol: 2**33}) == value


def test_a_quotient_of_very_many_terms_stays_a_quotient() -> None:
    k: Any = Variable("k", 2, 6)
    for exponent, terms in ((50, 50), (150, 1)):
        power = k
        for _ in range(exponent - 1):
            power = power * k
        quotient = (power - 1) // (k - 1)
        assert len(quotient.terms) == terms
        assert evaluate(quotient, {k.symbol: 3}) == (3**exponent - 1) // 2


def test_the_value_itself_is_refused_with_the_line_and_the_remedy() -> None:
    refusals: list[Callable[[], object]] = [
        lambda: range(N),
        lambda: int(N),
        lambda: float(N),
        lambda: "abcdefg"[N],
        lambda: bool(M),
        lambda: N == 3,
        lambda: N // M,
        lambda: 7 % (M - 1),
    ]
    for each in refusals:
        with pytest.raises(HostReadError, match=r"test_symbols\.py:\d+ \(`lambda.*pass a plain int") as caught:
            each()
        assert isinstance(caught.value, CaptureError)
        assert "test_symbols.py" in str(caught.value.where)
    with pytest.raises(ZeroDivisionError):
        N // 0
    assert bool(N)
    assert N != 0
    assert N


def test_what_is_no_integer_is_left_to_the_other_side() -> None:
    for operation in (
        *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod),
        *(operator.lt, operator.le, operator.gt, operator.ge),
    ):
        for arguments in ((N, "x"), ("x", N), (N, 1.5)):
            if operation is operator.mul or (operation is operator.mod and arguments[0] == "x"):
                # Text takes these itself.
                continue
            with pytest.raises(TypeError):
                operation(*arguments)
    assert N != "x"
    assert N.__rmod__("x") is NotImplemented
    assert N + True == N + 1


def test_expressions_read_as_one_writes_them() -> None:
    assert str(2 * N * M - M + 3) == "2*m*n - m + 3"
    assert str(-N) == "-n"
    assert str(larger(M - 1, 0)) == "max(0, m - 1)"
    assert str((N + 1) // 2 + 5) == "((n + 1) // (2)) + 5"
    assert repr(+N) == "n"
    assert (N.at_least(3).bounds, N.at_most(3).bounds) == ((3, 6), (1, 3))


# Variables.


def test_a_variable_has_a_name_a_range_and_values() -> None:
    assert (N.name, N.min, N.max, N.symbol) == ("n", 1, 6, Symbol("n", 1, 6))
    seventeen = Variable("wide", -(2**40), 2**40).bind(2**33)
    assert isinstance(seventeen, Bound)
    assert (seventeen + 1, seventeen.variable.name) == (2**33 + 1, "wide")
    for value in (0, 7):
        with pytest.raises(ValueError, match="n takes values from 1 to 6"):
            N.bind(value)
    for wrong in (("", 0, 1), ("n", 2, 1)):
        with pytest.raises(ValueError, match="a name and a range"):
            Variable(*wrong)


def test_variables_survive_pickling() -> None:
    again = pickle.loads(pickle.dumps(N))
    assert (same(again, N), again.symbol) == (True, N.symbol)
    bound = pickle.loads(pickle.dumps(N.bind(4)))
    assert (bound, bound.variable.symbol) == (4, N.symbol)


# Evaluation.


def test_a_tree_is_evaluated_whole_and_keeps_what_is_no_expression() -> None:
    tree = (N + 1, ("x", None, (M * N, 3, True)), -2.5, ())
    function = compiled(tree, (N.symbol, M.symbol))
    assert function(2, 3) == (3, ("x", None, (6, 3, True)), -2.5, ())
    assert function(5, 0) == (6, ("x", None, (0, 3, True)), -2.5, ())
    assert list(symbols_in(tree)) == [N.symbol, M.symbol]
    assert list(symbols_in((smaller(M, N) // 2, 3))) == [M.symbol, N.symbol]
    assert (has_symbols(tree), has_symbols(("x", (1, 2))), has_symbols(N)) == (True, False, True)


def test_a_name_cannot_become_code() -> None:
    rude = Variable("__import__('os')", 0, 3)
    assert evaluate(rude * 2 + 1, {rude.symbol: 3}) == 7


def test_nothing_is_simplified_into_an_expression_without_symbols() -> None:
    for value in (N - N + 2, (N + 5) // 100, larger(N, 50)):
        assert not isinstance(value, Expr)


def test_division_by_another_sign_and_by_what_cannot_be_told() -> None:
    assert same(N % -4, -((-N) % 4))
    assert everywhere(M // (N - 9)) == [m // (n - 9) for n, m in POINTS]
    assert everywhere(M % (N - 9)) == [m % (n - 9) for n, m in POINTS]
    assert combine("//", 7, 2) == 3
    assert Variable("narrow", 8, 9) // 4 == 2
    assert combine("min", 7, 2) == 2
