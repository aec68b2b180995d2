"""Cancelling and deadlines: clients that go away, at any moment. Each test names the public issue it comes from."""

from __future__ import annotations

import gc
import random
import threading
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.testing import SimDevice
from tests.scenarios.world import PATIENCE_S, Update, Work, engine_of, on_each_loop, pings, until, value
from tests.surface.batches import callers


class Client:
    """A task that awaits a call, and that may go away."""

    def __init__(self, tasks: anyio.abc.TaskGroup, call: Any) -> None:
        self.scope, self.left = anyio.CancelScope(), anyio.Event()
        self.result: Any = None
        tasks.start_soon(self._wait, call)

    async def _wait(self, call: Any) -> None:
        with self.scope:
            self.result = await call
        self.left.set()

    async def go_away(self) -> None:
        self.scope.cancel()
        await self.left.wait()


def full(number: float) -> Any:
    return np.full(2, float(number))


@on_each_loop
async def test_what_runs_is_left_behind_safely_and_what_waits_is_removed() -> None:
    """NVIDIA/TensorRT #1184.

    Wanted: to cancel an execution in a soft real-time server.
    Here: running work is not stopped, but its waiter leaves while it runs; ``cancel`` removes only what has not begun.
    """
    work = Work(held=True, in_flight_max=1)
    async with engine_of(work), anyio.create_task_group() as tasks:
        running, queued, wanted = (work.f(full(number)) for number in (1, 2, 3))
        client = Client(tasks, running)
        await until(work.entered)
        assert (running.cancel(), queued.cancel()) == (False, True)
        await client.go_away()
        assert not running.done()
        with pytest.raises(aj.ReplayCancelledError):
            await queued
        work.let_go()
        assert value(await wanted) == 6.0
    assert work.log == [1.0, 3.0]


@on_each_loop
async def test_queued_calls_of_clients_that_have_gone_are_never_computed() -> None:
    """xorbitsai/inference #5548, vllm-project/vllm PR #32439, pegainfer #642.

    Wanted: a cancelled request that still waits does not go through the model afterwards.
    Here: of ten queued calls the five of clients that left leave no trace in what the kernel has seen.
    """
    work = Work(held=True, in_flight_max=1)
    async with engine_of(work) as engine, anyio.create_task_group() as tasks:
        clients = [Client(tasks, work.f(full(number))) for number in range(11)]
        await until(work.entered)
        for client in clients[2::2]:
            await client.go_away()
        work.let_go()
        await clients[9].left.wait()
        assert engine.statistics().cancelled == 5
    assert work.log == [0.0, 1.0, 3.0, 5.0, 7.0, 9.0]


@on_each_loop
async def test_requests_of_disconnected_clients_are_not_computed() -> None:
    """Lightning-AI/LitServe #165 and #48.

    Wanted: requests of clients that have disconnected are dropped, not computed for nobody.
    Here: all clients behind the running call leave at once, as when a server closes; nothing more is computed.
    """
    work = Work(held=True, in_flight_max=1)
    async with engine_of(work), anyio.create_task_group() as tasks:
        running = work.f(full(0))
        await until(work.entered)
        for number in range(1, 20):
            tasks.start_soon(work.f, full(number))
        await pings(5)
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await pings(5)
            work.let_go()
            await running
    assert work.log == [0.0]


@on_each_loop
async def test_a_deadline_counts_the_time_in_the_queue_and_ends_the_request_there() -> None:
    """triton-inference-server/server #6920.

    Wanted: a request whose deadline has passed is not executed.
    Here: a timeout of the caller's around the call removes it from the queue, and the next one runs.
    """
    work = Work(held=True, in_flight_max=1)
    async with engine_of(work):
        running = work.f(full(1))
        await until(work.entered)
        with pytest.raises(TimeoutError), anyio.fail_after(0):
            await work.f(full(2))
        wanted = work.f(full(3))
        work.let_go()
        assert (value(await running), value(await wanted)) == (2.0, 6.0)
    assert work.log == [1.0, 3.0]


@on_each_loop
async def test_a_long_inference_ends_at_the_step_in_which_its_client_leaves() -> None:
    """pytorch/serve #2814.

    Wanted: to interrupt an inference of fifty seconds when its client goes away.
    Here: an inference of fifty calls ends after the call that was running; the step that writes state is finished.
    """
    update = Update(held=True)

    async def decode(cache: Any) -> None:
        for _ in range(50):
            await update.f(cache)

    async with engine_of(update), anyio.create_task_group() as tasks:
        cache = anp.zeros(2)
        client = Client(tasks, decode(cache))
        await until(update.entered)
        client.scope.cancel()
        await pings(5)
        assert not client.left.is_set()
        update.let_go()
        await client.left.wait()
        assert value(await cache) == 1.0
    assert update.log == [0.0]


