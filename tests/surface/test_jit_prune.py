"""``prune=True``: what depends on no argument is computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp


async def test_what_depends_on_no_argument_is_computed_once() -> None:
    weight = anp.arange(3, dtype="float64")
    runs: list[int] = []

    @aj.kernel(writes="out")
    def counted(out: Any, src: Any) -> None:
        runs.append(1)
        np.exp(src, out=out)

    @aj.jit(prune=True)
    def f(x: anp.Array) -> anp.Array:
        table = anp.empty(3)
        counted(table, weight * 2)
        return x * (table + 1)[::-1]

    x = anp.ones(3)
    expected = (np.exp(np.arange(3) * 2.0) + 1)[::-1]
    replays = [f(x) for _ in range(4)]
    for replay in replays:
        np.testing.assert_allclose(np.asarray(await replay), expected)
    assert len(runs) == 1
    assert "counted" not in f.explain()
    f.free_intermediates()
    weight[...] = 0
    np.testing.assert_allclose(np.asarray(await f(x)), expected)
    f.reset()
    np.testing.assert_allclose(np.asarray(await f(x)), [2.0, 2.0, 2.0])


async def test_what_writes_state_runs_in_every_replay() -> None:
    state, scale = anp.zeros(2), anp.ones(2)

    @aj.jit(prune=True)
    def f(x: anp.Array) -> anp.Array:
        step = scale * 2
        state[...] = state + step
        return x + state

    results = [np.asarray(await f(anp.zeros(2))).tolist() for _ in range(3)]
    assert results == [[2.0, 2.0], [4.0, 4.0], [6.0, 6.0]]
    assert np.asarray(await state).tolist() == [6.0, 6.0]


async def test_outputs_that_depend_on_no_argument_are_still_new_buffers() -> None:
    scale = anp.ones(2)

    @aj.jit(prune=True)
    def f(x: anp.Array) -> tuple[anp.Array, anp.Array]:
        fixed = scale * 3
        return x + fixed, fixed

    for _ in range(3):
        total, fixed = await f(anp.zeros(2))
        assert np.asarray(total).tolist() == np.asarray(fixed).tolist() == [3.0, 3.0]
        fixed += 1


async def test_a_first_replay_that_fails_does_not_spoil_the_later_ones() -> None:
    scale = anp.ones(2)
    fails = [True]

    @aj.kernel(writes="out")
    def fragile(out: Any, src: Any) -> None:
        if fails:
            raise OSError("not yet")
        out[...] = src * 2

    @aj.jit(prune=True)
    def f(x: anp.Array) -> anp.Array:
        table = anp.empty(2)
        fragile(table, scale)
        return x + table

    with pytest.raises(aj.KernelError, match="fragile"):
        await f(anp.ones(2))
    fails.clear()
    for _ in range(3):
        assert np.asarray(await f(anp.ones(2))).tolist() == [3.0, 3.0]


async def test_a_function_in_which_everything_depends_on_its_argument_is_as_without() -> None:
    @aj.jit(prune=True)
    def f(x: anp.Array) -> anp.Array:
        return (x + 1) * 2

    assert [np.asarray(await f(anp.ones(1))).tolist() for _ in range(3)] == [[4.0]] * 3
    await f.prepare(aj.spec(4))
    assert np.asarray(await f(anp.ones(4, dtype="float32"))).tolist() == [4.0] * 4
