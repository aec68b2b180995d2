"""Errors in pipelines: whose they are, where they stand, and what goes on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
from tests.surface.loops import (
    LOOPS,
    PATIENCE_S,
    Tracked,
    fails_at,
    items,
    run_in,
    through,
    value,
)


@aj.jit
def double(x: Any) -> Any:
    return x * 2


def plain_fails_at(*values: float) -> Any:
    def plain(x: Any) -> Any:
        fails_at(*values)(value(x))
        return x

    return plain


def async_fails_at(*values: float) -> Any:
    async def on_the_loop(x: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        fails_at(*values)(value(x))
        return x

    return on_the_loop


MAKERS = [lambda *values: through(fails_at(*values), "jitted"), plain_fails_at, async_fails_at]
NAMES = ["jitted", "plain", "on_the_loop"]


def causes(error: Any) -> list[type]:
    """The types of an error and of what caused it."""
    return [] if error is None else [type(error), *causes(error.__cause__)]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("which", range(3))
def test_the_first_item_that_fails_raises_in_its_place(loop: str, which: int) -> None:
    source = Tracked(items(30))
    stages = [double, *(make(4.0) if index == which else make() for index, make in enumerate(MAKERS)), double]

    async def main() -> None:
        async with aj.pipeline(*stages, in_flight=3)(source.plain()) as outputs:
            assert [value(await anext(outputs)) for _ in range(2)] == [0.0, 4.0]
            with pytest.raises((ZeroDivisionError, aj.KernelError), match=r"on purpose at 4.0") as caught:
                await anext(outputs)
            assert ZeroDivisionError in causes(caught.value)
            assert caught.value.__notes__[-1] == (f"in stage {which + 1} ({NAMES[which]!r}) of a pipeline, at item 2")
            with pytest.raises(StopAsyncIteration):
                await anext(outputs)
        statistics = outputs.statistics()
        assert (statistics.items, statistics.failed) == (3, 1)

    run_in(loop, main)
    assert source.taken <= 5
    assert source.closed == 1


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("which", range(3))
def test_errors_can_stand_in_the_place_of_outputs(loop: str, which: int) -> None:
    stages = [double, *(make(4.0, 6.0) if index == which else make() for index, make in enumerate(MAKERS)), double]

    async def main() -> None:
        async with aj.pipeline(*stages, on_error="return")(items(6)) as outputs:
            results = [each async for each in outputs]
        assert [value(results[index]) for index in (0, 1, 4, 5)] == [0.0, 4.0, 16.0, 20.0]
        for index in (2, 3):
            # The stage's own, and not one that says that a stage before it failed.
            assert causes(results[index]) in ([ZeroDivisionError], [aj.KernelError, ZeroDivisionError])
            [note] = [line for line in results[index].__notes__ if "of a pipeline" in line]
            assert note == f"in stage {which + 1} ({NAMES[which]!r}) of a pipeline, at item {index}"
        assert outputs.statistics().failed == 2

    run_in(loop, main)


@pytest.mark.parametrize("failing", range(3))
async def test_of_jitted_stages_in_a_row_the_first_that_failed_is_named(failing: int) -> None:
    names = ["first", "second", "third"]
    stages = [
        through(fails_at(1.0) if index >= failing else lambda number: None, name) for index, name in enumerate(names)
    ]
    async with aj.pipeline(*stages, on_error="return")(items(3)) as outputs:
        results = [each async for each in outputs]
    assert causes(results[1]) == [aj.KernelError, ZeroDivisionError]
    assert results[1].__notes__[-1] == f"in stage {failing} ({names[failing]!r}) of a pipeline, at item 1"
    assert [value(results[index]) for index in (0, 2)] == [0.0, 2.0]


async def test_a_stage_that_refuses_an_item_is_named_behind_one_that_took_it() -> None:
    @aj.jit(strict=True)
    def only_pairs(x: Any) -> Any:
        return x + 1

    await only_pairs(np.zeros(2))
    source = [np.zeros(2), np.zeros(3), np.zeros(2)]
    async with aj.pipeline(double, only_pairs, double, on_error="return")(source) as outputs:
        results = [each async for each in outputs]
    assert [type(each) for each in results] == [aj.Array, aj.ReplayMismatchError, aj.Array]
    assert results[1].__notes__ == ["in stage 1 ('only_pairs') of a pipeline, at item 1"]


@pytest.mark.parametrize("loop", LOOPS)
def test_the_first_in_the_order_of_the_source_raises_though_a_later_one_failed_before(loop: str) -> None:
    later_failed = threading.Event()

    def early(number: int) -> int:
        if number == 2:
            later_failed.set()
            raise ValueError("the later one")
        return number

    def late(number: int) -> int:
        if number == 1:
            assert later_failed.wait(PATIENCE_S)
            raise ValueError("the earlier one")
        return number

    async def main() -> None:
        async with aj.pipeline(early, late)(range(9)) as outputs:
            assert await anext(outputs) == 0
            with pytest.raises(ValueError, match="the earlier one"):
                await anext(outputs)

    run_in(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("on_error", ["raise", "return"])
def test_an_error_of_the_source_raises_after_the_outputs_before_it(loop: str, on_error: str) -> None:
    def broken() -> Any:
        yield from items(2)
        raise OSError("the disk")

    async def main() -> None:
        async with aj.pipeline(double, plain_fails_at(), double, on_error=on_error)(broken()) as outputs:
            assert [value(await anext(outputs)) for _ in range(2)] == [0.0, 4.0]
            with pytest.raises(OSError, match="the disk"):
                await anext(outputs)
            with pytest.raises(StopAsyncIteration):
                await anext(outputs)
        assert (outputs.statistics().items, outputs.statistics().failed) == (2, 0)

    run_in(loop, main)


@pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration])
async def test_an_error_that_looks_like_the_end_does_not_pass_for_it(error: type[Exception]) -> None:
    def stage(number: int) -> int:
        raise error

    async with aj.pipeline(stage)(range(3)) as outputs:
        with pytest.raises(RuntimeError, match=f"{error.__name__} was raised") as caught:
            await anext(outputs)
    assert causes(caught.value) == [RuntimeError, error]


async def test_a_stage_that_awaits_something_cancelled_fails_and_the_others_go_on() -> None:
    async def stage(number: int) -> int:
        if number == 1:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        return number

    async with aj.pipeline(stage, on_error="return")(range(3)) as outputs:
        results = [each async for each in outputs]
    assert (results[0], results[2]) == (0, 2)
    assert causes(results[1]) == [RuntimeError, asyncio.CancelledError]


async def test_an_exit_in_a_stage_is_raised_whatever_was_asked_for() -> None:
    def stage(number: int) -> int:
        if number == 1:
            raise SystemExit(3)
        return number

    async with aj.pipeline(stage, on_error="return")(range(3)) as outputs:
        assert await anext(outputs) == 0
        with pytest.raises(SystemExit):
            await anext(outputs)


@pytest.mark.parametrize("loop", LOOPS)
def test_what_stands_behind_an_item_that_failed_is_not_worked_on(loop: str) -> None:
    worked_on: list[int] = []

    async def stage(number: int) -> int:
        worked_on.append(number)
        await anyio.lowlevel.checkpoint()
        if number == 1:
            raise ValueError("on purpose")
        return number

    source = Tracked(range(9))

    async def main() -> None:
        async with aj.pipeline(stage, in_flight=4)(source.plain()) as outputs:
            await anyio.wait_all_tasks_blocked()
            assert await anext(outputs) == 0
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(ValueError, match="on purpose"):
                await anext(outputs)

    run_in(loop, main)
    assert worked_on == [0, 1]
    # No more are asked for, though there is room for one.
    assert source.taken <= 4
