"""Errors of a ``prefetch``: at the place of their item, as they were raised, and once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pytest
from anyio import wait_all_tasks_blocked

import asyncjit as aj
from tests.surface.prefetching import Run, as_async, read_all, wait


class BrokenError(Exception):
    """Raised on purpose."""


async def collect(batches: aj.Prefetch, got: list[int]) -> None:
    async for item in batches:
        got.append(item)


def broken_source(count: int) -> Iterator[int]:
    yield from range(count)
    raise BrokenError("source") from ZeroDivisionError("the cause")


def break_at(broken: int) -> Callable[[int], int]:
    def transform(item: int) -> int:
        if item == broken:
            raise BrokenError("transform") from ZeroDivisionError("the cause")
        return item

    return transform


def break_async_at(broken: int) -> Callable[[int], Any]:
    async def transform(item: int) -> int:
        await anyio.lowlevel.checkpoint()
        return break_at(broken)(item)

    return transform


@pytest.mark.parametrize(
    ("source", "transform"),
    [
        (lambda: broken_source(5), None),
        (lambda: broken_source(5), lambda item: item),
        (lambda: as_async(broken_source(5)), None),
        (lambda: as_async(broken_source(5)), break_async_at(-1)),
        (lambda: range(1000), break_at(5)),
        (lambda: range(1000), break_async_at(5)),
        (lambda: as_async(range(1000)), break_at(5)),
    ],
)
def test_an_error_comes_in_the_place_of_its_item_with_its_cause_and_ends_the_iteration(
    run: Run, source: Callable[[], Any], transform: Any
) -> None:
    async def main() -> None:
        got: list[int] = []
        async with aj.prefetch(source(), transform, concurrency=3) as batches:
            with pytest.raises(BrokenError) as caught:
                await collect(batches, got)
            assert await read_all(batches) == []
        assert got == [0, 1, 2, 3, 4]
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    run(main)


def test_items_before_a_broken_source_are_still_transformed(run: Run) -> None:
    """The source has failed before the first item is transformed."""
    failed = threading.Event()

    def source() -> Iterator[int]:
        yield from range(3)
        failed.set()
        raise BrokenError

    def transform(item: int) -> int:
        wait(failed)
        return item

    async def main() -> None:
        async with aj.prefetch(source(), transform, buffer=4) as batches:
            assert [await anext(batches) for _ in range(3)] == [0, 1, 2]
            with pytest.raises(BrokenError):
                await anext(batches)

    run(main)


async def test_without_order_an_error_comes_as_soon_as_it_is_there() -> None:
    told = threading.Event()

    def transform(item: int) -> int:
        if item == 0:
            wait(told)
        return break_at(1)(item)

    async with aj.prefetch(range(9), transform, concurrency=2, ordered=False) as batches:
        with pytest.raises(BrokenError):
            await anext(batches)
        told.set()
        assert await read_all(batches) == []


def test_everybody_who_waits_hears_of_the_end_and_one_of_the_error(run: Run) -> None:
    ends: list[str] = []
    go = threading.Event()

    def source() -> Iterator[int]:
        wait(go)
        raise BrokenError
        yield

    async def main() -> None:
        async def consume() -> None:
            try:
                await anext(batches)
            except (BrokenError, StopAsyncIteration) as error:
                ends.append(type(error).__name__)

        async with aj.prefetch(source()) as batches, anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(consume)
            await wait_all_tasks_blocked()
            go.set()

    run(main)
    assert sorted(ends) == ["BrokenError", "StopAsyncIteration", "StopAsyncIteration"]


@pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration, asyncio.CancelledError])
def test_an_error_that_would_look_like_an_end_or_a_cancellation_is_wrapped(
    run: Run, error: type[BaseException]
) -> None:
    def fail(item: int) -> int:
        raise error

    async def main() -> None:
        async with aj.prefetch([1], fail) as batches:
            with pytest.raises(
                RuntimeError, match=rf"{error.__name__} came out of transform .*fail at item 0"
            ) as caught:
                await anext(batches)
        assert isinstance(caught.value.__cause__, error)

    run(main)


async def test_a_cancellation_from_inside_of_an_async_transform_does_not_cancel_the_consumer() -> None:
    async def transform(item: int) -> int:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future
        return item

    async with aj.prefetch([1], transform) as batches:
        with pytest.raises(RuntimeError, match="CancelledError came out of transform"):
            await anext(batches)


async def test_what_a_consumer_cannot_get_from_a_thread_is_refused_there() -> None:
    async def decode(item: int) -> int:
        return item

    async with aj.prefetch([1], lambda item: decode(item)) as batches:
        with pytest.raises(TypeError, match="gave an awaitable on a thread"):
            await anext(batches)


async def test_an_engine_without_room_says_so_at_the_item() -> None:
    async with (
        aj.Engine(memory_bytes_max=100),
        aj.prefetch([np.zeros(4), np.zeros(40)], buffer=0) as batches,
    ):
        assert (await anext(batches)).shape == (4,)
        with pytest.raises(aj.EngineBusyError):
            await anext(batches)
