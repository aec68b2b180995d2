"""How a ``prefetch`` ends: cancellation, blocks that are left early, producers that hang, interrupts."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio import wait_all_tasks_blocked

import asyncjit as aj
from tests.surface.prefetching import PATIENCE_S, Run, prefetch_threads, read_all, until, wait


class BrokenError(Exception):
    """Raised on purpose."""


def test_a_cancelled_wait_loses_no_item(run: Run) -> None:
    go = threading.Event()

    def transform(item: int) -> int:
        wait(go)
        return item

    async def main() -> None:
        async with aj.prefetch(range(3), transform) as batches:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(batches.__anext__)
                    tasks.start_soon(batches.__anext__)
                    await anyio.lowlevel.checkpoint()
                    scope.cancel()
            go.set()
            assert await read_all(batches) == [0, 1, 2]

    run(main)


def test_a_wait_cancelled_in_the_moment_of_its_wake_up_wakes_another(run: Run) -> None:
    go = threading.Event()
    got: list[int] = []

    def source() -> Iterator[int]:
        wait(go)
        yield 7

    async def main() -> None:
        scopes = [anyio.CancelScope(), anyio.CancelScope()]

        async def consume(scope: anyio.CancelScope) -> None:
            with scope:
                got.append(await anext(batches))

        async with aj.prefetch(source()) as batches, anyio.create_task_group() as tasks:
            tasks.start_soon(consume, scopes[0])
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(consume, scopes[1])
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            go.set()
            # The loop does not turn between the item's arrival and the cancellation of the one that it was meant for.
            while not batches._window.is_ready:
                pass
            scopes[0].cancel()
        assert got == [7]

    run(main)


def test_leaving_early_closes_generators(run: Run) -> None:
    closed: list[str] = []

    def source() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.append("sync")

    async def source_async() -> AsyncIterator[int]:
        try:
            for index in range(1000):
                yield index
        finally:
            await anyio.lowlevel.checkpoint()
            closed.append("async")

    async def main() -> None:
        async with aj.prefetch(source()) as one, aj.prefetch(source_async()) as two:
            assert (await anext(one), await anext(two)) == (0, 0)
        with pytest.raises(BrokenError):
            async with aj.prefetch(source(), lambda item: item):
                raise BrokenError

    run(main)
    # The second source may not have been begun.
    assert closed.count("async") == 1
    assert 1 <= closed.count("sync") <= 2


def test_leaving_early_cancels_what_is_async(run: Run) -> None:
    async def main() -> None:
        started, cancelled = anyio.Event(), anyio.Event()

        async def stuck(item: int) -> int:
            started.set()
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()
            return item

        async with aj.prefetch(range(9), stuck):
            await started.wait()
        assert cancelled.is_set()

    run(main)


def test_leaving_waits_for_the_current_item_also_when_cancelled(run: Run) -> None:
    entered, let_go, ended = threading.Event(), threading.Event(), threading.Event()

    def transform(item: int) -> int:
        entered.set()
        wait(let_go)
        ended.set()
        return item

    async def main() -> None:
        with anyio.CancelScope() as scope:
            async with aj.prefetch([1], transform, close_timeout_s=PATIENCE_S):
                await until(entered)
                threading.Timer(0.05, let_go.set).start()
                scope.cancel()
        assert scope.cancelled_caught
        assert ended.is_set()

    run(main)


def test_a_task_that_is_cancelled_while_it_leaves_waits_all_the_same() -> None:
    entered, let_go = threading.Event(), threading.Event()

    def transform(item: int) -> int:
        entered.set()
        wait(let_go)
        return item

    async def leave() -> None:
        async with aj.prefetch([1], transform, close_timeout_s=PATIENCE_S):
            await until(entered)

    async def main() -> None:
        task = asyncio.create_task(leave())
        await until(entered)
        while not any(name.endswith("-close") for name in prefetch_threads()):  # noqa: ASYNC110 - a thread starts
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert prefetch_threads() == []


@pytest.mark.parametrize("who", ["source", "transform"])
def test_a_thread_that_hangs_is_left_behind_with_a_warning_that_names_it(run: Run, who: str) -> None:
    entered, let_go = threading.Event(), threading.Event()

    def hang(item: int) -> int:
        entered.set()
        wait(let_go)
        return item

    def hanging() -> Iterator[int]:
        yield hang(0)

    async def main() -> None:
        batches = aj.prefetch(hanging() if who == "source" else [1], hang, close_timeout_s=0.01)
        with pytest.warns(RuntimeWarning, match=f"{who} .*hang.* still busy 0.01 s .*asyncjit-prefetch-.* left behind"):
            async with batches:
                await until(entered)

    run(main)
    left = [thread for thread in threading.enumerate() if thread.name.startswith("asyncjit-prefetch")]
    assert len(left) == 1
    let_go.set()
    left[0].join(PATIENCE_S)


def test_a_thread_with_nothing_to_do_is_not_blamed_however_short_the_time(run: Run) -> None:
    async def main() -> None:
        async with aj.prefetch(range(100), lambda item: item, concurrency=4, close_timeout_s=0) as batches:
            await anext(batches)

    run(main)


def test_an_error_of_closing_the_source_is_raised_by_the_block_or_noted_on_its_own_error(run: Run) -> None:
    def source() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            raise BrokenError("while closing")

    async def source_async() -> AsyncIterator[int]:
        try:
            for index in range(1000):
                yield index
        finally:
            raise BrokenError("while closing")

    async def fail_inside(made: Any) -> None:
        async with aj.prefetch(made) as batches:
            await anext(batches)
            raise KeyError

    async def main() -> None:
        for make in (source, source_async):
            with pytest.raises(BrokenError, match="while closing"):
                async with aj.prefetch(make()) as batches:
                    await anext(batches)
            with pytest.raises(KeyError) as caught:
                await fail_inside(make())
            assert "while closing" in caught.value.__notes__[0]

    run(main)


def test_a_task_waiting_for_an_item_when_the_block_is_left_is_told_so(run: Run) -> None:
    go = threading.Event()
    told: list[str] = []

    def source() -> Iterator[int]:
        wait(go)
        yield 1

    async def main() -> None:
        async def consume(batches: aj.Prefetch) -> None:
            try:
                await anext(batches)
            except RuntimeError as error:
                told.append(str(error))

        async with anyio.create_task_group() as tasks, aj.prefetch(source()) as batches:
            tasks.start_soon(consume, batches)
            await wait_all_tasks_blocked()
            threading.Timer(0.02, go.set).start()

    run(main)
    assert len(told) == 1
    assert "was left" in told[0]


def test_an_interrupt_leaves_nothing(run: Run) -> None:
    async def main() -> None:
        async with aj.prefetch(iter(int, 1), lambda item: item, concurrency=2) as batches:
            async for _ in batches:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(main)


def test_a_coroutine_that_is_taken_apart_in_the_block_stops_the_threads() -> None:
    async def main() -> None:
        async with aj.prefetch(iter(int, 1)) as batches:
            await asyncio.get_running_loop().create_future()
            await anext(batches)

    loop = asyncio.new_event_loop()
    task = loop.create_task(main())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("asyncjit-prefetch")]
    assert len(threads) == 1
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    del task
    gc.collect()
    threads[0].join(PATIENCE_S)
    assert not threads[0].is_alive()
