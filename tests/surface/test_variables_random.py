"""Random programs over symbolic slices give, on one capture, what NumPy gives for every value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.symbolic import POINTS, M, N

#: A step of a program: takes and returns the arrays of a small pool, all of shape (8, k).
Step = Callable[[Any, list[Any], Any, Any], None]

ROWS = 8


def bounds() -> st.SearchStrategy[Callable[[Any, Any], Any]]:
    """Positions that are never negative, and lengths, as functions of n and m."""
    return st.sampled_from(
        [
            lambda n, m: n,
            lambda n, m: m,
            lambda n, m: n + 1,
            lambda n, m: n + m,
            lambda n, m: 2 * m,
            lambda n, m: (n + m) // 2,
            lambda n, m: n % 3,
            lambda n, m: ROWS - n,
            lambda n, m: 7 - m,
            lambda n, m: 3,
        ]
    )


@st.composite
def slices(draw: st.DrawFn) -> Callable[[Any, Any], slice]:
    start, stop = draw(st.none() | bounds()), draw(st.none() | bounds())
    step = draw(st.sampled_from([None, 1, 2, -1]))
    return lambda n, m: slice(start and start(n, m), stop and stop(n, m), step)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    kind = draw(st.sampled_from(["view", "view", "write", "add", "sum", "number", "cat", "mean", "product", "put"]))
    which, other = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    cut, cross, at = draw(slices()), draw(slices()), draw(bounds())

    def take(pool: list[Any], index: int) -> Any:
        return pool[index % len(pool)]

    def run(xp: Any, pool: list[Any], n: Any, m: Any) -> None:
        x, y = take(pool, which), take(pool, other)
        if kind == "view":
            pool.append(x[cut(n, m)])
        elif kind == "write":
            x[cut(n, m)] = xp.sum(y, axis=0) + n
        elif kind == "put":
            x[cut(n, m), 1] = at(n, m)
        elif kind == "add":
            pool.append(x + xp.sum(y, axis=0))
        elif kind == "sum":
            pool.append(xp.cumsum(x[cut(n, m)], axis=0))
        elif kind == "number":
            pool.append(x * at(n, m) - m)
        elif kind == "cat":
            pool.append(xp.concatenate([x, y[cut(n, m)]]))
        elif kind == "mean":
            pool.append(xp.broadcast_to(xp.sum(x, axis=0), (at(n, m), 4)) + n)
        else:
            pool.append(xp.sum(x[:, cross(n, m)], axis=1, keepdims=True) * xp.ones((1, 4)))

    return run


@settings(max_examples=40, deadline=None)
@given(st.lists(steps(), min_size=1, max_size=6))
def test_random_programs_equal_numpy_for_every_value(program: list[Step]) -> None:
    def function(xp: Any, x: Any, y: Any, n: Any, m: Any) -> list[Any]:
        pool = [x, y]
        for step in program:
            step(xp, pool, n, m)
        return [each + 0 for each in pool]

    captured = aj.jit(lambda x, y, n, m: function(anp, x, y, n, m))
    for n, m in POINTS:
        hosts = [np.arange(32.0).reshape(ROWS, 4), np.arange(32.0, 64.0).reshape(ROWS, 4)]
        arrays = [anp.asarray(host) for host in hosts]
        wanted = function(np, *hosts, n, m)
        found = captured.run(*arrays, N.bind(n), M.bind(m))
        for ours, reference in zip([*found, *arrays], [*wanted, *hosts], strict=True):
            assert ours.shape == reference.shape, (n, m)
            np.testing.assert_array_equal(np.asarray(ours), reference, err_msg=f"n={n}, m={m}")
    assert len(captured.captures) == 1
