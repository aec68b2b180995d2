"""The replay as a coroutine: every way in which programs wait for something, on every kind of loop."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
import trio

from asyncjit.errors import KernelError, WouldBlockError
from asyncjit.replay import Replay
from tests.engine.test_streams import LOOPS, run_in
from tests.engine.world import BOTH, PATIENCE_S, READ, Held, World, double, fail, increment


def inline(world: World) -> Replay[Any]:
    """A replay that has finished when the call returns."""
    source = world.array(1.0)
    replay = world.call(world.program(None, [READ, READ], outputs=1, kernel="add"), source, source)
    assert replay.done()
    return replay


async def awaited(replay: Replay[Any]) -> Any:
    return await replay


async def in_a_task(replay: Replay[Any]) -> Any:
    return await asyncio.create_task(replay)


async def gathered(replay: Replay[Any]) -> Any:
    (result,) = await asyncio.gather(replay)
    return result


async def in_a_task_group(replay: Replay[Any]) -> Any:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(replay)
    return task.result()


async def within_a_time(replay: Replay[Any]) -> Any:
    return await asyncio.wait_for(replay, PATIENCE_S)


async def under_a_timeout(replay: Replay[Any]) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        return await replay


async def shielded(replay: Replay[Any]) -> Any:
    return await asyncio.shield(replay)


async def as_completed(replay: Replay[Any]) -> Any:
    (earliest,) = asyncio.as_completed([replay])
    return await earliest


async def in_an_anyio_group(replay: Replay[Any]) -> Any:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: replay)
    return await replay


async def in_a_trio_nursery(replay: Replay[Any]) -> Any:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: replay)
    return await replay


ASYNCIO_WAYS = [
    *(awaited, in_a_task, gathered, in_a_task_group, within_a_time, under_a_timeout, shielded, as_completed),
    in_an_anyio_group,
]
if sys.version_info >= (3, 12):

    async def in_an_eager_task(replay: Replay[Any]) -> Any:
        return await asyncio.eager_task_factory(asyncio.get_running_loop(), replay)

    ASYNCIO_WAYS.append(in_an_eager_task)


@pytest.mark.parametrize("new_loop", LOOPS)
@pytest.mark.parametrize("way", ASYNCIO_WAYS)
def test_asyncio_and_anyio_take_a_replay_wherever_they_take_a_coroutine(
    world: World, way: Callable[[Replay[Any]], Any], new_loop: Callable[[], Any]
) -> None:
    async def main() -> None:
        for replay in (world.pure(), inline(world)):
            (output,) = await way(replay)
            assert world.read(output) == [2.0] * 4
        with pytest.raises((KernelError, BaseExceptionGroup)):
            await way(world.pure(fail))

    run_in(new_loop, main)


@pytest.mark.parametrize("way", [awaited, in_an_anyio_group, in_a_trio_nursery])
def test_trio_takes_a_replay_wherever_it_takes_a_coroutine(world: World, way: Callable[[Replay[Any]], Any]) -> None:
    async def main() -> None:
        for replay in (world.pure(), inline(world)):
            (output,) = await way(replay)
            assert world.read(output) == [2.0] * 4
        with pytest.raises((KernelError, BaseExceptionGroup)):
            await way(world.pure(fail))

    trio.run(main)


def test_a_replay_is_awaited_by_many_tasks_loops_and_threads_at_once(world: World) -> None:
    held = Held(double)
    replay = world.pure(held)
    ready = threading.Barrier(5)

    async def several() -> list[Any]:
        waiting = [asyncio.create_task(awaited(replay)), asyncio.create_task(replay), asyncio.create_task(replay)]
        await asyncio.sleep(0)
        ready.wait(PATIENCE_S)
        return await asyncio.gather(*waiting)

    def blocked() -> list[Any]:
        ready.wait(PATIENCE_S)
        return [replay.wait()]

    async def in_trio() -> list[Any]:
        ready.wait(PATIENCE_S)
        return [await replay]

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(asyncio.run, several()), pool.submit(asyncio.run, several())]
        futures += [pool.submit(trio.run, in_trio), pool.submit(blocked)]
        ready.wait(PATIENCE_S)
        held.let_go()
        results = [result for future in futures for result in future.result(PATIENCE_S)]
    assert len(results) == 8
    assert all(result is results[0] for result in results)


async def test_a_replay_that_nobody_awaits_happens_all_the_same_and_nothing_warns(world: World) -> None:
    state = world.array(0.0)
    for _ in range(5):
        world.call(world.program(increment, [BOTH]), state)
    gc.collect()
    await state
    assert world.read(state) == [5.0] * 4


async def test_results_can_be_passed_on_before_they_exist(world: World) -> None:
    held = Held(double)
    first = world.pure(held)
    second = world.call(world.program(double, [READ], outputs=1), *first.result)
    assert not first.done()
    held.let_go()
    (output,) = await second
    assert world.read(output) == [4.0] * 4
    assert first.result is first.result
    assert first.ticket < second.ticket
    submitted, started, done = second.times
    assert submitted is not None
    assert started is not None
    assert done is not None
    assert submitted <= started <= done


async def test_waiting_in_a_loop_is_refused_and_awaiting_outside_of_one_too(world: World) -> None:
    held = Held(double)
    replay = world.pure(held)
    with pytest.raises(WouldBlockError, match="await it"):
        replay.wait()
    caught: list[BaseException] = []

    def outside() -> None:
        try:
            replay.send(None)
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=outside)
    thread.start()
    thread.join()
    assert "outside an event loop" in str(caught[0])
    assert replay._run.waiters == 0
    held.let_go()
    await replay


async def test_a_task_shows_what_it_runs(world: World) -> None:
    held = Held(double)
    replay = world.pure(held)
    task = asyncio.create_task(replay)
    await asyncio.sleep(0)
    assert "work" in repr(task)
    assert repr(replay) == "<Replay 1 of 'work': running>"
    assert replay.cr_suspended
    assert task.get_stack() == []
    held.let_go()
    await task
    assert not replay.cr_suspended


async def test_the_coroutine_protocol_driven_by_hand(world: World) -> None:
    held = Held(double)
    replay = world.pure(held)
    future = replay.send(None)
    assert future._asyncio_future_blocking
    with pytest.raises(LookupError, match="by hand"):
        replay.throw(LookupError("by hand"))
    with pytest.raises(LookupError, match="not begun"):
        replay.throw(LookupError("not begun"))
    with pytest.raises(LookupError, match="as of old"):
        replay.throw(LookupError, LookupError("as of old"), None)
    replay.close()
    replay.send(None)
    replay.close()
    assert not replay.done()
    held.let_go()
    await replay
    with pytest.raises(StopIteration) as stopped:
        replay.send(None)
    assert stopped.value.value is replay.result


async def test_an_error_reaches_every_waiter_and_does_not_grow(world: World) -> None:
    replay = world.pure(fail)
    lengths = set()
    for _ in range(3):
        with pytest.raises(KernelError) as caught:
            await replay
        lengths.add(len(caught.traceback))
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert any("in fail" in note for note in caught.value.__cause__.__notes__)
        assert (caught.value.kernel, caught.value.call_index) == ("user", 0)
        assert caught.value.shapes == ["float64[4]", "float64[4]"]
        assert "recorded at world.py:1" in str(caught.value)
    assert len(lengths) == 1
    assert replay._run.error is not caught.value
    assert replay._run.error.__traceback__ is None


async def test_awaiting_finished_replays_lets_other_tasks_run(world: World) -> None:
    turns = 0
    stop = False

    async def other() -> None:
        nonlocal turns
        while not stop:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    source = world.array(1.0)
    program = world.program(None, [READ, READ], outputs=1, kernel="add")
    for _ in range(200):
        await world.call(program, source, source)
    assert turns >= 2
    turns = 0
    for _ in range(200):
        (output,) = world.call(program, source, source).result
        await output
    assert turns >= 2
    stop = True
    await task


async def test_an_anyio_group_whose_tasks_are_replays_can_be_cancelled(world: World) -> None:
    held = Held(double)
    replay = world.pure(held)
    with anyio.move_on_after(0):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: replay)
            await anyio.sleep_forever()
    assert replay._run.state.value in ("running", "abandoned")
    held.let_go()
    await replay
