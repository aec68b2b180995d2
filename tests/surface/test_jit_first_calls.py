"""First calls: who records, what ``prepare`` and ``warm_up`` do, and what is told of the captures."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp


def ramp(count: int = 4, dtype: str = "float32") -> anp.Array:
    return anp.arange(count, dtype=dtype)


@aj.jit
def scale_and_shift(x: anp.Array, factor: Any = 2.0, shift: Any = 1.0) -> anp.Array:
    return x * factor + shift


async def test_a_function_that_raises_raises_at_the_call_and_is_not_captured() -> None:
    @aj.jit
    def broken(x: anp.Array) -> anp.Array:
        raise KeyError("missing")

    for _ in range(2):
        with pytest.raises(KeyError, match="missing"):
            broken(ramp())
    assert broken.captures == []


async def test_many_first_calls_at_once_fail_each_and_hang_none() -> None:
    calls: list[int] = []

    @aj.jit
    def broken(x: anp.Array) -> anp.Array:
        calls.append(1)
        raise RuntimeError("always")

    async def call() -> anp.Array:
        return await broken(ramp())

    results = await asyncio.gather(*(call() for _ in range(64)), return_exceptions=True)
    assert {type(each) for each in results} == {RuntimeError}
    assert len(calls) == 64


def test_callers_of_a_signature_that_is_being_captured_wait_for_it_in_order() -> None:
    entered, go = threading.Event(), threading.Event()
    state = anp.zeros(1)
    runs: list[str] = []

    @aj.jit
    def f(x: anp.Array, rate: float) -> anp.Array:
        runs.append(threading.current_thread().name)
        if len(runs) == 1:
            entered.set()
            assert go.wait(30)
            raise RuntimeError("the first one fails")
        state[...] = state * 10 + x * rate
        return state

    failed: list[BaseException] = []

    def lead() -> None:
        try:
            f(anp.ones(1), 9.0)
        except RuntimeError as error:
            failed.append(error)

    leader = threading.Thread(target=lead)
    leader.start()
    assert entered.wait(30)
    replays = [f(anp.ones(1), float(digit)) for digit in (1, 2, 3)]
    assert runs == [leader.name]
    go.set()
    assert [replay.wait().tolist() for replay in replays] == [[1.0], [12.0], [123.0]]
    leader.join()
    assert len(failed) == 1
    assert len(runs) == 2
    assert f.statistics().captures_made == 1
    assert [replay.ticket for replay in replays] == sorted(replay.ticket for replay in replays)


async def test_prepare_captures_and_lowers_before_the_first_call() -> None:
    runs: list[str] = []

    @aj.jit(static=("mode",))
    def work(x: anp.Array, rate: float, mode: str) -> anp.Array:
        runs.append(mode)
        return (x * rate + 1) * 2

    await work.prepare(aj.spec((4,), "float32"), 0.5, mode="fast")
    assert runs == ["fast"]
    entry: Any = work.match(ramp(), 0.25, "fast")
    assert entry.program.lowered
    assert np.asarray(await work(ramp(), 0.25, "fast")).tolist() == [2.0, 2.5, 3.0, 3.5]
    await work.prepare(aj.spec(4), 0.5, mode="fast")
    assert runs == ["fast"]
    assert work.captures == [f"{work.__qualname__}(x: float32[4], rate: float, mode='fast')"]


async def test_a_spec_is_for_prepare_only() -> None:
    with pytest.raises(aj.CaptureError, match=r"'x' is a spec.*prepare"):
        scale_and_shift(aj.spec(4))  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [-1, (2, -3)])
def test_a_spec_has_no_negative_extent(shape: Any) -> None:
    with pytest.raises(ValueError, match="negative"):
        aj.spec(shape)


async def test_warm_up_runs_the_function_eagerly_once() -> None:
    seen: list[str] = []

    @aj.jit(warm_up=1)
    async def f(x: anp.Array, rate: float) -> dict[str, Any]:
        doubled = await scale_and_shift(x)
        seen.append(repr(doubled)[:5])
        return {"sum": (doubled * rate).sum(), "none": None}

    first = f(ramp(), 0.5)
    assert f.captures == []
    second = f(ramp(), 0.5)
    assert len(f.captures) == 1
    assert [float((await each)["sum"]) for each in (first, second)] == [8.0, 8.0]
    await f(ramp(), 0.5)
    assert len(seen) == 2


async def test_warm_up_of_a_function_that_only_writes_state_is_a_replay_of_none() -> None:
    state = anp.zeros(2)

    @aj.jit(warm_up=1)
    def write(x: anp.Array) -> None:
        state[...] = state + x

    for _ in range(3):
        assert await write(anp.ones(2)) is None
    assert np.asarray(await state).tolist() == [3.0, 3.0]


async def test_reset_and_free_intermediates_change_no_result() -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        return ((x + 1) * 2 + x).sum()

    first = float(await f(ramp()))
    f.free_intermediates()
    f.free_intermediates()
    assert float(await f(ramp())) == first
    f.reset()
    assert f.captures == []
    assert f.statistics() == aj.jit(lambda x: x).statistics()
    assert float(await f(ramp())) == first


async def test_explain_lists_calls_with_their_sources() -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        return anp.exp(x) + 1

    assert f.explain() == ""
    await f(ramp())
    lines = f.explain().splitlines()
    assert lines[0] == f"{f.__qualname__}(x: float32[4])"
    assert [line.split()[:2] for line in lines[5:]] == [["0", "exp"], ["1", "add"]]
    assert all(__file__ in line for line in lines[5:])
    assert repr(f) == f"<jit {f.__qualname__}: 1 captured>"
