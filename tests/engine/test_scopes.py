"""Cancelling by scopes, timeouts, closed coroutines and Ctrl-C."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.testing

from tests.engine.world import (
    BOTH,
    PATIENCE_S,
    Held,
    Queue,
    World,
    double,
    increment,
    state_of,
)


async def test_a_timeout_is_one_and_a_shield_keeps_it_from_the_work(queue: Queue) -> None:
    dropped = queue.call(double, queue.world.array(1.0), outputs=1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(dropped, 0)
    assert state_of(dropped) == "dropped"
    dropped = queue.call(double, queue.world.array(1.0), outputs=1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await dropped
    assert state_of(dropped) == "dropped"
    kept = queue.call(double, queue.world.array(1.0), outputs=1)
    shield = asyncio.shield(kept)
    await asyncio.sleep(0)
    shield.cancel()
    assert state_of(kept) == "queued"
    await queue.finish()
    await kept


async def test_a_timeout_around_shielded_work_is_delivered_as_one(world: World) -> None:
    state, held = world.array(1.0), Held(increment)
    replay = world.call(world.program(held, [BOTH]), state)
    held.wait_until_entered()
    asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(held.let_go))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await replay
    assert state_of(replay) == "done"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_scope_of_anyio_obeys_the_same_rules(queue: Queue, backend: str) -> None:
    world, held = queue.world, Held(increment)
    state = world.array(1.0)
    running = world.call(world.program(held, [BOTH]), state)
    queued = queue.call(double, world.array(1.0), outputs=1)
    held.wait_until_entered()

    async def main() -> None:
        with anyio.move_on_after(0) as scope:
            await queued
        assert scope.cancelled_caught
        assert state_of(queued) == "dropped"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: running)
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
            assert state_of(running) == "running"
            held.let_go()
        assert state_of(running) == "done"
        queue.held.let_go()
        await state
        assert world.read(state) == [2.0] * 4

    anyio.run(main, backend=backend)


def test_a_trio_nursery_that_is_cancelled_drops_what_it_waits_for(queue: Queue) -> None:
    queued = queue.call(double, queue.world.array(1.0), outputs=1)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: queued)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert state_of(queued) == "dropped"
    queue.held.let_go()


async def test_a_coroutine_that_is_closed_drops_its_wait_with_the_next_thing_that_happens(queue: Queue) -> None:
    replay = queue.call(double, queue.world.array(1.0), outputs=1)

    async def wait() -> None:
        await replay

    coroutine = wait()
    coroutine.send(None)
    # As the garbage collector would, in the middle of a step: it must not wait for the lock.
    with queue.world.engine._lock:
        coroutine.close()
    assert state_of(replay) == "dropped"
    closed = queue.call(double, queue.world.array(1.0), outputs=1)
    closed.send(None)
    closed.close()
    assert state_of(closed) == "dropped"
    await queue.finish()


def test_work_of_a_loop_that_has_closed_goes_on(world: World) -> None:
    held, state = Held(increment), world.array(1.0)
    replays = []

    async def main() -> None:
        replays.append(world.call(world.program(held, [BOTH]), state))
        task = asyncio.get_running_loop().create_task(replays[0])
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    gc.collect()
    held.let_go()
    replays[0].wait()
    assert world.read(state) == [2.0] * 4


def test_ctrl_c_interrupts_a_blocking_wait_and_not_the_work(world: World) -> None:
    held, state = Held(increment), world.array(1.0)
    replay = world.call(world.program(held, [BOTH]), state)
    held.wait_until_entered()
    main, interrupted = threading.get_ident(), threading.Event()
    assert threading.current_thread() is threading.main_thread()

    def on_signal(number: int, frame: object) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    def press() -> None:
        while not replay.settled._callbacks:
            pass
        # Python loses a signal that comes just before the thread blocks: whoever presses the keys presses them again.
        while not interrupted.wait(0.01):
            signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, on_signal)
    thread = threading.Thread(target=press)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            replay.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    thread.join(PATIENCE_S)
    assert state_of(replay) == "running"
    held.let_go()
    replay.wait()
    assert world.read(state) == [2.0] * 4
