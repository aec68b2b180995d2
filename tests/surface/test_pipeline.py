"""Pipelines at work: order, bounds, overlap, chains on the device, and what a stage may be."""

from __future__ import annotations

import functools
import threading
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
from tests.surface.loops import LOOPS, PATIENCE_S, Gate, Tracked, items, run_in, through, value

KINDS = ("plain", "async")


@aj.jit
def double(x: Any) -> Any:
    return x * 2


@aj.jit
def split(x: Any) -> Any:
    return x + 1, {"less": x - 1}


@aj.jit
def join(parts: Any) -> Any:
    return parts[0] * parts[1]["less"]


def add_one(x: Any) -> Any:
    return np.asarray(x) + 1


async def halve(x: Any) -> Any:
    await anyio.lowlevel.checkpoint()
    return np.asarray(x) / 2


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_flight", [1, 3])
def test_stages_of_all_kinds_make_what_they_make_one_after_the_other(loop: str, kind: str, in_flight: int) -> None:
    source = Tracked(items(7))

    async def main() -> list[float]:
        stages = (double, split, join, add_one, halve, double, split, join)
        async with aj.pipeline(*stages, in_flight=in_flight)(source.of_kind(kind)) as outputs:
            return [value(each) async for each in outputs]

    expected = []
    for index in range(7):
        there = 4.0 * index**2 - 1 + 1
        expected.append((there / 2 * 2) ** 2 - 1)
    assert run_in(loop, main) == expected
    assert source.closed == 1


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("kind", "in_flight"), [("plain", 3), ("async", 1)])
def test_no_more_items_are_on_their_way_than_allowed(loop: str, kind: str, in_flight: int) -> None:
    source = Tracked(items(20))

    async def settle() -> None:
        await anyio.wait_all_tasks_blocked()

    async def main() -> None:
        stages = (double, halve, double, halve)
        async with aj.pipeline(*stages, in_flight=in_flight)(source.of_kind(kind)) as outputs:
            await settle()
            assert source.taken == in_flight
            for delivered in range(1, 4):
                assert value(await anext(outputs)) == delivered - 1
                await settle()
                assert source.taken == in_flight + delivered
            assert outputs.statistics().in_flight == in_flight
        assert outputs.statistics().in_flight_peak == in_flight

    run_in(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_jitted_stages_in_a_row_are_submitted_at_once_on_pending_arrays(loop: str) -> None:
    gate = Gate(0.0)
    first = through(gate)

    async def main() -> None:
        engine = aj.current_engine()
        async with aj.pipeline(first, double, split, join, in_flight=1)([np.zeros(2)]) as outputs:
            await gate.wait_for(0.0)
            # Nothing has ended, and all four have their tickets.
            statistics = engine.statistics()
            assert (statistics.tickets, statistics.done) == (4, 0)
            gate.let_go()
            assert value(await anext(outputs)) == -1.0

    run_in(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_plain_stages_work_at_the_same_time_on_different_items(loop: str) -> None:
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def early(number: int) -> int:
        if number > 0:
            both.wait()
        return number

    def late(number: int) -> int:
        if number < 5:
            both.wait()
        return number

    async def main() -> list[int]:
        async with aj.pipeline(early, late)(range(6)) as outputs:
            return [each async for each in outputs]

    assert run_in(loop, main) == list(range(6))


@pytest.mark.parametrize("loop", LOOPS)
def test_jitted_stages_work_at_the_same_time_on_different_items(loop: str) -> None:
    gate = Gate(0.0)

    def open_gate(number: float) -> None:
        if number == 1.0:
            gate.let_go()

    early, late = through(open_gate, in_flight_max=1), through(gate, in_flight_max=1)

    async def main() -> list[float]:
        async with aj.pipeline(early, late)(items(3)) as outputs:
            return [value(each) async for each in outputs]

    assert run_in(loop, main) == [0.0, 1.0, 2.0]


async def test_a_pipeline_may_be_used_again_and_at_the_same_time() -> None:
    twice = aj.pipeline(double, add_one)
    async with twice(items(3)) as left, twice(items(3)) as right:
        pairs = [(value(await anext(left)), value(await anext(right))) for _ in range(3)]
    assert pairs == [(1.0, 1.0), (3.0, 3.0), (5.0, 5.0)]
    assert repr(twice) == "<pipeline double -> add_one>"
    async with aj.pipeline(double)(items(2)) as inner, aj.pipeline(double)(inner) as outputs:
        assert [value(each) async for each in outputs] == [0.0, 4.0]


class Adder:
    """Callable objects are stages too, by what their call is."""

    def __init__(self, number: float) -> None:
        self.number = number

    @aj.jit
    def jitted(self, x: Any) -> Any:
        return x + self.number

    async def __call__(self, x: Any) -> Any:
        return await self.jitted(x)


@aj.jit
def scaled(x: Any, *, by: Any) -> Any:
    return x * by


@pytest.mark.parametrize("loop", LOOPS)
def test_bound_functions_partial_ones_and_objects_are_stages_of_their_kind(loop: str) -> None:
    gate = Gate(0.0)
    by = functools.partial(scaled, by=np.full(2, 3.0))

    async def main() -> None:
        engine = aj.current_engine()
        async with aj.pipeline(through(gate), by, Adder(1.0).jitted)([np.zeros(2)]) as outputs:
            await gate.wait_for(0.0)
            assert engine.statistics().tickets == 3
            gate.let_go()
            assert value(await anext(outputs)) == 1.0
        stages = (Adder(2.0), lambda x: scaled(x, by=np.full(2, 2.0)), np.asarray, functools.partial(np.add, 1.0))
        async with aj.pipeline(*stages)([np.zeros(2)]) as outputs:
            assert [value(each) async for each in outputs] == [5.0]

    run_in(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_plain_stages_run_on_threads_of_their_own_in_the_context_of_the_block(loop: str) -> None:
    seen: list[tuple[str, bool]] = []

    async def main() -> None:
        engine = aj.current_engine()

        def look(x: Any) -> Any:
            seen.append((threading.current_thread().name, aj.current_engine() is engine))
            return x

        async with aj.pipeline(look, look)(range(2)) as outputs:
            assert [each async for each in outputs] == [0, 1]

    run_in(loop, main)
    assert sorted(seen) == [("asyncjit-pipeline-0-look", True)] * 2 + [("asyncjit-pipeline-1-look", True)] * 2


async def test_statistics_count_items_and_the_time_of_each_stage() -> None:
    async with aj.pipeline(double, add_one, halve, in_flight=2)(items(5)) as outputs:
        assert [value(each) async for each in outputs] == [0.5, 1.5, 2.5, 3.5, 4.5]
        statistics = outputs.statistics()
    assert (statistics.items, statistics.failed, statistics.in_flight, statistics.in_flight_peak) == (5, 0, 0, 2)
    assert [(stage.name, stage.items) for stage in statistics.stages] == [("double", 5), ("add_one", 5), ("halve", 5)]
    for stage in statistics.stages:
        assert stage.busy_s > 0
        assert stage.busy_share == stage.busy_s / statistics.elapsed_s
    # No time passes for what was left.
    assert outputs.statistics() == outputs.statistics()
    assert aj.pipeline(double)([]).statistics() == aj.PipelineStatistics(
        0, 0, 0, 0, 0.0, (aj.StageStatistics("double", 0, 0.0, 0.0),)
    )
