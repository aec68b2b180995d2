"""Cancelling: a wait, a replay, and what happens to the work by where it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from asyncjit.devices.cpu import CpuDevice
from asyncjit.devices.sim import CallFault, SimDevice
from asyncjit.engine import Group
from asyncjit.errors import DependencyError, ReplayCancelledError
from asyncjit.replay import Replay
from tests.engine.world import (
    BOTH,
    READ,
    WRITE,
    Held,
    Queue,
    World,
    assign,
    double,
    fail,
    increment,
    state_of,
)


async def cancelled_wait(replay: Replay[Any]) -> None:
    """Wait for it in a task and cancel that, as a client that goes away does."""
    task = asyncio.create_task(replay)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_queued_replay_that_nobody_else_wants_is_removed_as_if_never_called(queue: Queue) -> None:
    state = queue.world.array(1.0)
    unwanted = queue.call(increment, state)
    wanted = queue.call(increment, state)
    await cancelled_wait(unwanted)
    assert state_of(unwanted) == "dropped"
    await queue.finish()
    await wanted
    await state
    assert queue.world.read(state) == [2.0] * 4
    with pytest.raises(ReplayCancelledError, match="call the function again"):
        await unwanted
    assert queue.world.engine.statistics().cancelled == 1


async def test_cancelled_before_its_task_has_run_once_counts_as_a_cancelled_wait(queue: Queue) -> None:
    replay = queue.call(double, queue.world.array(1.0), outputs=1)
    task = asyncio.create_task(replay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert state_of(replay) == "dropped"
    finished = queue.world.pure()
    await finished
    late = asyncio.create_task(finished)
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    await queue.finish()


async def test_a_queued_replay_stays_for_another_waiter(queue: Queue) -> None:
    replay = queue.call(double, queue.world.array(1.0), outputs=1)
    other = asyncio.create_task(replay)
    await asyncio.sleep(0)
    await cancelled_wait(replay)
    assert state_of(replay) == "queued"
    await queue.finish()
    (output,) = await other
    assert queue.world.read(output) == [2.0] * 4


async def test_a_queued_replay_stays_while_somebody_holds_its_outputs(queue: Queue) -> None:
    replay = queue.call(double, queue.world.array(1.0), outputs=1)
    (output,) = replay.result
    await cancelled_wait(replay)
    await queue.finish()
    await output
    assert queue.world.read(output) == [2.0] * 4


async def test_giving_up_on_an_array_does_not_cancel_who_writes_it(queue: Queue) -> None:
    state = queue.world.array(1.0)
    replay = queue.call(increment, state)

    async def wait() -> None:
        await state

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert state_of(replay) == "queued"
    assert replay._run.waiters == 0
    await queue.finish()
    await state
    assert queue.world.read(state) == [2.0] * 4


async def test_a_replay_that_is_cancelled_goes_whoever_waits_and_its_readers_fail(queue: Queue) -> None:
    replay = queue.call(double, queue.world.array(1.0), outputs=1)
    reader = queue.world.call(queue.world.program(double, [READ], outputs=1), *replay.result)
    waiting = asyncio.create_task(replay)
    await asyncio.sleep(0)
    assert replay.cancel()
    assert replay.cancel()
    with pytest.raises(ReplayCancelledError):
        await waiting
    with pytest.raises(DependencyError) as caught:
        await reader
    assert isinstance(caught.value.__cause__, ReplayCancelledError)
    with pytest.raises(DependencyError):
        await replay.result[0]
    with pytest.raises(DependencyError):
        await reader.result[0]
    await queue.finish()


async def test_running_pure_work_lets_its_waiter_go_at_once_and_keeps_its_memory_until_passed(world: World) -> None:
    held = Held(double)
    replay = world.pure(held)
    held.wait_until_entered()
    await cancelled_wait(replay)
    assert state_of(replay) == "abandoned"
    assert replay.submission is not None
    # Whoever comes back finds it as it was.
    back = asyncio.create_task(replay)
    await asyncio.sleep(0)
    assert state_of(replay) == "running"
    held.let_go()
    (output,) = await back
    assert world.read(output) == [2.0] * 4


async def test_running_work_that_writes_state_is_finished_before_the_cancellation_is_delivered(world: World) -> None:
    state, held = world.array(1.0), Held(increment)
    replay = world.call(world.program(held, [BOTH]), state)
    held.wait_until_entered()
    task = asyncio.create_task(replay)
    await asyncio.sleep(0)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not task.done()
    held.let_go()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert state_of(replay) == "done"
    await state
    assert world.read(state) == [2.0] * 4


async def test_abandon_lets_the_waiter_of_running_stateful_work_go_at_once(world: World) -> None:
    state, held = world.array(1.0), Held(increment)
    group = Group("careless", on_cancel="abandon")
    replay = world.call(world.program(held, [BOTH]), state, group=group)
    held.wait_until_entered()
    await cancelled_wait(replay)
    assert state_of(replay) == "abandoned"
    held.let_go()
    await state
    assert world.read(state) == [2.0] * 4


async def test_a_removed_writer_leaves_state_to_the_writer_before_it_and_its_poison(queue: Queue) -> None:
    world = queue.world
    state = world.array(1.0)
    with pytest.raises(Exception, match="on purpose"):
        await world.call(world.program(fail, [BOTH]), state)
    healer = world.call(world.program(assign(7.0), [WRITE]), state, group=queue.group)
    reader = world.call(world.program(double, [READ], outputs=1), state)
    assert healer.cancel()
    with pytest.raises(DependencyError):
        await reader
    await world.call(world.program(assign(3.0), [WRITE]), state)
    await state
    assert world.read(state) == [3.0] * 4
    await queue.finish()


async def test_on_a_simulated_device_a_doomed_replay_is_passed_over(make_world: Callable[..., World]) -> None:
    loop = asyncio.get_running_loop()
    device = SimDevice(
        defer=loop.call_soon, submits_ahead=True, faults=[CallFault(0, 0, ZeroDivisionError("on purpose"))]
    )
    world = make_world(device)
    state = world.array(1.0)
    broken = world.call(world.program(increment, [BOTH]), state)
    reader = world.call(world.program(double, [READ], outputs=1), state)
    healer = world.call(world.program(assign(2.0), [WRITE]), state)
    assert state_of(reader) == "running"
    with pytest.raises(Exception, match="on purpose"):
        await broken
    with pytest.raises(DependencyError):
        await reader
    await healer
    await state
    assert world.read(state) == [2.0] * 4
    assert any(entry.kind == "segment skipped" for entry in device.trace)


async def test_one_worker_does_not_start_what_was_removed(make_world: Callable[..., World]) -> None:
    world = make_world(CpuDevice(workers=1))
    held, state = Held(increment), world.array(0.0)
    first = world.call(world.program(held, [BOTH]), state)
    second = world.call(world.program(increment, [BOTH]), state)
    third = world.call(world.program(increment, [BOTH]), state)
    assert second.cancel()
    assert not first.cancel()
    held.let_go()
    await third
    await state
    assert world.read(state) == [2.0] * 4
