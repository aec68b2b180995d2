"""``prefetch``: in which order items come, how far ahead they are read, who gets them."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pytest
from anyio import wait_all_tasks_blocked

import asyncjit as aj
from tests.surface.prefetching import PATIENCE_S, RUNS, Run, read_all, until, wait


def double(item: np.ndarray) -> np.ndarray:
    return item * 2


async def double_async(item: np.ndarray) -> np.ndarray:
    await anyio.lowlevel.checkpoint()
    return item * 2


@pytest.mark.parametrize(("concurrency", "buffer"), [(1, 0), (1, 2), (3, 0), (2, 3)])
@pytest.mark.parametrize("transform", [None, double, double_async])
def test_exactly_buffer_and_concurrency_items_are_read_ahead(
    run: Run, concurrency: int, buffer: int, transform: Any
) -> None:
    count, ahead_max = 12, concurrency + buffer
    began = [threading.Event() for _ in range(count)]
    asked, ahead = 0, []

    def source() -> Iterator[np.ndarray]:
        for index, event in enumerate(began):
            ahead.append(index + 1 - asked)
            event.set()
            yield np.zeros(1)

    async def main() -> None:
        nonlocal asked
        async with aj.prefetch(source(), transform, concurrency=concurrency, buffer=buffer) as batches:
            for index in range(count):
                await until(began[min(index + ahead_max, count) - 1])
                asked += 1
                await anext(batches)

    run(main)
    assert max(ahead) == ahead_max


def test_as_many_items_are_transformed_at_a_time_as_was_asked_for(run: Run) -> None:
    meeting, active, peak, lock = threading.Barrier(3), 0, 0, threading.Lock()

    def transform(item: int) -> int:
        nonlocal active, peak
        with lock:
            active += 1
            peak = max(peak, active)
        meeting.wait(PATIENCE_S)
        with lock:
            active -= 1
        return item

    async def main() -> None:
        async with aj.prefetch(range(12), transform, concurrency=3, buffer=6) as batches:
            assert await read_all(batches) == list(range(12))

    run(main)
    assert peak == 3


@pytest.mark.parametrize("transform", [None, double, double_async])
def test_no_more_batches_are_alive_than_are_read_ahead_and_one_that_is_used(run: Run, transform: Any) -> None:
    async def main() -> None:
        rows = (np.ones(1000) for _ in range(50))
        async with (
            aj.Engine(memory_bytes_max=(2 + 3 + 1) * 8000),
            aj.prefetch(rows, transform, concurrency=2, buffer=3) as batches,
        ):
            async for batch in batches:
                assert batch.shape == (1000,)
                del batch

    run(main)


class Thing:
    """Something whose end shows."""


async def pass_on(thing: Thing) -> Thing:
    return thing


@pytest.mark.parametrize("transform", [None, lambda thing: thing, pass_on])
def test_producers_that_wait_keep_no_item(run: Run, transform: Any) -> None:
    go = threading.Event()

    def source() -> Iterator[Thing]:
        yield Thing()
        wait(go)

    async def main() -> None:
        async with aj.prefetch(source(), transform) as batches:
            alive = weakref.ref(await anext(batches))
            while alive() is not None:
                await anyio.lowlevel.checkpoint()
            go.set()

    try:
        run(main)
    finally:
        go.set()


@pytest.mark.parametrize("ordered", [True, False])
def test_items_come_in_the_order_of_the_source_or_as_they_are_ready(run: Run, ordered: bool) -> None:
    others = threading.Event()

    def transform(item: int) -> int:
        if item == 0:
            wait(others)
        elif item == 3:
            others.set()
        return item

    async def main() -> None:
        async with aj.prefetch(range(4), transform, concurrency=2, ordered=ordered) as batches:
            assert await read_all(batches) == ([0, 1, 2, 3] if ordered else [1, 2, 3, 0])

    run(main)


async def test_without_order_a_slow_item_holds_up_nobody() -> None:
    delivered = threading.Event()

    def transform(item: int) -> int:
        if item == 0:
            wait(delivered)
        return item

    async with aj.prefetch(range(20), transform, concurrency=2, ordered=False) as batches:
        assert [await anext(batches) for _ in range(19)] == list(range(1, 20))
        delivered.set()
        assert await read_all(batches) == [0]


def test_several_tasks_share_the_items_each_going_to_exactly_one(run: Run) -> None:
    got: list[int] = []

    async def main() -> None:
        async def consume() -> None:
            async for item in batches:
                got.append(item)
                await anyio.lowlevel.checkpoint()

        async with aj.prefetch(range(200), lambda item: item, concurrency=3) as batches:
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(consume)
            with pytest.raises(StopAsyncIteration):
                await anext(batches)

    run(main)
    assert sorted(got) == list(range(200))


def test_a_consumer_of_another_loop_in_another_thread_gets_items_too(run: Run) -> None:
    async def main() -> None:
        async with aj.prefetch(range(50), double_async, concurrency=2) as batches:

            async def consume() -> list[Any]:
                return await read_all(batches)

            got = await anyio.to_thread.run_sync(RUNS["asyncio"], consume)
        assert got == [2 * k for k in range(50)]

    run(main)


def test_the_loop_turns_between_items_that_are_ready(run: Run) -> None:
    async def main() -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await anyio.lowlevel.checkpoint()

        async with aj.prefetch(range(50), buffer=50) as batches, anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            await read_all(batches)
            tasks.cancel_scope.cancel()
        assert turns >= 25

    run(main)


async def test_statistics_count_items_and_share_the_time_between_those_who_waited() -> None:
    asking = threading.Event()

    def transform(item: int) -> int:
        if item == 0:
            wait(asking)
        return item

    async with aj.prefetch(range(3), transform, buffer=0) as batches:
        before = batches.statistics()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(batches.__anext__)
            await wait_all_tasks_blocked()
            asking.set()
        first = batches.statistics()
        await read_all(batches)
        after = batches.statistics()
    assert (before.items, before.wait_s) == (0, 0.0)
    assert (first.items, after.items) == (1, 3)
    assert 0 < first.wait_s <= after.wait_s
    assert 0 < first.produce_s < after.produce_s
    assert after.hidden == max(0.0, 1 - after.wait_s / after.produce_s) < 1
    assert after.blocked_s > 0
    assert batches.statistics() == after
    with pytest.raises(dataclasses.FrozenInstanceError):
        after.items = 7  # type: ignore[misc]
