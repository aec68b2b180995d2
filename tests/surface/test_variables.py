"""One capture serves every value of a variable, with the results that NumPy gives for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.symbolic import M, N, agrees_everywhere

Function = Callable[..., Any]


def put(target: Any, key: Any, value: Any) -> Any:
    target[key] = value
    return target


def softmax(xp: Any, scores: Any) -> Any:
    weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    return weights / xp.sum(weights, axis=-1, keepdims=True)


#: Of an array of shape (8, 6), one of shape (8,), n from 1 to 6 and m from 0 to 4, for both namespaces.
CASES: Mapping[str, Function] = {
    "slice": lambda xp, x, y, n, m: x[:n] + 1,
    "slice between two variables": lambda xp, x, y, n, m: x[m : n + 2] * 2,
    "slice that may be empty": lambda xp, x, y, n, m: xp.sum(x[n:m], axis=0),
    "slice from the end": lambda xp, x, y, n, m: (x[-n:] + 0, x[:-n] + 0),
    "slice beyond the end": lambda xp, x, y, n, m: x[n + 4 :] + x[n + 4 : 2 * n + 20],
    "slice with steps": lambda xp, x, y, n, m: (x[m : n + m : 2] + 0, x[n::-1] + 0, x[n:m:-2] + 0),
    "slice backwards": lambda xp, x, y, n, m: x[: -m - 1 : -1] + 0,
    "shrink on both axes": lambda xp, x, y, n, m: x[m : m + 3, n - 1 : n + 1] - 1,
    "views of views that may be empty": lambda xp, x, y, n, m: (x[n:m][::-1] + 0, x[m + 8 :][::2] + 0, x[n:m, n:]),
    "index": lambda xp, x, y, n, m: (x[n] + x[m], x[:6, n - 1] + x[n], x[-n] + 0, x[n, m] + 0),
    "index of a symbolic axis": lambda xp, x, y, n, m: (x[:n] + 0)[n - 1],
    "new axes": lambda xp, x, y, n, m: x[:n, None] * y[None, :n, None],
    "numbers in arithmetic": lambda xp, x, y, n, m: x * n + m - (n - m) // 2 + (3 * n) % 4,
    "numbers keep the dtype": lambda xp, x, y, n, m: (x.astype("float32") * n / (m + 1), x.astype("int8") + m),
    "numbers compare": lambda xp, x, y, n, m: xp.where(xp.arange(8) < n, y, -1.0),
    "numbers in powers and bounds": lambda xp, x, y, n, m: (y**n, xp.clip(y, m, n + m), n - y, n / y),
    "extremes": lambda xp, x, y, n, m: x[: n.at_most(3) if hasattr(n, "at_most") else min(n, 3)] + 0,
    "matmul": lambda xp, x, y, n, m: (x[:n] @ x[:n].T, x[:, :n].T @ y, x[:n] @ y[:6]),
    "attention": lambda xp, x, y, n, m: softmax(xp, x[:n] @ x[: n + 1].T / 100) @ x[: n + 1],
    "cat": lambda xp, x, y, n, m: (xp.concatenate([x[:n], x[m:], x[:2]]), xp.concatenate([x[:, :n], x], axis=1)),
    "stack": lambda xp, x, y, n, m: xp.stack([x[:n], x[:n] * 2], axis=1),
    "sum": lambda xp, x, y, n, m: (x[:n].sum(), x[:n].sum(axis=0), x[:, :n].sum(axis=1, keepdims=True)),
    "mean and var": lambda xp, x, y, n, m: (x[:n].mean(axis=0), x[:, :n].var(axis=1), x[:n].std(), x[:n].mean()),
    "largest and first": lambda xp, x, y, n, m: (x[:n].max(axis=1), x[:n].min(), x[:n].argmax(axis=0), x[:n].argmin()),
    "running sums": lambda xp, x, y, n, m: xp.cumsum(x[:n], axis=0),
    "new arrays": lambda xp, x, y, n, m: (xp.zeros((n, m, 2)) + n, xp.full((2, n), m), xp.ones(n), xp.eye(n, m + 1)),
    "ranges": lambda xp, x, y, n, m: (xp.arange(n), xp.arange(m, n + 4), xp.arange(0, n, 2), xp.arange(m + 9, n, -1)),
    "even spaces": lambda xp, x, y, n, m: xp.linspace(0, 1, n),
    "triangles": lambda xp, x, y, n, m: (xp.tril(xp.ones((n, n))), xp.triu(x[:n], m)),
    "reshape": lambda xp, x, y, n, m: (x[:n].reshape(-1), x[:n].reshape(n, 2, 3), x[:n].reshape(6 * n) + 0),
    "reshape to other axes": lambda xp, x, y, n, m: xp.zeros((n, 4)).reshape(4, n),
    "reshape by a quotient": lambda xp, x, y, n, m: xp.ones((n, m + 1)).reshape(-1, n),
    "reshape that copies": lambda xp, x, y, n, m: (x[:, :n].reshape(8 * n), (x[:n].T + 1).reshape(-1)),
    "transposes": lambda xp, x, y, n, m: (x[:n].T + 0, xp.flip(x[:n], axis=0) + 0, x[n : n + 1].squeeze(0) + 0),
    "broadcast": lambda xp, x, y, n, m: x[:n] + xp.broadcast_to(y[:6], (n, 6)),
    "roll": lambda xp, x, y, n, m: (xp.roll(y, n), xp.roll(x[:n], 1, axis=0)),
    "repeat and tile": lambda xp, x, y, n, m: (xp.repeat(y, n), xp.repeat(y[:n], 3), xp.tile(y[:n], 2)),
    "split": lambda xp, x, y, n, m: [each + 0 for each in xp.split(y, [n])],
    "take": lambda xp, x, y, n, m: (xp.take(x[: n + 1], xp.arange(n), axis=0), x[: n + 1][xp.asarray([0, 1, 0])]),
    "take one": lambda xp, x, y, n, m: x[xp.asarray([1, 2]), m],
    "write rows": lambda xp, x, y, n, m: xp.sum(put(x, slice(n, n + 2), 0.0), axis=0),
    "write a column": lambda xp, x, y, n, m: xp.sum(put(x, (slice(None), n - 1), y)[m:], axis=0),
    "write a number": lambda xp, x, y, n, m: put(x, (slice(m, n), 2), n) + 0,
    "write through views": lambda xp, x, y, n, m: put(x[:n].T, m, 7.0) + 0,
    "kernels without symbols": lambda xp, x, y, n, m: (y * 2 + 1, xp.sum(x[:n]), x @ y[:6], (y * 2)[:n] + n),
    "the same array twice": lambda xp, x, y, n, m: (x[:n], x[:n], y, x[m] + 0),
    "sorting": lambda xp, x, y, n, m: (xp.sort(x[:n], axis=0), xp.argsort(x[:, :n], stable=True)),
    "taking along": lambda xp, x, y, n, m: xp.take_along_axis(x[:n], xp.argsort(x[:n], axis=1), axis=1),
    "searching": lambda xp, x, y, n, m: (xp.searchsorted(xp.sort(y[:n]), x), xp.isin(x[:n], y[:n])),
    "differences": lambda xp, x, y, n, m: xp.diff(x[: n + 1], axis=0),
    "einsum": lambda xp, x, y, n, m: (xp.einsum("ij,kj->ik", x[:n], x), xp.einsum("ij,i->j", x[:n], y[:n])),
    "two variables in one extent": lambda xp, x, y, n, m: xp.zeros((n + m, n * 2)).reshape(2 * n, n + m) + (n * m),
}


@pytest.mark.parametrize("name", CASES)
def test_one_capture_gives_what_numpy_gives_for_every_value(name: str) -> None:
    agrees_everywhere(CASES[name])


def test_ranges_beyond_32_bits() -> None:
    """The buffers are sized for the range, and a range says nothing about where the small dtypes end."""
    wide = aj.Variable("wide", -(2**40), 2**40)

    @aj.jit
    def f(x: anp.Array, k: Any) -> anp.Array:
        return x * k + k % 1000

    x = anp.arange(3)
    for value in (-(2**40), -7, 0, 2**33 + 5, 2**40):
        assert np.asarray(f.run(x, wide.bind(value))).tolist() == [x * value + value % 1000 for x in range(3)]
    assert len(f.captures) == 1
    with pytest.raises(OverflowError):
        f.run(anp.arange(3, dtype="int8"), wide.bind(1))


def test_a_variable_may_stand_anywhere_in_the_arguments() -> None:
    @aj.jit
    def f(x: anp.Array, options: Any, *, pair: Any) -> anp.Array:
        return x[: options["count"]] * pair[1] + pair[0].sum()

    x = anp.arange(8.0)
    for n, m in ((2, 3), (5, 0), (6, 4)):
        result = f.run(x, {"count": N.bind(n), "other": 3}, pair=(x, M.bind(m)))
        assert np.asarray(result).tolist() == (np.arange(8.0)[:n] * m + 28).tolist()
    [capture] = f.captures
    assert capture.endswith(
        "f(x: float64[8], options: dict('count': n from 1 to 6, 'other': 3), pair: tuple(float64[8], m from 0 to 4))"
    )


def test_values_that_came_before_do_not_show_in_a_shape_or_a_pad() -> None:
    """Behaviour 37 of the ancestor: a padded view of symbolic length kept the length of the capture."""

    @aj.jit
    def pad(x: anp.Array, n: Any) -> anp.Array:
        padded = anp.zeros(8)
        padded[:n] = x[:n]
        return padded

    @aj.jit
    def ones(n: Any) -> anp.Array:
        return anp.ones((n, 2))

    x = anp.arange(1.0, 9.0)
    for n in (2, 4, 1, 6):
        assert np.asarray(pad.run(x, N.bind(n))).tolist() == [*range(1, n + 1), *[0] * (8 - n)]
        assert np.asarray(ones.run(N.bind(n))).shape == (n, 2)
    assert len(pad.captures) == len(ones.captures) == 1


def test_a_result_has_its_shape_before_it_is_computed_and_goes_on_as_an_ordinary_array() -> None:
    @aj.jit
    def head(x: anp.Array, n: Any) -> anp.Array:
        return x[:n] * 2

    @aj.jit
    def total(x: anp.Array) -> anp.Array:
        return x.sum()

    x = anp.arange(8.0)
    first, second = head(x, N.bind(3)), head(x, N.bind(5))
    assert (first.result.shape, second.result.shape) == ((3,), (5,))
    # No more memory than they need, whatever the largest value would.
    storages: list[Any] = [each.result._storage for each in (first, second)]
    assert [(storage.nbytes, storage.memory.nbytes) for storage in storages] == [(24, 24), (40, 40)]
    assert [float(total.run(each.result)) for each in (first, second)] == [6.0, 20.0]
    assert [capture.partition("(")[2] for capture in total.captures] == ["x: float64[3])", "x: float64[5])"]
    plain = total.run(anp.arange(3.0))
    assert (float(plain), len(total.captures)) == (3.0, 2)
