"""What a variable cannot be is said at once: where the value is asked for, missing, out of range, or bound twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.symbolic import M, N

Body = Callable[[anp.Array, Any, Any], Any]

#: What asks for the value itself, with what the message says of it.
READS: dict[str, tuple[Body, str]] = {
    "int": (lambda x, n, m: x * int(n), "an integer at"),
    "float": (lambda x, n, m: x * float(n), "a float at"),
    "range": (lambda x, n, m: [x for _ in range(n)], "an integer at"),
    "a branch": (lambda x, n, m: x + 1 if n > 3 else x, "n > 3 at"),
    "a comparison of two": (lambda x, n, m: x if n == m else x + 1, "n == m at"),
    "an index that may be out of bounds": (lambda x, n, m: x[n + 3], "n \\+ 3 < 8 at"),
    "an index that may count from the end": (lambda x, n, m: x[m - 1], "m - 1 < 0 at"),
    "a slice that may count from the end": (lambda x, n, m: x[m - 2 :] + 0, "m - 2 < 0 at"),
    "a shape that may be negative": (lambda x, n, m: anp.zeros(m - 1), "m - 1 < 0 at"),
    "a division by what may be 0": (lambda x, n, m: x[: n // m], "a division by m at"),
    "the length of an array": (lambda x, n, m: len(x[:n]), "an integer at"),
    "the rows of an array": (lambda x, n, m: list(x[:n]), "an integer at"),
    "the shape as text": (lambda x, n, m: "x" * x[:n].shape[0], "an integer at"),
}


@pytest.mark.parametrize("name", READS)
def test_asking_for_the_value_names_the_line_and_the_remedy(name: str) -> None:
    body, words = READS[name]
    captured = aj.jit(lambda x, n, m: body(x, n, m))
    with pytest.raises(
        aj.HostReadError, match=f"{words} .*test_variables_refusals.py:\\d+.*pass a plain int"
    ) as caught:
        captured.run(anp.arange(8.0), N.bind(2), M.bind(1))
    assert isinstance(caught.value, aj.CaptureError)
    assert captured.captures == []


def test_what_the_range_decides_is_no_read() -> None:
    @aj.jit
    def f(x: anp.Array, n: Any, m: Any) -> anp.Array:
        assert n > 0
        assert n != 7
        assert n + m >= 1
        assert n - n == 0
        return x[:n] * (2 if n <= 6 else 3)

    assert np.asarray(f.run(anp.arange(8.0), N.bind(2), M.bind(1))).tolist() == [0.0, 2.0]


def test_extents_that_only_some_values_make_equal_do_not_go_together() -> None:
    for body in (
        lambda x, n, m: x[:n] + x[: m + 1],
        lambda x, n, m: x[:n] + anp.ones(3),
        lambda x, n, m: anp.ones((2, n)) @ anp.ones((m, 2)),
        lambda x, n, m: anp.zeros((n, 4)).reshape(m, 4),
        lambda x, n, m: x.__setitem__(slice(n), anp.ones(4)),
    ):
        with pytest.raises(ValueError, match="broadcast|chain|elements|take in place"):
            aj.jit(body).run(anp.arange(8.0), N.bind(3), M.bind(2))
    stretched = aj.jit(lambda x, n, m: anp.ones((n, 1)) + x[None, :2])
    assert np.asarray(stretched.run(anp.arange(8.0), N.bind(1), M.bind(0))).shape == (1, 2)


def test_a_value_out_of_range_is_refused_where_it_is_bound() -> None:
    for value in (0, 7, -3):
        with pytest.raises(ValueError, match=r"n takes values from 1 to 6, got -?\d"):
            N.bind(value)


def test_a_variable_without_a_value_or_with_two_is_refused() -> None:
    f = aj.jit(lambda x, n, m: x[:n] * m)
    x = anp.arange(8.0)
    with pytest.raises(ValueError, match=r"argument 'n' is the variable 'n' without a value; pass n\.bind\(value\)"):
        f.run(x, N, M.bind(1))
    with pytest.raises(ValueError, match="argument 'm' is the variable n from 1 to 6 with the value 3.*the value 2"):
        f.run(x, N.bind(2), N.bind(3))
    with pytest.raises(ValueError, match="one range and one value in a call"):
        f.run(x, N.bind(2), aj.Variable("n", 0, 9).bind(2))
    assert np.asarray(f.run(x, N.bind(2), N.bind(2))).tolist() == [0.0, 2.0]


def test_a_variable_that_no_argument_binds_is_refused() -> None:
    f = aj.jit(lambda x: x[:N] * 2)
    with pytest.raises(ValueError, match=r"uses the variables \['n'\], but the call binds \[\]"):
        f.run(anp.arange(8.0))
    g = aj.jit(lambda x, n: x[:N] * 2)
    assert np.asarray(g.run(anp.arange(8.0), N.bind(3))).tolist() == [0.0, 2.0, 4.0]


def test_a_value_is_an_integer_wherever_nothing_is_recorded() -> None:
    three = N.bind(3)
    assert (three + 1, [1, 2, 3, 4][three], f"{three}") == (4, 4, "3")
    x = anp.arange(8.0)
    assert np.asarray(x[:three] * three).tolist() == [0.0, 3.0, 6.0]
    with pytest.raises(aj.HostReadError, match="asks for the value of n"):
        np.asarray(x[:N] + 0)
    with pytest.raises(aj.HostReadError, match="asks for the value of n"):
        anp.zeros(N)


def test_an_integer_in_place_of_a_variable_is_another_signature() -> None:
    f = aj.jit(lambda x, n: x[:n] * 2)
    x = anp.arange(8.0)
    for n in (N.bind(2), N.bind(3), 2, aj.Variable("n", 1, 5).bind(2), aj.Variable("k", 1, 6).bind(2)):
        assert np.asarray(f.run(x, n)).shape == (int(n),)
    assert [capture.partition("x: float64[8], ")[2] for capture in f.captures] == [
        *("n: n from 1 to 6)", "n=2)", "n: n from 1 to 5)", "n: k from 1 to 6)")
    ]
    strict = aj.jit(lambda x, n: x[:n] * 2, strict=True)
    strict.run(x, N.bind(2))
    strict.run(x, N.bind(4))
    with pytest.raises(aj.ReplayMismatchError, match="'n' of .* was captured as n from 1 to 6, but this call gives 2"):
        strict.run(x, 2)


def test_static_and_dynamic_take_the_value() -> None:
    static = aj.jit(lambda x, n: x[:n] * 2, static="n")
    dynamic = aj.jit(lambda x, n: x * n, dynamic="n")
    x = anp.arange(8.0)
    for n in (2, 3):
        assert np.asarray(static.run(x, N.bind(n))).shape == (n,)
        assert np.asarray(dynamic.run(x, N.bind(n)))[1] == n
    assert (len(static.captures), len(dynamic.captures)) == (2, 1)


def test_a_symbolic_array_is_not_kept() -> None:
    kept: list[Any] = []

    @aj.jit
    def f(x: anp.Array, n: Any) -> anp.Array:
        kept.append(anp.zeros(n))
        return x + 1

    with pytest.raises(aj.CaptureError, match="kept outside of"):
        f.run(anp.arange(3.0), N.bind(2))
