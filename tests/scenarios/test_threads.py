"""Threads: who may call, from where, and what the engine keeps to itself. Each test names its public issue."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
import trio

import asyncjit as aj
import asyncjit.numpy as anp
from tests.scenarios.world import PATIENCE_S, Update, Work, engine_of, on_each_loop, pings, until, value


@aj.jit
def add_to(total: Any, x: Any) -> Any:
    total[...] = total + x
    return total


@on_each_loop
async def test_any_thread_and_any_loop_may_call() -> None:
    """pytorch/pytorch #123177.

    Wanted: a captured model that does not fail an assertion when another thread than the capturing one calls it.
    Here: four threads, two with asyncio and two with trio, call one function; each of the 80 sums appears once.
    """
    sums: list[float] = []

    async with engine_of(), anyio.create_task_group() as tasks:
        total = anp.zeros(3)

        async def call_twenty() -> None:
            for _ in range(20):
                sums.append(value(await add_to(total, np.ones(3))))

        for kind in (lambda main: asyncio.run(main()), trio.run) * 2:
            tasks.start_soon(anyio.to_thread.run_sync, kind, call_twenty)
    assert sorted(sums) == [float(number) for number in range(1, 81)]


@on_each_loop
async def test_replays_may_hop_between_the_threads_of_a_pool() -> None:
    """debpalash/VoiceStudio #343.

    Wanted: calls through ``run_in_executor`` that land on another thread each time, without silent noise.
    Here: captured on one thread, replayed on two others in turn; every result is right and nothing is captured again.
    """
    scale = aj.jit(lambda x, by: anp.tanh(x) * by)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        async with engine_of():
            for number in range(12):
                host = np.full(4, number / 10)
                call = contextvars.copy_context().run
                future = (one, two)[number % 2].submit(call, scale.run, host, float(number))
                got = await anyio.to_thread.run_sync(future.result)
                assert np.asarray(got).tolist() == (np.tanh(host) * float(number)).tolist()
    assert scale.statistics().captures_made == 1


@on_each_loop
async def test_kernels_that_hold_the_interpreter_and_callers_in_threads_do_not_lock_each_other_out() -> None:
    """NVIDIA/numba-cuda #317, NVIDIA/TensorRT-LLM #15855.

    Wanted: no deadlock between a completion that needs the interpreter and a thread that holds it inside the driver.
    Here: no user code runs where completion is reported; loops of Python on the workers and calls from threads all end.
    """

    def hold_the_interpreter() -> None:
        sum(number * number for number in range(2_000))

    work = Work(inside=hold_the_interpreter)

    def call_ten() -> list[float]:
        return [value(work.f.run(np.full(2, float(number)))) for number in range(10)]

    got: list[list[float]] = []

    async def in_a_thread() -> None:
        got.append(await anyio.to_thread.run_sync(call_ten))

    async with engine_of(work), anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(in_a_thread)
        for number in range(10):
            assert value(await work.f(np.full(2, float(number)))) == 2.0 * number
    assert got == [[2.0 * number for number in range(10)]] * 3


@on_each_loop
async def test_two_calls_of_one_function_are_inside_its_kernel_at_the_same_time() -> None:
    """microsoft/onnxruntime #18509 and PR #19301.

    Wanted: concurrent runs of one captured graph that are right without a lock that lets in one at a time.
    Here: each kernel waits for another one to be inside as well, and both get there; each has its own frame.
    """
    both = threading.Barrier(2)
    work = Work(inside=lambda: both.wait(PATIENCE_S))
    async with engine_of(work):
        replays = [work.f(np.full(2, float(number))) for number in range(4)]
        assert [value(await replay) for replay in replays] == [0.0, 2.0, 4.0, 6.0]


@on_each_loop
async def test_order_is_that_of_the_calls_whichever_threads_they_come_from() -> None:
    """ml-explore/mlx #2067 and #3408, Blaizzy/mlx-vlm #1049.

    Wanted: two pieces of work that were submitted one after the other are computed one after the other.
    Here: calls from two threads in turn, behind one that is held, change state in exactly that order.
    """

    @aj.jit
    def push(state: Any, digit: float) -> None:
        state[...] = state * 10 + digit

    update = Update(held=True)
    async with engine_of(update):
        state = anp.zeros(2)
        update.f(state)
        with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
            for number in range(1, 9):
                call = contextvars.copy_context().run
                (one, two)[number % 2].submit(call, push, state, float(number)).result(PATIENCE_S)
        update.let_go()
        assert value(await state) == 112345678.0


@on_each_loop
async def test_a_function_is_captured_while_others_are_called_on_other_threads() -> None:
    """NVIDIA/warp #1410 and #1827, pytorch/pytorch PR #176754.

    Wanted: a capture in one task that neither breaks on nor picks up what others launch meanwhile.
    Here: during the capture another thread replays and computes eagerly, and a third replay is in flight.
    """
    work = Work(held=True)
    double = aj.jit(lambda x: x * 2)
    seen: list[float] = []

    def bystander() -> None:
        seen.append(value(double.run(np.ones(2))))
        seen.append(value(anp.ones(2) + 4.0))

    async with engine_of(work):
        running = work.f(np.ones(2))
        await until(work.entered)
        outside = contextvars.copy_context()
        with ThreadPoolExecutor(1) as pool:

            @aj.jit
            def capture_me(x: Any) -> Any:
                y = x + 1
                pool.submit(outside.run, bystander).result(PATIENCE_S)
                return y * 3

            assert value(await capture_me(np.ones(2))) == 6.0
        assert seen == [2.0, 5.0]
        assert " 2 calls, " in capture_me.explain()
        assert not running.done()
        work.let_go()
        assert value(await running) == 2.0


@on_each_loop
async def test_callers_that_wait_cost_no_thread_each() -> None:
    """iapp-technology/openthai-systemone #1.

    Wanted: an endpoint that does not collapse when forty pool threads fight for one device.
    Here: sixty-four callers wait in their tasks; the number of threads is that of one caller.
    """
    work = Work(held=True)
    async with engine_of(work), anyio.create_task_group() as tasks:
        running = work.f(np.ones(2))
        await until(work.entered)
        async with anyio.create_task_group() as callers:
            before = threading.active_count()
            for number in range(64):
                callers.start_soon(work.f, np.full(2, float(number)))
            await pings(20)
            assert threading.active_count() <= before + 1
            work.let_go()
        tasks.start_soon(lambda: running)
    assert len(work.log) == 65


@on_each_loop
async def test_the_shared_pool_of_threads_is_not_used_up_by_calls() -> None:
    """Kludex/starlette #1724, fastapi/fastapi #4221, agronholm/anyio #447.

    Wanted: model calls that do not eat the forty tokens that files, databases and plain routes share.
    Here: with the one token that is left taken, calls, batched calls and large inputs still come back.
    """
    double = aj.jit(lambda x: x * 2)
    async with engine_of():
        limiter = anyio.to_thread.current_default_thread_limiter()
        tokens, limiter.total_tokens = limiter.total_tokens, 1
        async with limiter:
            assert limiter.available_tokens == 0
            work = Work()
            assert value(await work.f(np.ones(2))) == 2.0
            assert value(await double.batched(4, 0.0)(np.ones((1, 2)))) == 2.0
            assert value(await double(np.ones(1 << 18))) == 2.0
        limiter.total_tokens = tokens


@on_each_loop
async def test_as_many_kernels_run_at_a_time_as_there_are_workers_and_no_more() -> None:
    """dask/dask #4040.

    Wanted: to know how much concurrency is right when many threads submit work.
    Here: the device has a fixed number of workers; sixteen calls that may all run are never more than two at a time.
    """
    inside, peaks, both, lock = 0, list[int](), threading.Barrier(2), threading.Lock()

    def count() -> None:
        nonlocal inside
        with lock:
            inside += 1
            peaks.append(inside)
        both.wait(PATIENCE_S)
        with lock:
            inside -= 1
        both.wait(PATIENCE_S)

    work = Work(inside=count, in_flight_max=16)
    async with engine_of(work):
        replays = [work.f(np.full(2, float(number))) for number in range(16)]
        assert [value(await replay) for replay in replays] == [2.0 * number for number in range(16)]
    assert max(peaks) == 2
    assert len(set(work.threads)) == 2
