"""Pipelines where room is scarce: full engines, narrow functions, memory that is used again."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.engine import _current
from tests.surface.loops import LOOPS, PATIENCE_S, items, run_in, through, value

KINDS = ("plain", "async")


@aj.jit
def double(x: Any) -> Any:
    return x * 2


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("stages", [(through, through), (through, None, through)])
def test_where_the_engine_is_full_items_wait(loop: str, stages: Any) -> None:
    functions = [through(lambda number: None, in_flight_max=1) if stage is through else hand_on for stage in stages]

    async def main() -> list[float]:
        async with aj.pipeline(*functions, in_flight=8)(items(20)) as outputs:
            return [value(each) async for each in outputs]

    assert run_in(loop, main, replays_queued_max=1) == [float(index) for index in range(20)]


@pytest.mark.parametrize("loop", LOOPS)
def test_where_there_is_no_memory_items_wait_for_outputs_to_be_taken(loop: str) -> None:
    @aj.kernel(writes="out")
    def fill(out: Any, x: Any) -> None:
        out[...] = x

    @aj.jit
    def grow(x: Any) -> Any:
        out = anp.empty((1000, 2))
        fill(out, x)
        return out

    async def main() -> list[float]:
        async with aj.pipeline(grow, in_flight=8)(items(12)) as outputs:
            return [value(each) async for each in outputs]

    assert run_in(loop, main, memory_bytes_max=60_000) == [float(index) for index in range(12)]


async def test_a_source_may_fill_the_same_memory_again() -> None:
    def batches() -> Any:
        memory = np.empty(1 << 18)
        for index in range(6):
            memory[...] = index
            yield memory

    async with aj.Engine(), aj.pipeline(double, double)(batches()) as outputs:
        assert [value(each) async for each in outputs] == [0.0, 4.0, 8.0, 12.0, 16.0, 20.0]


async def test_a_signature_that_another_thread_is_recording_is_waited_for() -> None:
    recording, go_on = threading.Event(), threading.Event()

    @aj.jit
    def slow_to_record(x: Any) -> Any:
        recording.set()
        assert go_on.wait(PATIENCE_S)
        return x + 1

    async with aj.Engine() as engine:
        thread = threading.Thread(target=lambda: engine_call(engine, slow_to_record))
        thread.start()
        assert await anyio.to_thread.run_sync(recording.wait, PATIENCE_S)
        async with aj.pipeline(slow_to_record, double)(items(2)) as outputs:
            await anyio.wait_all_tasks_blocked()
            go_on.set()
            assert [value(each) async for each in outputs] == [2.0, 4.0]
        await anyio.to_thread.run_sync(thread.join)


def engine_call(engine: aj.Engine, function: Any) -> None:
    """Call it in the engine of another thread."""

    async def main() -> None:
        await function(np.zeros(2))

    context = contextvars.Context()
    context.run(_current.set, (engine, None))
    context.run(anyio.run, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_two_pipelines_over_the_same_narrow_functions_both_come_to_an_end(loop: str) -> None:
    f, g = through(lambda number: None, in_flight_max=1), through(lambda number: None, in_flight_max=1)
    results: dict[str, list[float]] = {}

    async def consume(name: str, *stages: Any) -> None:
        async with aj.pipeline(*stages, in_flight=8)(items(20)) as outputs:
            results[name] = [value(each) async for each in outputs]

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consume, "one", f, g, f)
            tasks.start_soon(consume, "other", g, f, hand_on, f, g)

    run_in(loop, main)
    assert results == {"one": [float(index) for index in range(20)], "other": [float(index) for index in range(20)]}


async def hand_on(x: Any) -> Any:
    return x
