"""Names outside a function: a change captures anew, and only a change."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp

SCALE = 2.0
BIAS: Any = 1.0


def helper(x: anp.Array) -> anp.Array:
    return x * SCALE


def uses_helper(x: anp.Array) -> anp.Array:
    return helper(x) + BIAS


@aj.jit
def through_helper(x: anp.Array) -> anp.Array:
    return uses_helper(x)


async def value(f: Any, *args: Any) -> float:
    return float((await f(anp.ones(1), *args))[0])


async def test_globals_of_helpers_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    through_helper.reset()
    assert await value(through_helper) == 3.0
    assert await value(through_helper) == 3.0
    assert len(through_helper.captures) == 1
    monkeypatch.setitem(globals(), "SCALE", 10.0)
    assert await value(through_helper) == 11.0
    monkeypatch.setitem(globals(), "BIAS", anp.full(1, 5.0))
    assert await value(through_helper) == 15.0
    monkeypatch.undo()
    assert await value(through_helper) == 3.0
    assert through_helper.statistics().captures_made == 3


async def test_a_helper_that_is_replaced_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    through_helper.reset()
    assert await value(through_helper) == 3.0
    monkeypatch.setitem(globals(), "helper", lambda x: x * 100)
    assert await value(through_helper) == 101.0


async def test_a_jitted_callee_is_watched_too(monkeypatch: pytest.MonkeyPatch) -> None:
    @aj.jit
    def outer(x: anp.Array) -> anp.Array:
        result: Any = through_helper(x)
        return result

    assert await value(outer) == 3.0
    monkeypatch.setitem(globals(), "SCALE", 7.0)
    assert await value(outer) == 8.0


async def test_closure_cells_are_watched() -> None:
    factor = 2.0
    weight = anp.full(1, 3.0)

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        return (lambda y: y * factor)(x) * weight

    assert await value(f) == 6.0
    factor = 4.0
    assert await value(f) == 12.0
    weight[...] = 5.0
    assert await value(f) == 20.0
    assert f.statistics().captures_made == 2
    weight = anp.full(1, 1.0)
    assert await value(f) == 4.0
    assert f.statistics().captures_made == 3


async def test_a_name_that_the_function_rebinds_itself_does_not_capture_for_ever() -> None:
    runs = 0

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        nonlocal runs
        runs += 1
        return x + 1

    for _ in range(3):
        await value(f)
    assert runs == 1
    assert f.statistics().captures_made == 1


async def test_a_name_that_is_rebound_without_a_change_stays_watched() -> None:
    state: Any = anp.zeros(1)

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        nonlocal state
        state += x
        return state

    assert await value(f) == 1.0
    assert await value(f) == 2.0
    assert f.statistics().captures_made == 1
    state = anp.full(1, 10.0)
    assert await value(f) == 11.0
    assert np.asarray(await state).tolist() == [11.0]


async def test_names_that_appear_later_and_empty_cells_are_noticed() -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        try:
            return x + late
        except NameError:
            return x

    with pytest.raises(aj.NothingCapturedError):
        f(anp.ones(1))
    late = 5.0
    assert await value(f) == 6.0
    del late
    with pytest.raises(aj.NothingCapturedError):
        f(anp.ones(1))


async def test_strict_names_the_name_that_changed() -> None:
    factor = 2.0

    @aj.jit(strict=True)
    def f(x: anp.Array) -> anp.Array:
        return x * factor

    await value(f)
    factor = 3.0
    with pytest.raises(aj.ReplayMismatchError, match="name 'factor' outside.*2.0.*3.0"):
        f(anp.ones(1))


async def test_code_of_other_packages_is_taken_as_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    other = types.ModuleType("some_other_package")
    exec("LIMIT = 2.0\ndef clip(x):\n    return x * LIMIT", other.__dict__)
    clip = other.clip

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        result: Any = clip(x)
        return result

    assert await value(f) == 2.0
    monkeypatch.setattr(other, "LIMIT", 9.0)
    assert await value(f) == 2.0


async def test_captures_of_names_no_longer_bound_go_when_there_are_too_many() -> None:
    factor = 0

    @aj.jit(captures_max=2)
    def f(x: anp.Array) -> anp.Array:
        return x * factor

    for factor in range(5):
        assert await value(f) == factor
    assert f.statistics().captures == 2
    assert f.statistics().captures_dropped == 3
