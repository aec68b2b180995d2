"""Arrays that outlive the function that made them, and host data that it meets."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp


class Momentum:
    def __init__(self) -> None:
        self.velocity: Any = None
        self.table: Any = None
        self.view: Any = None

    @aj.jit
    def step(self, x: anp.Array) -> anp.Array:
        if self.velocity is None:
            self.velocity = anp.zeros((2,), dtype="float64")
            self.velocity[1:] = anp.ones(1) * 2 + anp.asarray([3.0])
            self.table = anp.asarray([10.0, 20.0])
            self.view = self.velocity[::-1]
        self.velocity[...] = self.velocity * 0.5 + x
        return self.velocity + self.table


async def test_constants_that_are_kept_become_state_made_once() -> None:
    model = Momentum()
    x = anp.ones(2)
    results = [np.asarray(await model.step(x)).tolist() for _ in range(3)]
    assert results == [[11.0, 23.5], [11.5, 22.75], [11.75, 22.375]]
    assert len(model.step.captures) == 1
    assert np.asarray(await model.velocity).tolist() == [1.75, 2.375]
    assert np.asarray(await model.view).tolist() == [2.375, 1.75]
    assert np.asarray(await model.table).tolist() == [10.0, 20.0]
    model.velocity[...] = 0
    assert np.asarray(await model.step(anp.zeros(2))).tolist() == [10.0, 20.0]


async def test_a_constant_that_is_read_before_it_is_changed_is_kept_as_it_was_read() -> None:
    kept: list[Any] = []

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        if not kept:
            kept.append(anp.zeros(1))
        y = x + kept[0]
        kept[0][...] = 5
        return y

    assert [float((await f(anp.ones(1)))[0]) for _ in range(3)] == [1.0, 6.0, 6.0]


async def test_a_kept_array_that_depends_on_the_call_is_refused_with_the_remedy() -> None:
    kept: list[Any] = []

    @aj.jit
    def result(x: anp.Array) -> anp.Array:
        kept.append(x * 2)
        return x + 1

    @aj.jit
    def argument(x: anp.Array) -> anp.Array:
        kept.append(x)
        return x + 1

    for f, what in ((result, "an array made at"), (argument, "argument 'x'")):
        with pytest.raises(aj.CaptureError, match=what) as caught:
            f(anp.zeros(2))
        assert "self.m[...]" in str(caught.value)
    with pytest.raises(aj.CaptureError, match="outside"):
        kept[0] + 1
    with pytest.raises(aj.CaptureError, match="outside"):
        result(kept[0])
    with pytest.raises(aj.CaptureError, match="outside"):
        np.asarray(kept[0])
    with pytest.raises(aj.CaptureError, match="outside"):
        await kept[0]


async def test_arrays_in_reference_cycles_were_not_kept() -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        cycle: list[Any] = [x * 2]
        cycle.append(cycle)
        return x + 1

    gc.disable()
    try:
        await f(anp.zeros(2))
    finally:
        gc.enable()
    assert len(f.captures) == 1


async def test_host_data_is_copied_when_it_is_met_and_fresh_in_each_replay() -> None:
    host = np.ones(2)

    @aj.jit
    def f(x: anp.Array) -> tuple[anp.Array, anp.Array]:
        constant = anp.asarray(host)
        before = constant * 1
        constant += x
        return before, constant

    for _ in range(3):
        before, after = await f(anp.ones(2))
        assert np.asarray(before).tolist() == [1.0, 1.0]
        assert np.asarray(after).tolist() == [2.0, 2.0]
        host[:] = 7


async def test_collection_in_the_middle_of_a_recording_changes_nothing() -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        garbage: list[Any] = [anp.zeros(3) for _ in range(5)]
        garbage.append(garbage)
        del garbage
        y = x + 1
        gc.collect()
        return y * 2

    assert np.asarray(await f(anp.zeros(2))).tolist() == [2.0, 2.0]


async def test_an_operation_with_two_results_makes_constants_too() -> None:
    class Model:
        digits: tuple[anp.Array, anp.Array] | None = None

        @aj.jit
        def f(self, x: anp.Array) -> anp.Array:
            if self.digits is None:
                self.digits = divmod(anp.arange(4) * 7, 10)
            return x + self.digits[0] * 100 + self.digits[1]

    model = Model()
    for _ in range(2):
        assert np.asarray(await model.f(anp.zeros(4, dtype="int64"))).tolist() == [0, 7, 104, 201]
    assert model.digits is not None
    assert np.asarray(await model.digits[0]).tolist() == [0, 0, 1, 2]
