"""Waiting: an ``await`` in any loop, and a loop that goes on turning. Each test names its public issue."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice
from asyncjit.testing import SimDevice
from tests.scenarios.world import Work, engine_of, on_each_loop, pings, until, value


@aj.jit
def twice(x: Any) -> Any:
    return x * 2


@on_each_loop
async def test_the_same_function_is_awaited_in_a_loop_and_blocks_in_a_plain_thread() -> None:
    """jax-ml/jax #15881.

    Wanted: ``await`` a result, without making every other caller async.
    Here: a call is awaitable in any loop; ``f.run`` of the same function blocks where there is none.
    """
    half = aj.jit(lambda x: x / 2)
    async with engine_of():
        assert value(await half(np.ones(2))) == 0.5
        assert value(await anyio.to_thread.run_sync(lambda: half.run(np.full(2, 3.0)))) == 1.5
    assert half.statistics().captures_made == 1


@on_each_loop
async def test_awaiting_quick_calls_in_a_row_lets_the_loop_turn_without_being_told_to() -> None:
    """NVIDIA/cudf #4529.

    Wanted: no ``await sleep(0)`` sprinkled over the code so that the web server beside it lives.
    Here: calls that run at once on the loop's thread have a budget a turn; then their ``await`` lets the others in.
    """
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while turns < 5:
            turns += await pings(1)

    quick = aj.jit(lambda x: x * 2)
    # Whatever the machine is busy with, these calls count as quick.
    device = CpuDevice(inline_s_max=60.0)
    async with engine_of(devices=[device]) as engine, anyio.create_task_group() as tasks:
        x, calls = anp.asarray(np.ones(2)), 0
        await quick.prepare(aj.spec(2, "float64"))
        tasks.start_soon(count_turns)
        while turns < 5:
            await quick(x)
            calls += 1
            assert calls < 20_000, "the loop never turned"
        assert engine.statistics().inline == calls


@on_each_loop
async def test_a_hundred_pings_are_answered_while_one_kernel_blocks() -> None:
    """fastapi/fastapi #2148.

    Wanted: a route that does nothing stays quick while a model runs in an ``async def`` route.
    Here: the kernel runs on a worker; the loop turns a hundred times before it lets the kernel go.
    """
    work = Work(held=True)
    async with engine_of(work), anyio.create_task_group() as tasks:
        replay = work.f(np.ones(2))
        tasks.start_soon(lambda: replay)
        await until(work.entered)
        assert await pings(100) == 100
        assert not replay.done()
        work.let_go()
    assert value(replay.result) == 2.0


@on_each_loop
async def test_other_models_answer_while_one_model_blocks() -> None:
    """fastapi/fastapi #2148.

    Wanted: one call of a model does not hold up every other request.
    Here: eight calls of another function come back, in their order, before the call that is held.
    """
    work, answers = Work(held=True), list[str]()

    async def slow() -> None:
        await work.f(np.ones(2))
        answers.append("slow")

    async with engine_of(work), anyio.create_task_group() as tasks:
        tasks.start_soon(slow)
        await until(work.entered)
        for name in "abcdefgh":
            assert value(await twice(np.ones(2))) == 2.0
            answers.append(name)
        work.let_go()
    assert answers == [*"abcdefgh", "slow"]


@on_each_loop
async def test_whatever_would_block_the_loop_is_refused_and_says_what_to_write() -> None:
    """kserve/kserve #5019.

    Wanted: no model server that freezes because somebody wrote a blocking ``predict()``, which happens a lot.
    Here: ``f.run`` in a loop, and reading an array that is not there yet, raise WouldBlockError and name the ``await``.
    """
    work = Work(held=True)
    async with engine_of(work):
        replay = work.f(np.ones(2))
        with pytest.raises(aj.WouldBlockError, match="write `await .*work"):
            work.f.run(np.ones(2))
        with pytest.raises(aj.WouldBlockError, match="await"):
            replay.wait()
        with pytest.raises(aj.WouldBlockError, match="await"):
            np.asarray(replay.result)
        work.let_go()
        assert value(await replay) == 2.0


@on_each_loop
async def test_who_watches_completions_is_told_which_replay_has_ended() -> None:
    """numba/numba #5745 and PR #7453.

    Wanted: ``await`` the end of asynchronous work, and learn which piece of work it was that ended.
    Here: each replay is its own future, and an instrument is handed that very object.
    """
    ended: list[aj.Replay[Any]] = []

    class Watch(aj.Instrument):
        def replay_done(self, replay: aj.Replay[Any]) -> None:
            ended.append(replay)

    device = SimDevice(duration=lambda call: 5.0 if "power" in call.name else 1.0)
    async with engine_of(devices=[device]) as engine:
        engine.instruments.add(Watch())
        x = anp.asarray(np.ones(2))
        slow, quick = aj.jit(lambda x: x**3)(x), twice(x)
        while not quick.done():
            assert device.step()
        assert not slow.done()
        device.run_until_idle()
        assert (value(await slow), value(await quick)) == (1.0, 2.0)
        assert [replay.ticket for replay in ended[-2:]] == [quick.ticket, slow.ticket]
        assert (ended[-2], ended[-1]) == (quick, slow)


@on_each_loop
async def test_plain_routes_on_threads_and_async_routes_share_one_function() -> None:
    """fastapi/fastapi #1679.

    Wanted: to know whether routes that serve a model have to be ``def`` or ``async def``.
    Here: either; both share the capture, the engine and the order of calls.
    """
    seen: list[float] = []

    @aj.jit
    def count(total: Any, x: Any) -> Any:
        total[...] = total + x
        return total

    async def as_async() -> None:
        seen.append(value(await count(total, np.ones(2))))

    async def as_plain() -> None:
        seen.append(value(await anyio.to_thread.run_sync(lambda: count.run(total, np.ones(2)))))

    async with engine_of(), anyio.create_task_group() as tasks:
        total = anp.zeros(2)
        for route in (as_async, as_plain) * 8:
            tasks.start_soon(route)
    assert sorted(seen) == [float(number) for number in range(1, 17)]
    assert count.statistics().captures_made == 1


async def test_a_call_is_a_coroutine_for_whatever_takes_one() -> None:
    """microsoft/onnxruntime #12768.

    Wanted: ``run`` as a coroutine, with the interpreter free while it computes.
    Here: the call returns a coroutine object that is on its way already: tasks, groups, timeouts and gather take it.
    """
    async with engine_of():
        calls = [twice(np.full(2, float(number))) for number in range(4)]
        assert all(asyncio.iscoroutine(call) for call in calls)
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(calls[1])
        bounded = await asyncio.wait_for(calls[2], 20.0)
        (gathered,) = await asyncio.gather(calls[3])
        assert [value(y) for y in (await calls[0], task.result(), bounded, gathered)] == [0.0, 2.0, 4.0, 6.0]


@on_each_loop
async def test_a_completion_after_its_loop_has_closed_is_dropped_quietly() -> None:
    """microsoft/onnxruntime #24200.

    Wanted: a completion that meets a closed loop must not take the process down without a word.
    Here: nobody is left to be woken, so nobody is; the work counts, and another loop still gets its result.
    """
    work, replays = Work(held=True), list[aj.Replay[Any]]()

    def with_a_loop_of_its_own() -> None:
        async def begin() -> None:
            replays.append(work.f(np.ones(2)))
            task = asyncio.get_running_loop().create_task(replays[0])
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            await pings(2)

        loop = asyncio.new_event_loop()
        loop.run_until_complete(begin())
        loop.close()

    async with engine_of(work):
        await anyio.to_thread.run_sync(with_a_loop_of_its_own)
        work.let_go()
        assert value(await replays[0]) == 2.0
