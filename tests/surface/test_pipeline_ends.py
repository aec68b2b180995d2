"""How pipelines end: errors of stages and sources, leaving early, cancellation anywhere, threads that are stuck."""

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
    fails_at,
    items,
    run_in,
    surface_threads,
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
