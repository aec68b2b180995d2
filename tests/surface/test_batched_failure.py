"""Batched functions when something goes wrong: each caller has its own error and its own cancellation."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice
from tests.surface.batches import BACKENDS, FOREVER_S, callers, rows, run

backends = pytest.mark.parametrize("backend", BACKENDS)

UNLUCKY = 13.0


@aj.kernel(writes="out")
def _check(out: Any, src: Any) -> None:
    if (src == UNLUCKY).any():
        raise ZeroDivisionError("unlucky")
    out[...] = src


@aj.jit
def checked(x: Any) -> Any:
    out = anp.empty(x.shape)
    _check(out, x)
    return out * 2


@aj.jit
def twice(x: Any) -> Any:
    return x * 2


# Cancellation.


@backends
def test_rows_of_a_cancelled_call_are_dropped_and_the_batch_lives_on(backend: str) -> None:
    one = twice.batched(4, FOREVER_S)

    async def main() -> None:
        async with callers() as calls:
            for name in "fabc":
                await calls.started(name, one, rows(1))
            calls.scopes["b"].cancel()
            await calls.finish()
            assert set(calls.results) == {"f", "a", "c"}
        statistics = one.statistics()
        assert (dict(statistics.batch_rows), statistics.cancelled) == ({1: 1, 2: 1}, 1)

    run(main, backend)


@backends
@pytest.mark.parametrize("wait_max_s", [FOREVER_S, 0.001])
def test_when_the_leader_is_cancelled_the_next_takes_over(backend: str, wait_max_s: float) -> None:
    one = twice.batched(8, wait_max_s)

    async def main() -> None:
        async with callers() as calls:
            await calls.started("first", one, rows(0))
            for name in "abc":
                calls.start(name, one, rows(1))
            await calls.settle()
            calls.scopes["a"].cancel()
            await calls.settle()
            if wait_max_s != FOREVER_S:
                while one.statistics().batches < 2:
                    await calls.settle()
            await calls.finish()
            assert {"b", "c"} <= set(calls.results)

    run(main, backend)


@backends
def test_a_leader_that_is_cancelled_when_it_should_start_a_batch_leaves_that_to_the_next(backend: str) -> None:
    one = twice.batched(8, FOREVER_S)

    async def main() -> None:
        async with callers() as calls:
            await calls.started("first", one, rows(0))
            for name in "abc":
                await calls.started(name, one, rows(1))
            # The end of the first batch wakes the leader, which is cancelled before it runs.
            calls.device.run_until_idle()
            calls.scopes["a"].cancel()
            await calls.finish()
            assert {"b", "c"} <= set(calls.results)

    run(main, backend)


@backends
def test_after_the_start_a_cancelled_call_leaves_at_once_and_the_others_get_their_rows(backend: str) -> None:
    one = twice.batched(4, FOREVER_S)

    async def main() -> None:
        async with callers() as calls:
            await calls.started("first", one, rows(0))
            for number, name in enumerate("abcd"):
                await calls.started(name, one, rows(number))
            assert one.statistics().batches == 2
            calls.scopes["b"].cancel()
            await calls.settle()
            assert one.statistics().cancelled == 1
            await calls.finish()
            assert [calls.values(name)[0][0] for name in "acd"] == [0.0, 4.0, 6.0]

    run(main, backend)


@backends
def test_a_batch_that_nobody_wants_and_that_has_not_begun_is_removed(backend: str) -> None:
    async def main() -> None:
        async with callers() as calls:
            total = anp.zeros(2)

            @aj.jit(in_flight_max=1)
            def count(x: Any) -> Any:
                total[...] = total + x.sum(axis=0)
                return x + 0

            one = count.batched(2, FOREVER_S)
            await calls.started("first", one, rows(1, 1))
            await calls.started("a", one, rows(10))
            await calls.started("b", one, rows(10))
            assert one.statistics().batches == 2
            for name in "ab":
                calls.scopes[name].cancel()
            await calls.finish()
            calls.start("total", lambda: total)
            await calls.finish()
            assert calls.values("total") == [2.0, 2.0]

    run(main, backend)


async def test_a_coroutine_that_is_closed_or_forgotten_leaves_the_batch_to_the_others() -> None:
    one = twice.batched(8, FOREVER_S)
    async with callers() as calls:
        await calls.started("first", one, rows(0))
        closed, forgotten = one(rows(1)), one(rows(1))
        closed.send(None)
        forgotten.send(None)
        await calls.started("b", one, rows(3))
        closed.close()
        del forgotten
        gc.collect()
        await calls.finish()
        assert calls.values("b") == [[6.0, 6.0]]
    assert one.statistics().cancelled == 2
    assert dict(one.statistics().batch_rows) == {1: 2}


def test_a_loop_that_dies_without_a_word_takes_no_other_along() -> None:
    engine = aj.Engine([CpuDevice(inline_s_max=0)])
    entered, opened = threading.Event(), threading.Event()

    @aj.kernel(writes="out")
    def hold(out: Any, src: Any) -> None:
        entered.set()
        assert opened.wait(20)
        out[...] = src

    @aj.jit
    def held(x: Any) -> Any:
        out = anp.empty(x.shape)
        hold(out, x)
        return out

    one = held.batched(8, FOREVER_S)
    results: list[Any] = []

    async def call(started: threading.Event | None) -> None:
        async with _Use(engine):
            task = asyncio.ensure_future(one(rows(1)))
            await asyncio.sleep(0)
            if started is not None:
                started.set()
            results.append(np.asarray(await task).tolist())

    def live(started: threading.Event) -> threading.Thread:
        thread = threading.Thread(target=lambda: asyncio.run(call(started)))
        thread.start()
        assert started.wait(20)
        return thread

    first = live(threading.Event())
    assert entered.wait(20)
    # A leader on a loop that stops turning and is closed with the task still pending.
    dead = asyncio.new_event_loop()
    task = dead.create_task(call(None))
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    for _ in range(4):
        dead.call_soon(dead.stop)
        dead.run_forever()
    second = live(threading.Event())
    dead.close()
    opened.set()
    for thread in (first, second):
        thread.join(20)
        assert not thread.is_alive()
    assert results == [[[1.0, 1.0]]] * 2
    coroutine = task.get_coro()
    assert coroutine is not None
    coroutine.close()
    engine.close()


class _Use:
    """An engine for this context, left open."""

    def __init__(self, engine: aj.Engine) -> None:
        self.engine = engine

    async def __aenter__(self) -> None:
        await self.engine.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        return None


def test_loops_in_threads_share_batches_and_each_call_gets_its_own_rows() -> None:
    async def main(engine: aj.Engine, thread: int) -> None:
        async with _Use(engine):
            for turn in range(20):
                numbers = [float(1000 * thread + 10 * turn + call) for call in range(8)]
                results = await asyncio.gather(*(one(rows(number)) for number in numbers))
                assert [float(np.asarray(result)[0, 0]) for result in results] == [2 * number for number in numbers]
                done.append(thread)

    one = twice.batched(16, 0.001)
    done: list[int] = []
    engine = aj.Engine([CpuDevice(inline_s_max=0)])
    threads = [threading.Thread(target=asyncio.run, args=(main(engine, number),)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    engine.close()
    assert len(done) == 60
    statistics = one.statistics()
    assert (statistics.calls, statistics.cancelled) == (480, 0)
    assert sum(rows * count for rows, count in statistics.batch_rows.items()) == 480 + statistics.rows_padded


# Errors.


@backends
def test_only_the_call_whose_rows_fail_fails(backend: str) -> None:
    one = checked.batched(8, FOREVER_S)

    async def main() -> None:
        async with callers() as calls:
            await calls.started("first", one, rows(0))
            for name, first in (("a", 1.0), ("unlucky", UNLUCKY), ("b", 2.0)):
                await calls.started(name, one, rows(first))
            await calls.finish()
            assert [calls.values(name)[0][0] for name in ("a", "b")] == [2.0, 4.0]
            assert isinstance(calls.errors["unlucky"], aj.KernelError)
        assert one.statistics().retried == 3

    run(main, backend)


async def test_a_batch_that_writes_state_runs_once_and_each_call_gets_an_error_of_its_own() -> None:
    async with callers() as calls:
        count = anp.zeros(1)

        @aj.jit
        def counted(x: Any) -> Any:
            count[...] = count + 1
            return checked(x)

        one = counted.batched(8, FOREVER_S)
        await calls.started("first", one, rows(0))
        for name, first in (("a", 1.0), ("unlucky", UNLUCKY)):
            await calls.started(name, one, rows(first))
        await calls.finish()
        assert set(calls.errors) == {"a", "unlucky"}
        assert all(isinstance(error, aj.KernelError) for error in calls.errors.values())
        assert calls.errors["a"] is not calls.errors["unlucky"]
        assert one.statistics().retried == 0


async def test_a_function_that_cannot_be_recorded_fails_each_call_with_an_error_of_its_own() -> None:
    @aj.jit
    def broken(x: Any) -> Any:
        if x.shape[0] > 1:
            raise ArithmeticError("too many")
        if x[0, 0] > 0:
            return x
        return x

    one = broken.batched(8, FOREVER_S)
    held = twice.batched(8, FOREVER_S)
    async with callers() as calls:
        await calls.started("held", held, rows(1))
        await calls.started("a", one, rows(1))
        assert isinstance(calls.errors["a"], aj.HostReadError)
        # Nothing is in flight: each call starts at once, and fails at once.
        for name in "bc":
            await calls.started(name, one, rows(1, 2))
        assert all(isinstance(calls.errors[name], ArithmeticError) for name in "bc")
        assert calls.errors["b"] is not calls.errors["c"]
        await calls.finish()


async def test_a_call_that_is_no_rows_fails_alone() -> None:
    one = checked.batched(8, FOREVER_S)

    @aj.jit
    def pair(x: Any, y: Any, z: Any = None) -> Any:
        return x + y

    two = pair.batched(8, FOREVER_S)
    bad: dict[str, tuple[Any, tuple[Any, ...], type[Exception], str]] = {
        "0-d": (one, (np.array(3.0),), ValueError, r"'x'.*shape \(\).*x\[None\]"),
        "none": (one, (np.empty((0, 2)),), ValueError, r"shape \(0, 2\)"),
        "no array": (one, (3,), ValueError, "no array"),
        "number": (one, (np.float64(3),), ValueError, "no array"),
        "uneven": (two, (rows(1, 2), rows(1)), ValueError, "'x' and 'y'.* 2 and 1 rows"),
        "nested": (two, (rows(1), rows(1), [rows(1)]), aj.CaptureError, "container"),
        "text": (one, (np.array([["a"]]),), aj.CaptureError, "'x'.*dtype"),
        "missing": (two, (rows(1),), TypeError, r"pair\(\)"),
    }
    async with callers() as calls:
        await calls.started("first", one, rows(0))
        await calls.started("a", one, rows(1))
        for name, (call, args, _, _) in bad.items():
            await calls.started(name, call, *args)
        await calls.finish()
        assert set(calls.results) == {"first", "a"}
        for name, (_, _, kind, match) in bad.items():
            with pytest.raises(kind, match=match):
                raise calls.errors[name]


async def test_a_pending_argument_that_fails_fails_its_call_alone() -> None:
    one = twice.batched(8, FOREVER_S)
    async with callers() as calls:
        broken = checked(rows(UNLUCKY)).result
        await calls.started("first", one, rows(0))
        await calls.started("broken", one, broken)
        await calls.started("a", one, rows(1))
        await calls.finish()
        assert calls.values("a") == [[2.0, 2.0]]
        assert isinstance(calls.errors["broken"], aj.DependencyError)


async def test_an_output_that_is_not_rows_is_refused_by_name_and_shape() -> None:
    @aj.jit
    def mixed(x: Any) -> Any:
        return {"rows": x + 1, "mean": x.mean(axis=0)}

    one = mixed.batched(8, FOREVER_S)
    async with callers() as calls:
        await calls.started("a", one, rows(1, 2, 3, width=5))
        await calls.finish()
        with pytest.raises(aj.CaptureError, match=r"output\['mean'\].*shape \(5,\); expected 4 rows") as caught:
            raise calls.errors["a"]
        assert (caught.value.shape, caught.value.rows) == ((5,), 4)


async def test_calls_that_gather_when_the_engine_closes_are_told_so() -> None:
    one = twice.batched(8, FOREVER_S)
    async with callers() as calls:
        for name in "abc":
            await calls.started(name, one, rows(1))
        engine = aj.current_engine()
        calls.start("closed", engine.aclose)
        while engine._unusable is None:
            await calls.settle()
        await calls.finish()
        assert {"a"} <= set(calls.results)
        assert all(isinstance(calls.errors[name], aj.EngineClosedError) for name in "bc")
        assert calls.errors["b"] is not calls.errors["c"]


async def test_signatures_that_nobody_calls_with_any_more_are_forgotten() -> None:
    one = twice.batched(1, 0.0)
    for width in range(1, 101):
        await one(rows(1, width=width))
    assert one.statistics().calls == 100
    assert len(one._gatherings) < 70
