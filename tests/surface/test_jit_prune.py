"""``prune=True``: what depends on no argument is computed once, and again after a write to what it reads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp


def doubled_once(read: Callable[[], anp.Array]) -> tuple[Any, list[int]]:
    """A pruned function that adds twice ``read()``, and a list that grows whenever that is computed."""
    runs: list[int] = []

    @aj.kernel(writes="out")
    def counted(out: Any, src: Any) -> None:
        runs.append(1)
        np.multiply(src, 2, out=out)

    @aj.jit(prune=True)
    def f(x: anp.Array) -> anp.Array:
        table = anp.empty(3)
        counted(table, read())
        return x + table

    return f, runs


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
    await f(x)
    replays = [f(x) for _ in range(4)]
    for replay in replays:
        np.testing.assert_allclose(np.asarray(await replay), expected)
    assert len(runs) == 1
    assert "counted" not in f.explain()
    f.free_intermediates()
    np.testing.assert_allclose(np.asarray(await f(x)), expected)
    assert len(runs) == 1
    f.reset()
    np.testing.assert_allclose(np.asarray(await f(x)), expected)
    assert len(runs) == 2


async def test_what_was_computed_once_is_computed_again_after_a_write_to_what_it_reads() -> None:
    weight = anp.arange(3, dtype="float64")
    f, runs = doubled_once(lambda: weight)
    seen: list[list[float]] = []
    for _ in range(3):
        for _ in range(3):
            seen.append(np.asarray(await f(anp.zeros(3))).tolist())
        weight += 1
    assert seen == [[0.0, 2.0, 4.0]] * 3 + [[2.0, 4.0, 6.0]] * 3 + [[4.0, 6.0, 8.0]] * 3
    assert len(runs) == 3
    assert "counted" in f.explain()


async def test_a_write_to_other_bytes_of_the_same_buffer_lets_it_stand() -> None:
    rows = anp.zeros((2, 3))
    f, runs = doubled_once(lambda: rows[0])
    await f(anp.zeros(3))
    rows[1] = 5.0
    assert np.asarray(await f(anp.zeros(3))).tolist() == [0.0, 0.0, 0.0]
    assert len(runs) == 1
    rows[:, 1] = 7.0
    assert np.asarray(await f(anp.zeros(3))).tolist() == [0.0, 14.0, 0.0]
    assert len(runs) == 2


async def test_whoever_writes_it_is_noticed() -> None:
    weight = anp.zeros(3)
    f, runs = doubled_once(lambda: weight)

    @aj.jit
    def step(target: anp.Array, gain: float) -> None:
        target += gain

    @aj.jit
    def step_state(gain: float) -> None:
        weight[...] = weight + gain

    writers: list[Callable[[], object]] = [
        lambda: step(weight, 1.0),
        lambda: step_state(1.0),
        lambda: aj.assign({weight: weight + 1.0}),
    ]
    for count, write in enumerate(writers * 2):
        assert np.asarray(await f(anp.zeros(3))).tolist() == [2.0 * count] * 3
        assert np.asarray(await f(anp.zeros(3))).tolist() == [2.0 * count] * 3
        assert len(runs) == count + 1
        write()


async def test_calls_between_writes_that_nobody_awaits_see_the_write_before_them() -> None:
    weight = anp.zeros(3)
    f, _ = doubled_once(lambda: weight)
    await f(anp.zeros(3))
    replays = []
    for _ in range(8):
        replays += [f(anp.zeros(3)), f(anp.ones(3))]
        weight += 1
    for index, replay in enumerate(replays):
        assert np.asarray(await replay).tolist() == [2.0 * (index // 2) + index % 2] * 3


async def test_a_write_that_is_still_being_recorded_is_not_missed() -> None:
    """Its ticket is older than the call's, and nobody can tell yet what it will write."""
    weight = anp.zeros(3)
    f, _ = doubled_once(lambda: weight)
    await f(anp.zeros(3))
    recording, go_on = threading.Event(), threading.Event()

    @aj.jit
    def write(value: anp.Array) -> None:
        recording.set()
        assert go_on.wait(10)
        weight[...] = value

    value = anp.ones(3)
    ticket: list[Any] = []
    first = threading.Thread(target=lambda: ticket.append(write(value)))
    first.start()
    await anyio.to_thread.run_sync(recording.wait, 10)
    # Stands behind the one that records, and so gives it its ticket.
    second = write(value)
    read = f(anp.zeros(3))
    go_on.set()
    await second
    assert np.asarray(await read).tolist() == [2.0, 2.0, 2.0]
    assert np.asarray(await f(anp.zeros(3))).tolist() == [2.0, 2.0, 2.0]
    first.join()
    assert ticket[0].ticket < second.ticket < read.ticket


async def test_a_failure_of_what_follows_does_not_touch_what_was_computed_once() -> None:
    scale = anp.ones(2)

    @aj.kernel(writes="out")
    def careful(out: Any, src: Any) -> None:
        if src[0] < 0:
            raise OSError("negative")
        out[...] = src

    @aj.jit(prune=True)
    def f(x: anp.Array) -> anp.Array:
        checked = anp.empty(2)
        careful(checked, x)
        return checked + scale * 2

    bad, good = -anp.ones(2), anp.ones(2)
    replays = [f(bad), f(good), f(bad), f(good)]
    for index, replay in enumerate(replays):
        if index % 2:
            assert np.asarray(await replay).tolist() == [3.0, 3.0]
        else:
            with pytest.raises(aj.KernelError, match="negative"):
                await replay


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
