"""Batching: concurrent requests that share a replay. Each test names the public issue it comes from."""

from __future__ import annotations

from typing import Any

import pytest

import asyncjit as aj
from tests.surface.batches import BACKENDS, FOREVER_S, callers, rows, run

backends = pytest.mark.parametrize("backend", BACKENDS)


def twice(x: Any) -> Any:
    return x * 2


@backends
def test_requests_that_come_together_share_a_replay_and_each_gets_its_rows(backend: str) -> None:
    """fastapi/fastapi #5102.

    Wanted: requests to a model gathered into batches, and run in parallel, by the framework.
    Here: the first of nine concurrent calls starts at once, the other eight share the next replay.
    """
    one = aj.jit(twice).batched(8, FOREVER_S)

    async def main() -> None:
        async with callers() as calls:
            for number in range(9):
                await calls.started(str(number), one, rows(float(number)))
            await calls.finish()
            assert [calls.values(str(number)) for number in range(9)] == [[[2.0 * n] * 2] for n in range(9)]
        assert dict(one.statistics().batch_rows) == {1: 1, 8: 1}

    run(main, backend)


@backends
def test_a_batch_whose_callers_have_all_gone_holds_up_nobody(backend: str) -> None:
    """ray-project/ray #50046.

    Wanted: a batched deployment that is not stuck for ever after its requests were cancelled.
    Here: all callers of a running batch and of a gathering one leave; the next call is answered as if alone.
    """
    one = aj.jit(twice).batched(4, FOREVER_S)

    async def main() -> None:
        async with callers() as calls:
            for name in "abcdef":
                await calls.started(name, one, rows(1.0))
            for name in "abcdef":
                calls.scopes[name].cancel()
            await calls.settle()
            assert one.statistics().cancelled == 6
            await calls.started("next", one, rows(7.0))
            await calls.finish()
            assert calls.values("next") == [[14.0, 14.0]]
        assert sum(one.statistics().batch_rows.values()) == one.statistics().batches

    run(main, backend)


@backends
def test_rows_are_counted_and_not_requests(backend: str) -> None:
    """bentoml/BentoML #3859 and #3710.

    Wanted: a batch that stays within its limit when requests bring several rows each.
    Here: twelve calls of three rows, and room for eight: no batch has more than eight rows, and every row is right.
    """
    one = aj.jit(twice).batched(8, FOREVER_S)

    async def main() -> None:
        async with callers() as calls:
            for number in range(12):
                await calls.started(str(number), one, rows(*(float(3 * number + row) for row in range(3))))
            await calls.finish()
            for number in range(12):
                assert calls.values(str(number)) == [[2.0 * (3 * number + row)] * 2 for row in range(3)]
        statistics = one.statistics()
        assert max(statistics.batch_rows) <= 8
        assert (statistics.rows, statistics.calls) == (36, 12)

    run(main, backend)


@backends
def test_the_longest_wait_is_for_company_and_not_for_an_answer(backend: str) -> None:
    """bentoml/BentoML #4265 and #3200.

    Wanted: a latency setting that does not turn requests away as "busy" under load.
    Here: with no time to wait for company, thirty calls stand behind a device that does nothing; all are answered.
    """
    one = aj.jit(twice, in_flight_max=1).batched(4, 0.0)

    async def main() -> None:
        async with callers() as calls:
            for number in range(30):
                await calls.started(str(number), one, rows(float(number)))
            assert calls.errors == {}
            assert calls.results == {}
            await calls.finish()
            assert [calls.values(str(number)) for number in range(30)] == [[[2.0 * n] * 2] for n in range(30)]

    run(main, backend)