@on_each_loop
async def test_after_a_hundred_cancelled_waits_all_room_is_there_again() -> None:
    """ray-project/ray #44644 and #52533.

    Wanted: no replica that is stuck at its limit of requests because some of them were cancelled.
    Here: with room for two, and a hundred clients gone, queued and running, two calls still run at the same time.
    """
    both = threading.Barrier(2)
    work = Work(held=True, in_flight_max=2)
    async with engine_of(work) as engine, anyio.create_task_group() as tasks:
        clients = [Client(tasks, work.f(full(number))) for number in range(100)]
        await until(work.entered)
        for client in clients:
            await client.go_away()
        work.let_go()
        while engine.statistics().in_flight:
            await pings(1)
        work._inside = lambda: both.wait(PATIENCE_S)
        replays = [work.f(full(number)) for number in (200, 201)]
        assert [value(await replay) for replay in replays] == [400.0, 402.0]
    assert len(work.log) <= 4


@on_each_loop
async def test_a_client_that_leaves_the_queue_does_not_touch_the_one_that_is_served() -> None:
    """ikawrakow/ik_llama.cpp #1929.

    Wanted: a disconnect of a request in the queue does not cancel the decoding of another client.
    Here: two clients with a row each of one cache; the queued one leaves, the other one's row is finished and right.
    """
    update = Update(held=True, in_flight_max=1)
    async with engine_of(update), anyio.create_task_group() as tasks:
        cache = anp.zeros((2, 4))
        served, queued = Client(tasks, update.f(cache[0])), Client(tasks, update.f(cache[1]))
        await until(update.entered)
        await queued.go_away()
        assert not served.left.is_set()
        update.let_go()
        await served.left.wait()
        assert np.asarray(await cache).tolist() == [[1.0] * 4, [0.0] * 4]


@pytest.mark.parametrize("on_cancel", ["shield", "abandon"])
def test_cancelled_work_that_runs_is_waited_for_or_left_and_in_either_case_whole(on_cancel: str) -> None:
    """python/cpython #107505.

    Wanted: cancelling ``run_in_executor`` should not leave a thread at work that nobody knows of.
    Here: work that writes state is finished before the cancellation is delivered, or, where asked for, behind it.
    """

    async def main() -> None:
        update = Update(held=True, on_cancel=on_cancel)
        async with engine_of(update) as engine, anyio.create_task_group() as tasks:
            state = anp.zeros(2)
            client = Client(tasks, update.f(state))
            await until(update.entered)
            client.scope.cancel()
            if on_cancel == "abandon":
                await client.left.wait()
            else:
                await pings(5)
                assert not client.left.is_set()
            assert engine.statistics().in_flight == 1
            update.let_go()
            await client.left.wait()
            assert value(await state) == 1.0

    for backend in ("asyncio", "trio"):
        anyio.run(main, backend=backend)


@pytest.mark.parametrize("seed", range(6))
async def test_a_storm_of_cancellations_frees_nothing_that_is_still_written(seed: int) -> None:
    """NVlabs/cuda-oxide #99, PR #100 and #619, NVlabs/cutile-rs #242 and #272.

    Wanted: a cancelled future does not free buffers that a kernel still writes.
    Here: sixty calls, a third of them cancelled at seeded moments, on poisoned memory: the others are right, and
    every byte comes back.
    """
    dice, device = random.Random(seed), SimDevice(seed=seed, streams_max=3)
    f = aj.jit(lambda x: (x + 1) * (x - 1) + anp.sum(x), in_flight_max=3)
    async with callers(device) as calls:
        engine = aj.current_engine()
        await f.prepare(aj.spec(2, "float64"))
        before = engine.statistics().memory_bytes
        cancelled = set()
        for number in range(60):
            await calls.started(str(number), lambda number=number: f(anp.asarray(full(number))))
            for _ in range(dice.randrange(6)):
                device.step()
            if dice.random() < 1 / 3:
                victim = str(dice.randrange(number + 1))
                cancelled.add(victim)
                calls.scopes[victim].cancel()
        await calls.finish()
        assert calls.errors == {}
        assert {str(number) for number in range(60)} - set(calls.results) <= cancelled
        for name in calls.results:
            assert calls.values(name) == [(float(name) + 1) * (float(name) - 1) + 2 * float(name)] * 2
        calls.results.clear()
        f.free_intermediates()
        gc.collect()
        assert engine.statistics().memory_bytes == before
