"""What can be jitted: functions, methods, callables; and options that are refused."""

from __future__ import annotations

import functools
import gc
import operator
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp


class Counter:
    def __init__(self, start: float) -> None:
        self.total = anp.full(2, start)

    @aj.jit
    def add(self, x: anp.Array, times: float = 1.0) -> anp.Array:
        """Add x."""
        self.total[...] = self.total + x * times
        return self.total

    @aj.jit(warm_up=1)
    def double(self, x: anp.Array) -> anp.Array:
        return x * 2


async def test_captures_of_a_method_belong_to_the_instance() -> None:
    one, two = Counter(0.0), Counter(100.0)
    x = anp.ones(2)
    assert np.asarray(await one.add(x)).tolist() == [1.0, 1.0]
    assert np.asarray(await two.add(x, times=2.0)).tolist() == [102.0, 102.0]
    assert np.asarray(await one.add(x)).tolist() == [2.0, 2.0]
    assert len(one.add.captures) == len(two.add.captures) == 1
    assert Counter.add.captures == []
    assert one.add == one.add
    assert len({one.add, one.add, two.add}) == 2
    assert one.add.__name__ == "add"
    assert one.add.__doc__ == "Add x."


async def test_an_instance_dies_with_its_captures() -> None:
    counter = Counter(0.0)
    await counter.add(anp.ones(2))
    gone = weakref.ref(counter)
    instances: dict[int, Any] = Counter.add._instances
    key = id(counter)
    assert key in instances
    del counter
    gc.collect()
    assert gone() is None
    assert key not in instances


async def test_a_method_of_an_instance_without_weak_references_names_the_remedy() -> None:
    class Bare:
        __slots__ = ()

        @aj.jit
        def step(self, x: anp.Array) -> anp.Array:
            return x + 1

    with pytest.raises(aj.CaptureError, match="__weakref__"):
        Bare().step(anp.ones(1))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (staticmethod(lambda x: x), "below @staticmethod"),
        (classmethod(lambda x: x), "below @classmethod"),
        (3, "takes a function"),
        ((lambda: (yield)), "generator"),
    ],
)
def test_what_is_no_plain_function_is_refused(function: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        aj.jit(function)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"static": "y"}, "'y' is no parameter"),
        ({"static": "x", "dynamic": "x"}, "static and dynamic"),
        ({"warm_up": 2}, "warm_up"),
        ({"in_flight_max": 0}, "in_flight_max"),
        ({"captures_max": 0}, "captures_max"),
        ({"on_cancel": "stop"}, "on_cancel"),
        ({"executor": "gpu"}, "executor"),
    ],
)
def test_options_out_of_range_are_refused_where_they_are_given(options: dict[str, Any], message: str) -> None:
    def f(x: anp.Array) -> anp.Array:
        return x

    with pytest.raises(ValueError, match=message):
        aj.jit(f, **options)


def test_callables_of_all_kinds_can_be_jitted() -> None:

    class Add:
        def __init__(self, value: float) -> None:
            self.value = value

        def __call__(self, x: anp.Array) -> anp.Array:
            return x + self.value

    def add(value: float, x: anp.Array) -> anp.Array:
        return x + value

    total = aj.jit(operator.methodcaller("sum", axis=0))
    assert float(total.run(anp.ones(3))) == 3.0
    assert total.captures[0].startswith("operator.methodcaller")
    kinds: list[Callable[..., Any]] = [Add(1.0), functools.partial(add, 1.0), Add(1.0).__call__, lambda x: x + 1]
    for kind in kinds:
        assert np.asarray(aj.jit(kind).run(anp.zeros(1))).tolist() == [1.0]


@pytest.mark.parametrize("jit", ["on", "off"])
async def test_a_body_may_await_arrays_whatever_is_on_its_way(jit: str) -> None:
    state = anp.zeros(200_000)

    @aj.jit
    async def f(x: anp.Array) -> anp.Array:
        state[...] = state + x
        return await (await state + await x).sum()

    with aj.override_settings(jit=jit):
        for turn in range(1, 5):
            state[...] = state * 1
            assert float(await f(anp.ones(200_000))) == 200_000 * (turn + 1)
        assert (await f.check(anp.ones(200_000))).ok
