"""Batched functions when a caller is cancelled: its rows are dropped, and the others go on."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.batches import BACKENDS, FOREVER_S, callers, rows, run

backends = pytest.mark.parametrize("backend", BACKENDS)


@aj.jit
def twice(x: Any) -> Any:
    return x * 2


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
