"""State: what replays share, and in which order they see it. Each test names the public issue it comes from."""

from __future__ import annotations

import re
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.testing import SimDevice
from tests.scenarios.world import engine_of, on_each_loop, value


@on_each_loop
async def test_an_actor_reads_weights_while_a_learner_writes_them() -> None:
    """jax-ml/jax #6772.

    Wanted: an actor and a learner as two coroutines that share weights.
    Here: every answer is that of the weights as they stood at its ticket, never of a mix of two updates.
    """
    learner_tickets: list[int] = []
    answers: list[tuple[int, float]] = []

    @aj.jit
    def learn(weights: Any) -> None:
        weights += 1

    @aj.jit
    def act(weights: Any) -> Any:
        return weights + 0

    async def learner(weights: Any) -> None:
        for _ in range(20):
            replay = learn(weights)
            learner_tickets.append(replay.ticket)
            await replay

    async def actor(weights: Any) -> None:
        for _ in range(20):
            replay = act(weights)
            answers.append((replay.ticket, value(await replay)))
            await anyio.lowlevel.checkpoint()

    async with engine_of(), anyio.create_task_group() as tasks:
        # Large enough for a worker.
        weights = anp.zeros(200_000)
        for each in (learner, actor, actor):
            tasks.start_soon(each, weights)
    assert [(ticket, float(sum(each < ticket for each in learner_tickets))) for ticket, _ in answers] == answers


def _shift(buffer: Any, x: Any) -> Any:
    buffer[:-1] = buffer[1:]
    buffer[-1:] = x
    return buffer


@pytest.mark.parametrize("seed", range(4))
async def test_a_buffer_that_is_shifted_in_place_loses_nothing(seed: int) -> None:
    """tinygrad/tinygrad #14689.

    Wanted: a captured function that shifts its buffer by one, on overlapping bytes, as it does outside a capture.
    Here: ten shifts in flight at once, in a seeded order, give what NumPy gives one after the other.
    """
    device, shift = SimDevice(seed=seed), aj.jit(_shift)
    async with engine_of(devices=[device]):
        buffer, host = anp.zeros(5), np.zeros(5)
        replays = [shift(buffer, float(number)) for number in range(1, 11)]
        device.run_until_idle()
        for number, replay in enumerate(replays, 1):
            assert np.asarray(await replay).tolist() == _shift(host, float(number)).tolist()


@pytest.mark.parametrize("seed", range(4))
async def test_an_output_that_is_fed_back_as_the_input_is_shifted_right(seed: int) -> None:
    """tinygrad/tinygrad #13364.

    Wanted: the output of one call as the input of the next, without wrong elements.
    Here: a chain of ten pending results, and every link of it right although nobody waited in between.
    """
    device = SimDevice(seed=seed)
    slide = aj.jit(lambda window, x: anp.concat([window[1:], x]))
    async with engine_of(devices=[device]):
        window: Any = anp.asarray(np.zeros(5))
        replays = []
        for number in range(1, 11):
            replays.append(slide(window, np.array([float(number)])))
            window = replays[-1].result
        device.run_until_idle()
        for number, replay in enumerate(replays, 1):
            expected = [max(0.0, float(number - 4 + place)) for place in range(5)]
            assert np.asarray(await replay).tolist() == expected


def _gradient(w: Any, x: Any, np_: Any) -> Any:
    h1 = x @ w
    h2 = np_.maximum(h1, 0)
    h3 = h2 @ w
    d2 = (h3 @ w.T) * (h2 > 0)
    d1 = d2 @ w.T
    return x.T @ d1 + h2.T @ h3


@pytest.mark.parametrize("seed", range(4))
async def test_gradients_are_the_same_bits_with_and_without_planned_memory(seed: int) -> None:
    """tinygrad/tinygrad #16571.

    Wanted: a planner of memory that does not make the gradients of every replay wrong.
    Here: before planning, after it, and NumPy agree bit by bit, and the planned frame really shares bytes.
    """
    rng = np.random.default_rng(seed)
    w, x = rng.integers(-3, 4, (8, 8)).astype("float64"), rng.integers(-3, 4, (8, 8)).astype("float64")
    device, f = SimDevice(seed=seed, streams_max=1), aj.jit(lambda w, x: _gradient(w, x, anp))
    async with engine_of(devices=[device]):
        first = f(w, x)
        device.run_until_idle()
        await f.prepare(aj.spec((8, 8), "float64"), aj.spec((8, 8), "float64"))
        planned = f(w, x)
        device.run_until_idle()
        for replay in (first, planned):
            assert np.array_equal(np.asarray(await replay), _gradient(w, x, np))
    table = f.explain()
    numbers = re.search(r"(\d+) calls.*frame ([\d,]+) bytes", table, re.DOTALL)
    assert numbers is not None
    calls, frame = (int(number.replace(",", "")) for number in numbers.groups())
    assert "lowered; 2 replays" in table
    assert frame < (calls - 1) * x.nbytes / 2
