"""Batched functions: who shares a replay, when it starts, and what each caller gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.batches import BACKENDS, FOREVER_S, callers, rows, run

backends = pytest.mark.parametrize("backend", BACKENDS)


@aj.jit
def twice(x: Any) -> Any:
    return x * 2


@aj.kernel(writes="out")
def _keep(out: Any, src: Any) -> None:
    seen.append(src.tolist())
    out[...] = src


seen: list[Any] = []


@backends
def test_the_first_call_starts_at_once_and_the_others_when_it_ends(backend: str) -> None:
    one = twice.batched(8, FOREVER_S)

    async def main() -> None:
        async with callers() as calls:
            for name in range(6):
                calls.start(str(name), one, rows(float(name)))
            await calls.settle()
            assert one.statistics().batches == 1
            await calls.finish()
            assert [calls.values(str(name)) for name in range(6)] == [[[2.0 * name] * 2] for name in range(6)]
        statistics = one.statistics()
        assert (statistics.calls, statistics.rows, statistics.batches) == (6, 6, 2)
        assert (dict(statistics.batch_rows), statistics.rows_padded) == ({1: 1, 8: 1}, 3)
        assert statistics.wait_total_s >= statistics.wait_max_s >= 0

    run(main, backend)


@backends
def test_a_full_batch_starts_beside_the_one_in_flight_and_rows_count_not_calls(backend: str) -> None:
    one = twice.batched(8, FOREVER_S)

    async def main() -> None:
        async with callers() as calls:
            await calls.started("first", one, rows(1))
            await calls.started("a", one, rows(1, 2, 3))
            await calls.started("b", one, rows(4, 5, 6))
            assert one.statistics().batches == 1
            # Nine rows: the first two calls go, the third waits on.
            await calls.started("c", one, rows(7, 8, 9))
            assert one.statistics().batches == 2
            await calls.started("d", one, rows(10, 11, 12, 13, 14))
            assert one.statistics().batches == 3
            await calls.finish()
            assert [row[0] for name in "abcd" for row in calls.values(name)] == [2.0 * n for n in range(1, 15)]
        assert dict(one.statistics().batch_rows) == {1: 1, 8: 2}

    run(main, backend)


@backends
def test_a_call_that_has_waited_long_enough_starts_the_batch(backend: str) -> None:
    one = twice.batched(8, 0.001)

    async def main() -> None:
        async with callers() as calls:
            await calls.started("first", one, rows(1))
            calls.start("second", one, rows(2))
            calls.start("third", one, rows(3))
            await calls.settle()
            while one.statistics().batches < 2:
                await calls.settle()
            assert calls.results == {}
            await calls.finish()
            assert (calls.values("second"), calls.values("third")) == ([[4.0, 4.0]], [[6.0, 6.0]])
        assert one.statistics().wait_max_s > 0

    run(main, backend)


async def test_without_a_time_to_wait_nothing_gathers() -> None:
    one = twice.batched(8, 0.0)
    async with callers() as calls:
        for name in "abc":
            await calls.started(name, one, rows(1))
        assert one.statistics().batches == 3
        await calls.finish()


async def test_more_rows_than_fit_run_alone_in_a_multiple_of_the_largest_bucket() -> None:
    one = twice.batched(4, FOREVER_S)
    async with callers() as calls:
        await calls.started("first", one, rows(1))
        await calls.started("small", one, rows(2))
        await calls.started("large", one, rows(*range(9)))
        assert one.statistics().batches == 2
        await calls.finish()
        assert calls.values("large") == [[2.0 * n] * 2 for n in range(9)]
    assert dict(one.statistics().batch_rows) == {1: 2, 12: 1}


async def test_calls_that_differ_in_more_than_rows_never_mix() -> None:
    @aj.jit
    def scale(x: Any, by: Any = 1, *, tag: str = "") -> Any:
        return x * by

    one = scale.batched(8, FOREVER_S)
    kinds: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((rows(1),), {}),
        ((rows(1, width=3),), {}),
        ((rows(1, dtype="float32"),), {}),
        ((rows(1), 2), {}),
        ((rows(1), 2.0), {}),
        ((rows(1), 3.0), {}),
        ((rows(1),), {"tag": "t"}),
        ((rows(1), rows(1)), {}),
    ]
    async with callers() as calls:
        for turn in range(3):
            for index, (args, kwargs) in enumerate(kinds):
                calls.start(f"{index}.{turn}", one, *args, **kwargs)
            await calls.settle()
        assert one.statistics().batches == len(kinds)
        await calls.finish()
        for index, (args, _) in enumerate(kinds):
            expected = np.asarray(args[0] * (args[1] if len(args) > 1 else 1))
            for turn in range(3):
                got = np.asarray(calls.results[f"{index}.{turn}"])
                assert (got.tolist(), got.dtype) == (expected.tolist(), expected.dtype)
    assert dict(one.statistics().batch_rows) == {1: len(kinds), 2: len(kinds)}


async def test_rows_come_from_host_arrays_arrays_and_arrays_that_are_pending() -> None:
    @aj.jit
    def add(x: Any, y: Any) -> Any:
        return x + y

    one = add.batched(8, FOREVER_S)
    async with callers() as calls:
        ready = await anp.asarray(rows(1))
        pending = twice(rows(10)).result
        await calls.started("first", one, rows(0), rows(0))
        await calls.started("host", one, rows(1), rows(2)[:, ::-1])
        await calls.started("ready", one, ready, rows(3, width=2))
        calls.start("pending", one, pending, ready)
        await calls.finish()
        results = [calls.values(name) for name in ("host", "ready", "pending")]
    assert results == [[[3.0, 3.0]], [[4.0, 4.0]], [[21.0, 21.0]]]


async def test_padding_repeats_the_first_row() -> None:
    @aj.jit
    def kept(x: Any) -> Any:
        out = anp.empty(x.shape)
        _keep(out, x)
        return out

    one = kept.batched(8, FOREVER_S, buckets=(4,))
    seen.clear()
    async with callers() as calls:
        await calls.started("only", one, rows(5, 6, width=1))
        await calls.finish()
        assert calls.values("only") == [[5.0], [6.0]]
    assert seen == [[[5.0], [6.0], [5.0], [5.0]]]


async def test_outputs_belong_to_their_callers() -> None:
    one = twice.batched(4, FOREVER_S)
    async with callers() as calls:
        await calls.started("first", one, rows(0))
        await calls.started("a", one, rows(1))
        await calls.started("b", one, rows(2))
        await calls.finish()
        a, b = calls.results["a"], calls.results["b"]
        a += 100
        # A write of one caller makes nothing pending for the other.
        assert np.asarray(b).tolist() == [[4.0, 4.0]]
        calls.start("read", lambda: a)
        await calls.finish()
        assert calls.values("read") == [[102.0, 102.0]]
        assert a._storage is not b._storage
        assert b._storage.nbytes == b.nbytes


async def test_every_output_of_a_structure_is_cut() -> None:
    @aj.jit
    def parts(x: Any) -> Any:
        y = x + 1
        return {"sum": x.sum(axis=1), "pair": (y, None, y), "turned": [anp.stack([x, y]).swapaxes(0, 1)]}

    one = parts.batched(4, FOREVER_S)
    async with callers() as calls:
        for name, first in (("first", 0), ("a", 1), ("b", 2)):
            await calls.started(name, one, rows(first))
        await calls.finish()
        for name, first in (("first", 0), ("a", 1), ("b", 2)):
            result = calls.results[name]
            assert np.asarray(result["sum"]).tolist() == [2.0 * first]
            assert result["pair"][1] is None
            assert result["pair"][0] is result["pair"][2]
            assert np.asarray(result["turned"][0]).tolist() == [[[first] * 2, [first + 1] * 2]]


async def test_shared_arguments_are_no_rows() -> None:
    @aj.jit
    def layer(x: Any, w: Any) -> Any:
        return x @ w

    one = layer.batched(4, FOREVER_S, shared="w")
    async with callers() as calls:
        w, other = anp.asarray(np.eye(2)), anp.asarray(np.eye(2) * 3)
        await one.prepare(aj.spec((1, 2), "float64"), aj.spec((2, 2), "float64"))
        for name, weights in (("first", w), ("a", w), ("b", other), ("c", w)):
            await calls.started(name, one, rows(5), weights)
        assert one.statistics().batches == 2
        calls.start("host", one, rows(5), np.eye(2))
        await calls.finish()
        assert [calls.values(name)[0][0] for name in ("first", "a", "b", "c")] == [5.0, 5.0, 15.0, 5.0]
        assert "shared" in str(calls.errors["host"])
    assert len(one.function.captures) == len(one.buckets)


async def test_prepare_captures_every_bucket_and_calls_capture_nothing_more() -> None:
    one = twice.batched(6, FOREVER_S)
    assert one.buckets == (1, 2, 4, 6)
    async with callers() as calls:
        await one.prepare(aj.spec((99, 2), "float64"))
        made = one.function.statistics().captures_made
        assert made == 4
        for name in "abcdefgh":
            calls.start(name, one, rows(1))
        await calls.finish()
        assert one.function.statistics().captures_made == made
    assert "batched twice" in repr(one)


async def test_in_a_recording_the_call_is_part_of_it() -> None:
    one = twice.batched(4, FOREVER_S)

    @aj.jit
    async def outer(x: Any) -> Any:
        return await one(x) + 1

    assert np.asarray(await outer(anp.ones(3))).tolist() == [3.0] * 3
    assert one.statistics().calls == 0


async def test_a_method_is_batched_for_its_instance() -> None:
    class Model:
        def __init__(self, factor: float) -> None:
            self.factor = anp.full(1, factor)

        @aj.jit
        def scale(self, x: Any) -> Any:
            return x * self.factor

    model, other = Model(2.0), Model(5.0)
    one, two = model.scale.batched(4, 0.0), other.scale.batched(4, 0.0)
    assert np.asarray(await one(rows(3))).tolist() == [[6.0, 6.0]]
    assert np.asarray(await two(rows(3))).tolist() == [[15.0, 15.0]]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"rows_max": 0, "wait_max_s": 1}, "rows_max must be at least 1"),
        ({"rows_max": 1, "wait_max_s": -1}, "wait_max_s at least 0"),
        ({"rows_max": 1, "wait_max_s": float("nan")}, "wait_max_s at least 0"),
        ({"rows_max": 4, "wait_max_s": 1, "buckets": (0, 8, 2)}, r"got \[0, 8\]"),
        ({"rows_max": 4, "wait_max_s": 1, "shared": "w"}, r"\['w'\].*\['x'\]"),
    ],
)
def test_options_are_checked_where_they_are_given(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        twice.batched(**arguments)


async def test_a_strict_function_has_room_for_one_bucket() -> None:
    @aj.jit(strict=True)
    def strict(x: Any) -> Any:
        return x + 1

    with pytest.raises(ValueError, match="strict"):
        strict.batched(4, 0.0)
    one = strict.batched(4, 0.0, buckets=(4,))
    assert np.asarray(await one(rows(1, 2))).tolist() == [[2.0, 2.0], [3.0, 3.0]]
