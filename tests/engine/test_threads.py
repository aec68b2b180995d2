"""Many threads, many loops, one engine: tickets, first calls, and completions that come in the middle of something."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import numpy as np
import pytest

from asyncjit.devices.cpu import CpuDevice
from asyncjit.devices.sim import SimDevice
from asyncjit.engine import Group
from asyncjit.errors import DependencyError, EngineBusyError, WouldBlockError
from asyncjit.guard import Backlog, Guard
from asyncjit.replay import Replay
from tests.engine.world import BOTH, PATIENCE_S, READ, Held, World, double, fail, increment


def test_calls_from_many_threads_take_tickets_one_by_one_and_none_is_lost(world: World) -> None:
    state = world.array(0.0)
    program = world.program(increment, [BOTH])
    start = threading.Barrier(4)

    def call() -> list[int]:
        start.wait(PATIENCE_S)
        return [world.call(program, state).ticket for _ in range(100)]

    with ThreadPoolExecutor(4) as pool:
        tickets = [future.result() for future in [pool.submit(call) for _ in range(4)]]
    assert all(mine == sorted(mine) for mine in tickets)
    assert sorted(ticket for mine in tickets for ticket in mine) == list(range(1, 401))
    assert world.read(state) == [400.0] * 4


def test_two_loops_in_two_threads_share_an_engine_and_its_state(world: World) -> None:
    state = world.array(0.0)
    program = world.program(increment, [BOTH])

    async def client() -> None:
        for _ in range(50):
            await asyncio.gather(world.call(program, state), world.call(program, state))

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(asyncio.run, client()), pool.submit(anyio.run, client_of(world, program, state))]
        for future in futures:
            future.result(PATIENCE_S)
    assert world.read(state) == [150.0] * 4


def client_of(world: World, program: Any, state: Any) -> Callable[[], Any]:
    async def client() -> None:
        for _ in range(50):
            await world.call(program, state)

    return client


def test_asyncio_run_again_and_again_on_one_engine(world: World) -> None:
    state = world.array(0.0)
    program = world.program(increment, [BOTH])

    async def once() -> None:
        await world.call(program, state)

    for _ in range(20):
        asyncio.run(once())
    assert world.read(state) == [20.0] * 4


def test_a_completion_that_comes_while_the_lock_is_held_is_seen_to_at_its_release(world: World) -> None:
    def finish_under_the_lock() -> Replay[Any]:
        """The worker leaves word and does not wait for the lock."""
        held = Held(double)
        replay = world.pure(held)
        held.wait_until_entered()
        world.engine._lock.acquire()
        held.let_go()
        while not world.engine._inbox:
            pass
        return replay

    replay = finish_under_the_lock()
    world.engine._lock.release()
    # Whoever takes the lock next, for whatever, looks at the inbox.
    assert not replay.done()
    world.engine.export(world.array(1.0))
    assert replay.done()
    replay = finish_under_the_lock()
    world.engine._lock.release()
    world.call(world.program(increment, [BOTH]), world.array(0.0))
    assert replay.done()
    # And so does whoever held it for something else.
    held = Held(double)
    replay = world.pure(held)
    held.wait_until_entered()
    with world.engine._lock:
        held.let_go()
        while not world.engine._inbox:
            pass
    assert replay.done()


def test_a_guard_looks_again_after_every_release() -> None:
    seen: list[str] = []
    guard = Guard(lambda: seen.append("before"), lambda: seen.append("after"))
    with pytest.raises(ValueError, match="on purpose"), guard:
        raise ValueError("on purpose")
    assert seen == ["before", "after"]
    assert guard.acquire(False)
    assert not guard.acquire(False)
    guard.release()


def test_a_backlog_is_worked_off_in_order_by_one_at_a_time_also_from_within() -> None:
    backlog, done = Backlog(), []

    def first() -> None:
        backlog.put(lambda: done.append(2))
        backlog.work_off()
        done.append(1)

    backlog.put(first)
    assert backlog
    backlog.work_off()
    assert done == [1, 2]
    assert not backlog.jobs


class Function:
    """Stands for a jitted function: looks for its capture, else makes it, as a surface does."""

    def __init__(self, world: World, failures: int = 0) -> None:
        self.world = world
        self.group = Group("function", in_flight_max=None)
        self.captured: Any = None
        self.captures = 0
        self.entered = threading.Event()
        self.proceed = threading.Event()
        self._failures = failures

    def __call__(self, state: Any) -> Replay[Any]:
        def prepare() -> Any:
            if self.captured is None:
                self.entered.set()
                assert self.proceed.wait(PATIENCE_S)
                self.captures += 1
                if self.captures <= self._failures:
                    raise ValueError(f"capture {self.captures} fails on purpose")
                self.captured = self.world.program(increment, [BOTH])
            return self.captured, [(state, 0)], list

        return self.world.engine.submit_first(self.group, "signature", prepare)


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_first_calls_from_several_threads_capture_once_in_arrival_order(world: World, failures: int) -> None:
    function, state = Function(world, failures), world.array(0.0)
    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(function, state)
        assert function.entered.wait(PATIENCE_S)
        followers = [function(state) for _ in range(4)]
        later = world.call(world.program(double, [READ], outputs=1), state)
        assert [replay.ticket for replay in followers] == [2, 3, 4, 5]
        assert later.ticket == 6
        assert world.engine.statistics().queued == 5
        function.proceed.set()
        outcomes = []
        for wait in [lambda: leader.result().wait(), *(replay.wait for replay in followers)]:
            try:
                wait()
                outcomes.append("done")
            except ValueError as error:
                outcomes.append(str(error))
    expected = [f"capture {number} fails on purpose" for number in range(1, failures + 1)]
    assert outcomes == expected + ["done"] * (5 - failures)
    assert function.captures == failures + 1
    (doubled,) = later.wait()
    assert world.read(doubled) == [2.0 * (5 - failures)] * 4
    assert world.read(state) == [5.0 - failures] * 4


def test_a_first_call_beyond_a_limit_is_refused_and_leaves_no_trace(make_world: Callable[..., World]) -> None:
    world = make_world(replays_queued_max=1, memory_bytes_max=96)
    function, state = Function(world), world.array(0.0)
    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(function, state)
        assert function.entered.wait(PATIENCE_S)
        waiting = function(state)
        with pytest.raises(EngineBusyError, match="replays_queued_max=1"):
            function(state)
        function.proceed.set()
        leader.result().wait()
    waiting.wait()
    assert world.read(state) == [2.0] * 4
    large = world.program(lambda *arrays: None, [READ], outputs=3)
    with pytest.raises(EngineBusyError, match="memory_bytes_max=96"):
        world.engine.submit_first(world.group, "large", lambda: (large, [(state, 0)], list))
    assert world.engine.statistics().queued == 0


async def test_a_call_that_awaits_its_capture_has_no_result_yet_and_can_be_cancelled(world: World) -> None:
    function, state = Function(world), world.array(0.0)
    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(function, state)
        assert await asyncio.to_thread(function.entered.wait, PATIENCE_S)
        waiting, dropped, kept = function(state), function(state), function(state)
        with pytest.raises(WouldBlockError, match="capturing"):
            _ = waiting.result
        task = asyncio.create_task(dropped)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(WouldBlockError, match="recorded"):
            state.engine.read_state(state, 0, 32, lambda: world.view(state))
        function.proceed.set()
        await asyncio.to_thread(leader.result, PATIENCE_S)
    await asyncio.gather(waiting, kept)
    await state
    assert world.read(state) == [3.0] * 4
    assert waiting.result == []


def test_a_capture_that_is_cancelled_meanwhile_is_removed_and_the_next_goes_on(world: World) -> None:
    function, state = Function(world), world.array(0.0)
    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(function, state)
        assert function.entered.wait(PATIENCE_S)
        follower = function(state)
        (run,) = [run for run in world.engine._scheduler._ledger.live.values() if run.ticket == 1]
        assert run.context.cancel()
        function.proceed.set()
        with pytest.raises(Exception, match="was cancelled"):
            leader.result().wait()
    follower.wait()
    assert world.read(state) == [1.0] * 4
    assert function.captures == 1


def test_a_read_that_waits_for_its_turn_holds_back_later_writers(world: World) -> None:
    state = world.array(0.0)
    held = Held(increment)
    world.call(world.program(held, [BOTH]), state)
    state.awaited = True
    values: list[list[float]] = []
    reader = threading.Thread(target=lambda: values.append(world.read(state)))
    reader.start()
    while world.engine.statistics().tickets < 2:
        pass
    writer = world.call(world.program(increment, [BOTH]), state)
    assert writer._run.state.value == "queued"
    held.let_go()
    reader.join(PATIENCE_S)
    writer.wait()
    assert values == [[1.0] * 4]
    assert world.read(state) == [2.0] * 4


def test_a_read_that_waits_for_a_writer_that_fails_fails_too(world: World) -> None:
    state = world.array(0.0)
    held = Held(fail)
    world.call(world.program(held, [BOTH]), state)
    state.awaited = True
    with ThreadPoolExecutor(1) as pool:
        value = pool.submit(world.read, state)
        while world.engine.statistics().tickets < 2:
            pass
        held.let_go()
        assert isinstance(value.exception(PATIENCE_S), DependencyError)


def test_a_read_under_way_holds_back_work_that_its_device_has_already(make_world: Callable[..., World]) -> None:
    device = SimDevice(submits_ahead=True)
    world = make_world(device)
    state = world.array(0.0)
    program = world.program(increment, [BOTH])
    world.call(program, state)
    writers: list[Replay[Any]] = []

    def pass_the_first() -> None:
        while world.engine.statistics().tickets < 2:
            pass
        device.run_until_idle()

    def read() -> np.ndarray:
        helper.join(PATIENCE_S)
        writers.append(world.call(program, state))
        assert writers[0]._run.state.value == "running"
        device.run_until_idle()
        return np.ndarray((4,), buffer=state.memory).copy()

    helper = threading.Thread(target=pass_the_first)
    helper.start()
    assert world.engine.read_state(state, 0, 32, read).tolist() == [1.0] * 4
    device.run_until_idle()
    writers[0].wait()
    assert world.read(state) == [2.0] * 4


def test_work_that_comes_while_a_worker_wakes_gets_a_worker_of_its_own(make_world: Callable[..., World]) -> None:
    device = CpuDevice(workers=2)
    world = make_world(device)
    held, replays = Held(double), []

    class Racing:
        """The queue of the device; the second call comes when the worker has taken the first and not yet said so."""

        def __init__(self, queue: Any) -> None:
            self._queue = queue

        def get(self) -> Any:
            item = self._queue.get()
            if not replays:
                replays.append(world.pure())
            return item

        def __getattr__(self, name: str) -> Any:
            return getattr(self._queue, name)

    device._queue = Racing(device._queue)  # type: ignore[assignment]
    first = world.pure(held)
    held.wait_until_entered()
    replays[0].wait()
    held.let_go()
    first.wait()
