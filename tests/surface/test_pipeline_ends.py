"""How pipelines end: left early, cancelled anywhere, with threads that are stuck; and what is refused."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
from tests.surface.loops import (
    LOOPS,
    PATIENCE_S,
    Gate,
    Tracked,
    items,
    run_in,
    surface_threads,
    through,
    value,
)


@aj.jit
def double(x: Any) -> Any:
    return x * 2


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_leaving_early_cancels_what_is_under_way_and_waits_for_it(loop: str, kind: str) -> None:
    gate, on_thread = Gate(3.0), Gate(2.0)
    narrow = through(gate, in_flight_max=1)
    source = Tracked(items(30))
    ends: list[str] = []

    async def on_the_loop(x: Any) -> Any:
        if value(x) == 1.0:
            try:
                await anyio.sleep_forever()
            finally:
                ends.append("cancelled")
        return x

    def plain(x: Any) -> Any:
        on_thread(value(x))
        return x

    async def main() -> None:
        async with aj.pipeline(narrow, plain, on_the_loop, double, in_flight=6)(source.of_kind(kind)) as outputs:
            assert value(await anext(outputs)) == 0.0
            # 1.0 is on the loop, 2.0 on the thread, 3.0 on the device; 4.0 and what follows is queued.
            await on_thread.wait_for(2.0)
            await gate.wait_for(3.0)
            await anyio.wait_all_tasks_blocked()
            assert source.taken == 7
            threading.Timer(0.01, lambda: (gate.let_go(), on_thread.let_go())).start()
        assert ends == ["cancelled"]
        assert source.closed == 1
        assert surface_threads() == []
        statistics = aj.current_engine().statistics()
        assert (statistics.queued, statistics.in_flight, statistics.cancelled) == (0, 0, 3)
        with pytest.raises(RuntimeError, match="which was left"):
            await anext(outputs)

    run_in(loop, main)
    assert gate.entered == [0.0, 1.0, 2.0, 3.0]
    assert on_thread.entered == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_thread_that_does_not_come_back_is_left_behind_with_a_warning(loop: str) -> None:
    gate = Gate(0.0)
    threads: list[threading.Thread] = []

    def stuck(number: float) -> float:
        threads.append(threading.current_thread())
        gate(number)
        return number

    async def main() -> None:
        with pytest.warns(RuntimeWarning, match=r"stage 1 \('stuck'\) of a pipeline was still at an item 0.01 s after"):
            async with aj.pipeline(lambda x: x, stuck, close_timeout_s=0.01)([0.0]):
                await gate.wait_for(0.0)
        gate.let_go()
        await anyio.to_thread.run_sync(threads[0].join)

    run_in(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_wait_that_is_cancelled_loses_nothing(loop: str) -> None:
    gate, on_thread = Gate(1.0), Gate(2.0)

    def plain(x: Any) -> Any:
        on_thread(value(x))
        return x

    async def main() -> None:
        async with aj.pipeline(plain, through(gate), in_flight=3)(items(5)) as outputs:
            results = [value(await anext(outputs))]
            for held in (gate, on_thread):
                with anyio.move_on_after(0) as scope:
                    await anext(outputs)
                assert scope.cancelled_caught
                held.let_go()
                results.append(value(await anext(outputs)))
            results += [value(each) async for each in outputs]
        assert results == [0.0, 1.0, 2.0, 3.0, 4.0]

    run_in(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_cancellation_at_any_moment_leaves_nothing_behind(loop: str, kind: str) -> None:
    seen: set[int] = set()

    async def stage(x: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return x

    async def one(turns: int) -> None:
        source = Tracked(items(6))
        delivered = 0

        async def consume() -> None:
            nonlocal delivered
            async with aj.pipeline(double, stage, lambda x: x, double, in_flight=2)(source.of_kind(kind)) as outputs:
                async for _ in outputs:
                    delivered += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consume)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert surface_threads() == []
        assert source.closed == (source.taken > 0)
        seen.add(delivered)

    async def main() -> None:
        for turns in range(60):
            await one(turns)
        # How many turns the first item takes is the threads' affair.
        while len(seen) < 2:
            turns *= 2
            await one(turns)

    run_in(loop, main)
    # It was cancelled at the beginning, and on the way.
    assert 0 in seen
    assert len(seen) > 1


async def test_a_task_that_is_cancelled_the_way_of_asyncio_leaves_nothing_behind() -> None:
    source, entered = Tracked(items(30)), asyncio.Event()

    async def stage(x: Any) -> Any:
        entered.set()
        await asyncio.sleep(PATIENCE_S)

    async def consume() -> None:
        async with aj.pipeline(double, stage)(source.of_async()) as outputs:
            async for _ in outputs:
                pass

    task = asyncio.create_task(consume())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.closed == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("loop", LOOPS)
def test_an_error_in_the_block_goes_out_as_it_is(loop: str) -> None:
    source = Tracked(items(30))

    async def main() -> None:
        async with aj.pipeline(double, lambda x: x)(source.plain()) as outputs:
            await anext(outputs)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run_in(loop, main)
    assert source.closed == 1
    assert surface_threads() == []


async def test_what_was_delivered_is_not_held() -> None:
    def refers(x: Any) -> Any:
        return x

    async with aj.Engine() as engine, aj.pipeline(double, refers, double)(np.zeros(1000) for _ in range(8)) as outputs:
        gc.disable()
        try:
            used = []
            async for output in outputs:
                del output
                used.append(engine.statistics().memory_bytes)
        finally:
            gc.enable()
        # After the last one there is nothing: these functions have no frames.
        assert used[-1] == 0


async def test_two_tasks_cannot_ask_at_once_and_a_block_is_entered_once() -> None:
    gate = Gate(0.0)
    async with aj.pipeline(through(gate))(items(1)) as outputs:
        first = asyncio.ensure_future(anext(outputs))
        await gate.wait_for(0.0)
        with pytest.raises(RuntimeError, match="two tasks"):
            await anext(outputs)
        gate.let_go()
        assert value(await first) == 0.0
        with pytest.raises(RuntimeError, match="entered once, these are open"):
            await outputs.__aenter__()
    with pytest.raises(RuntimeError, match="was not entered"):
        await anext(aj.pipeline(double)([]))


def test_what_makes_no_pipeline_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="at least one stage"):
        aj.pipeline()
    with pytest.raises(TypeError, match=r"stage 1 of a pipeline must be .*, got \[1\]"):
        aj.pipeline(double, [1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="in_flight"):
        aj.pipeline(double, in_flight=0)
    with pytest.raises(ValueError, match="on_error"):
        aj.pipeline(double, on_error="ignore")
    with pytest.raises(ValueError, match="close_timeout_s"):
        aj.pipeline(double, close_timeout_s=-1.0)
    with pytest.raises(TypeError, match="a pipeline takes its items from an iterable"):
        aj.pipeline(double)(3)  # type: ignore[arg-type]
