"""``f.map``: results in order, calls ahead of them, and every way in which it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.loops import LOOPS, Gate, Tracked, fails_at, items, run_in, through, value

KINDS = ("plain", "async")


@aj.jit
def double(x: Any) -> Any:
    return x * 2


@aj.jit
def scale(x: Any, by: Any) -> Any:
    return x * by


@aj.jit
def add_pair(pair: Any) -> Any:
    return pair[0] + pair[1]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_flight", [1, 2, 7])
def test_results_come_in_the_order_of_the_source(loop: str, kind: str, in_flight: int) -> None:
    source = Tracked(items(5))

    async def main() -> list[float]:
        return [value(y) async for y in double.map(source.of_kind(kind), in_flight)]

    assert run_in(loop, main) == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert source.closed == 1


async def test_anything_that_can_be_iterated_over_is_a_source() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    assert [np.asarray(y).tolist() async for y in double.map(rows)] == (rows * 2).tolist()
    assert [value(y) async for y in double.map([anp.ones(2), np.ones(2)])] == [2.0, 2.0]
    assert [y async for y in double.map([])] == []
    doubled_twice = double.map(double.map(iter(items(3))))
    assert [value(y) async for y in doubled_twice] == [0.0, 4.0, 8.0]


async def test_an_item_is_the_one_argument_unless_it_is_starred() -> None:
    pairs = [(np.ones(2), np.full(2, 2.0)), (np.ones(2), np.full(2, 3.0))]
    assert [value(y) async for y in add_pair.map(pairs)] == [3.0, 4.0]
    assert [value(y) async for y in scale.map(pairs, star=True)] == [2.0, 3.0]


@pytest.mark.parametrize("kind", KINDS)
async def test_as_many_calls_are_ahead_as_asked_for_and_no_task_is_started(kind: str) -> None:
    source = Tracked(items(6))
    results = double.map(source.of_kind(kind), in_flight=3)
    tasks = asyncio.all_tasks()
    assert source.taken == 0
    for step in range(6):
        assert value(await anext(results)) == 2.0 * step
        assert source.taken == min(step + 3, 6)
        assert asyncio.all_tasks() == tasks
    with pytest.raises(StopAsyncIteration):
        await anext(results)
    with pytest.raises(StopAsyncIteration):
        await anext(results)
    assert source.closed == 1


@pytest.mark.parametrize("loop", LOOPS)
def test_the_next_call_runs_while_the_oldest_does(loop: str) -> None:
    gate = Gate(0.0)

    def work(number: float) -> None:
        gate(number)
        if number == 1.0:
            gate.let_go(0.0)

    f = through(work)

    async def main() -> list[float]:
        return [value(y) async for y in f.map(items(4), in_flight=2)]

    assert run_in(loop, main) == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_raised_in_its_place_and_ends_the_iteration(loop: str, kind: str) -> None:
    f = through(fails_at(2.0), in_flight_max=1)
    source = Tracked(items(9))

    async def main() -> None:
        results = f.map(source.of_kind(kind), in_flight=4)
        assert [value(await anext(results)) for _ in range(2)] == [0.0, 1.0]
        with pytest.raises(aj.KernelError, match="on purpose at 2"):
            await anext(results)
        assert (source.taken, source.closed) == (6, 1)
        with pytest.raises(StopAsyncIteration):
            await anext(results)

    run_in(loop, main)


async def test_what_the_source_or_the_call_itself_raises_comes_after_the_results_before_it() -> None:
    async def broken() -> Any:
        for each in items(2):
            yield each
        raise OSError("the disk")

    results = double.map(broken(), in_flight=4)
    assert [value(await anext(results)) for _ in range(2)] == [0.0, 2.0]
    with pytest.raises(OSError, match="the disk"):
        await anext(results)
    source = Tracked([*items(2), object(), *items(2)])
    results = double.map(source.plain(), in_flight=4)
    assert [value(await anext(results)) for _ in range(2)] == [0.0, 2.0]
    with pytest.raises(aj.CaptureError, match="object"):
        await anext(results)
    assert (source.taken, source.closed) == (3, 1)


class EndsTooSoon:
    """An iterator with a mistake: what it raises would pass for the end."""

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        raise StopAsyncIteration


async def test_an_error_that_looks_like_the_end_does_not_pass_for_it() -> None:
    with pytest.raises(RuntimeError, match="StopAsyncIteration was raised"):
        await anext(double.map(EndsTooSoon()))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", KINDS)
def test_closing_removes_calls_that_have_not_started_and_closes_the_source(loop: str, kind: str) -> None:
    gate = Gate(1.0)
    f = through(gate, in_flight_max=1)
    source = Tracked(items(9))

    async def main() -> None:
        results = f.map(source.of_kind(kind), in_flight=4)
        assert value(await anext(results)) == 0.0
        # Now 1.0 runs, 2.0 and 3.0 are queued.
        await gate.wait_for(1.0)
        await results.aclose()
        await results.aclose()
        assert source.closed == 1
        assert aj.current_engine().statistics().cancelled == 2
        gate.let_go()
        with pytest.raises(StopAsyncIteration):
            await anext(results)

    run_in(loop, main)
    assert gate.entered == [0.0, 1.0]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_that_is_cancelled_ends_the_iteration(loop: str, kind: str) -> None:
    gate = Gate(0.0)
    f = through(gate, in_flight_max=1)
    source = Tracked(items(9))

    async def main() -> None:
        results = f.map(source.of_kind(kind), in_flight=3)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anext, results)
            await gate.wait_for(0.0)
            tasks.cancel_scope.cancel()
        assert source.closed == 1
        assert aj.current_engine().statistics().cancelled == 2
        gate.let_go()
        with pytest.raises(StopAsyncIteration):
            await anext(results)

    run_in(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_wait_for_the_source_that_is_cancelled_ends_the_iteration(loop: str) -> None:
    closed: list[bool] = []

    async def silent() -> Any:
        try:
            yield np.zeros(2)
            await anyio.sleep_forever()
        finally:
            closed.append(True)

    async def main() -> None:
        results = double.map(silent())
        with anyio.move_on_after(0) as scope:
            await anext(results)
        assert scope.cancelled_caught
        assert closed == [True]
        with pytest.raises(StopAsyncIteration):
            await anext(results)

    run_in(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_where_the_engine_is_full_a_call_waits_for_the_oldest(loop: str) -> None:
    f = through(lambda number: None, in_flight_max=1)
    source = Tracked(items(12))

    async def main() -> list[float]:
        return [value(y) async for y in f.map(source.plain(), in_flight=8)]

    assert run_in(loop, main, replays_queued_max=2) == [float(index) for index in range(12)]


async def test_where_the_engine_is_full_of_the_work_of_others_the_call_is_refused() -> None:
    gate = Gate(7.0)
    f = through(gate, in_flight_max=1)
    async with aj.Engine(replays_queued_max=1):
        others = [f(np.full(2, 7.0)), f(np.ones(2))]
        source = Tracked(items(2))
        results = f.map(source.plain())
        with pytest.raises(aj.EngineBusyError):
            await anext(results)
        assert source.closed == 1
        gate.let_go()
        await asyncio.gather(*others)


async def test_a_source_may_fill_the_same_memory_again() -> None:
    def batches() -> Any:
        memory = np.empty(1 << 18)
        for index in range(6):
            memory[...] = index
            yield memory

    async with aj.Engine():
        assert [value(y) async for y in double.map(batches(), in_flight=4)] == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


async def test_two_tasks_cannot_ask_at_once() -> None:
    gate = Gate(0.0)
    results = through(gate).map(items(2), in_flight=1)
    first = asyncio.ensure_future(anext(results))
    await gate.wait_for(0.0)
    with pytest.raises(RuntimeError, match="two tasks"):
        await anext(results)
    with pytest.raises(RuntimeError, match="is closed while"):
        await results.aclose()
    gate.let_go()
    assert value(await first) == 0.0
    assert value(await anext(results)) == 1.0


async def test_what_cannot_be_mapped_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"double.map\(\) takes its items from an iterable .* got int"):
        double.map(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="in_flight of double.map"):
        double.map([], in_flight=0)

    @aj.jit
    def outer(x: Any) -> Any:
        double.map([x])
        return x + 1

    with pytest.raises(aj.CaptureError, match="inside a captured function"):
        await outer(anp.ones(2))


async def test_a_step_that_is_taken_apart_while_it_waits_for_the_source_waits_for_nothing_more() -> None:
    never = asyncio.Event()

    async def source() -> AsyncIterator[np.ndarray]:
        yield np.ones(3)
        await never.wait()

    results = double.map(source())
    step = results.__anext__()
    step.send(None)
    step.close()
    with pytest.raises(StopAsyncIteration):
        await anext(results)
