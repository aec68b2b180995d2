"""``assign`` and ``snapshot``: several arrays under one ticket."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp


async def test_assign_broadcasts_and_casts_as_numpys_assignment() -> None:
    targets = [anp.zeros((2, 3), dtype=dtype) for dtype in ("float32", "int8", "complex64", "bool")]
    values: list[Any] = [anp.arange(3), 7.9, np.array([[1j], [2]]), [[True], [False]]]
    hosts = [np.zeros((2, 3), each.dtype) for each in targets]
    for host, value in zip(hosts, values, strict=True):
        host[...] = np.asarray(await value) if isinstance(value, anp.Array) else value
    replay = aj.assign(dict(zip(targets, values, strict=True)))
    assert await replay is None
    for target, host in zip(targets, hosts, strict=True):
        np.testing.assert_array_equal(np.asarray(await target), host)


async def test_all_values_are_read_before_any_is_written() -> None:
    a, b = anp.zeros(2), anp.ones(2)
    await aj.assign({a: b, b: a})
    assert np.asarray(await a).tolist() == [1.0, 1.0]
    assert np.asarray(await b).tolist() == [0.0, 0.0]
    c = anp.arange(4, dtype="float64")
    await aj.assign({c[1:]: c[:-1]})
    assert np.asarray(await c).tolist() == [0.0, 0.0, 1.0, 2.0]


async def test_calls_that_overlap_in_ever_new_ways_are_all_taken() -> None:
    x = anp.arange(8, dtype="float64")
    host = np.arange(8.0)
    await aj.assign({anp.zeros(3): anp.ones(3)})
    for target, source in [(0, 1), (1, 0), (2, 2), (0, 5), (3, 1)]:
        await aj.assign({x[target : target + 3]: x[source : source + 3]})
        host[target : target + 3] = host[source : source + 3].copy()
        assert np.asarray(await x).tolist() == host.tolist()


async def test_assign_into_views_writes_the_array_behind_them() -> None:
    x = anp.zeros((2, 2))
    await aj.assign({x[0]: 1.0, x[1, ::-1]: [2.0, 3.0]})
    assert np.asarray(await x).tolist() == [[1.0, 1.0], [3.0, 2.0]]


async def test_no_reader_sees_a_mix_and_no_snapshot_falls_between() -> None:
    arrays = [anp.zeros(1000) for _ in range(6)]

    @aj.jit
    def spread(*xs: anp.Array) -> anp.Array:
        stacked = anp.stack(xs)
        return stacked.max() - stacked.min()

    async def write() -> None:
        for value in range(30):
            await aj.assign(dict.fromkeys(arrays, value))

    async def read() -> list[float]:
        seen = []
        for _ in range(30):
            seen.append(float(await spread(*arrays)))
            copies = await aj.snapshot(*arrays)
            seen.append(max(float(each[0]) for each in copies) - min(float(each[-1]) for each in copies))
        return seen

    _, seen, more = await asyncio.gather(write(), read(), read())
    assert set(seen + more) == {0.0}


async def test_new_numbers_and_shapes_of_values_do_not_pile_up_captures() -> None:
    from asyncjit.jit import state

    x = anp.zeros(2)
    await aj.assign({x: 1})
    before = state._assigned.statistics().captures
    for value in range(2, 20):
        await aj.assign({x: value})
    assert state._assigned.statistics().captures == before
    assert np.asarray(await x).tolist() == [19.0, 19.0]


async def test_a_snapshot_does_not_change_and_takes_one_ticket() -> None:
    x, y = anp.zeros(2), anp.arange(6, dtype="int16").reshape(2, 3).T
    replay = aj.snapshot(x, y)
    later = aj.snapshot(x)
    assert later.ticket == replay.ticket + 1
    x += 1
    copied_x, copied_y = await replay
    assert np.asarray(copied_x).tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(np.asarray(copied_y), np.arange(6).reshape(2, 3).T)
    (again,) = await later
    assert np.asarray(again).tolist() == [0.0, 0.0]


async def test_inside_a_function_both_are_part_of_it() -> None:
    w, v = anp.zeros(2), anp.ones(2)

    @aj.jit
    async def f(x: anp.Array) -> anp.Array:
        before, _ = await aj.snapshot(w, v)
        await aj.assign({w: v + x, v: [5.0, 6.0]})
        return before + w

    assert np.asarray(await f(anp.ones(2))).tolist() == [2.0, 2.0]
    assert np.asarray(await f(anp.ones(2))).tolist() == [8.0, 9.0]
    assert np.asarray(await v).tolist() == [5.0, 6.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: aj.assign({}), "no arrays"),
        (lambda: aj.assign({"w": 1}), "a str as a key"),  # type: ignore[dict-item]
        (lambda: aj.snapshot(), "no arrays"),
        (lambda: aj.snapshot(anp.zeros(1), np.zeros(1)), "argument 1 is a ndarray"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_array_is_refused(call: Any, message: str) -> None:
    with pytest.raises(aj.CaptureError, match=message):
        call()


async def test_a_value_that_does_not_fit_is_numpys_error_and_nothing_is_written() -> None:
    x, y = anp.zeros(2), anp.zeros(3)
    with pytest.raises(ValueError, match="shape"):
        aj.assign({x: 1.0, y: anp.ones(2)})
    assert np.asarray(await x).tolist() == [0.0, 0.0]
