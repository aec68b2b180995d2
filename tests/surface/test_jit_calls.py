"""Calling a jitted function: spellings, structures, ``async def`` bodies, inlining, methods, ``run`` and
``prepare``."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp


def ramp(count: int = 4, dtype: str = "float32") -> anp.Array:
    return anp.arange(count, dtype=dtype)


@aj.jit
def scale_and_shift(x: anp.Array, factor: Any = 2.0, shift: Any = 1.0) -> anp.Array:
    return x * factor + shift


async def test_awaiting_a_call_gives_what_the_function_returns() -> None:
    result = await scale_and_shift(ramp(), 3.0, 0.5)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(result), np.arange(4, dtype=np.float32) * 3 + 0.5)


async def test_every_spelling_of_a_call_is_one_capture() -> None:
    scale_and_shift.reset()
    x = ramp()
    replays = [
        scale_and_shift(x, 2.0, 1.0),
        scale_and_shift(x, 2.0),
        scale_and_shift(x),
        scale_and_shift(x=x, shift=1.0),
        scale_and_shift(x, shift=1.0, factor=2.0),
    ]
    values = [np.asarray(await replay).tolist() for replay in replays]
    assert values == [[1.0, 3.0, 5.0, 7.0]] * 5
    assert len(scale_and_shift.captures) == 1
    assert scale_and_shift.statistics().replays == 5


async def test_variable_and_keyword_only_parameters_keep_their_places() -> None:
    @aj.jit
    def weigh(first: anp.Array, *rest: anp.Array, bias: anp.Array, **named: anp.Array) -> anp.Array:
        total = first + bias
        for each in rest:
            total = total * 2 + each
        return total - named["minus"]

    one, two, three = (anp.full(2, value) for value in (1.0, 2.0, 3.0))
    result = await weigh(one, two, three, bias=one, minus=two)
    assert np.asarray(result).tolist() == [(2 * 2 + 2) * 2 + 3 - 2] * 2
    await weigh(one, two, three, minus=two, bias=one)
    assert len(weigh.captures) == 1


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1, 2, 3, 4), {}), ((), {"y": 1}), ((1,), {"x": 1})],
)
async def test_a_call_that_does_not_fit_raises_pythons_error(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"scale_and_shift\(\)"):
        scale_and_shift(*args, **kwargs)


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Layer:
    weight: Any
    bias: Any


async def test_structures_go_in_and_come_out_with_their_types() -> None:
    @aj.jit
    def rebuild(model: Layer, batch: dict[str, list[Any]], pair: Pair) -> Any:
        h = batch["x"][0] @ model.weight + model.bias
        return OrderedDict(h=Pair(h, None), rest=[pair.right, (h * 2,)], layer=Layer(h + 1, pair.left))

    model = Layer(anp.ones((3, 2)), anp.zeros(2))
    result = await rebuild(model, {"x": [anp.ones((1, 3)), None]}, Pair(anp.zeros(1), anp.ones(1)))
    assert isinstance(result, OrderedDict)
    assert list(result) == ["h", "rest", "layer"]
    assert isinstance(result["h"], Pair)
    assert result["h"].right is None
    assert np.asarray(result["rest"][1][0]).tolist() == [[6.0, 6.0]]
    assert np.asarray(result["layer"].weight).tolist() == [[4.0, 4.0]]
    assert np.asarray(result["layer"].bias).tolist() == [0.0]


async def test_an_array_returned_twice_is_one_array_and_its_views_are_their_own() -> None:
    @aj.jit
    def twice(x: anp.Array) -> tuple[anp.Array, ...]:
        y = x + 1
        return y, y, y[::-1], y[:1]

    same, again, reversed_, first = await twice(ramp())
    assert same is again
    same += 10
    assert np.asarray(await reversed_).tolist() == [4.0, 3.0, 2.0, 1.0]
    assert np.asarray(await first).tolist() == [1.0]
    assert np.asarray(await again).tolist() == [11.0, 12.0, 13.0, 14.0]


async def test_outputs_are_new_buffers_even_of_inputs_state_and_broadcasts() -> None:
    state = anp.zeros(3)

    @aj.jit
    def give(x: anp.Array) -> tuple[anp.Array, ...]:
        state[...] = x
        return x, state, anp.broadcast_to(x[:1] * 2, (3,)), x.T

    x = ramp(3, "float64")
    results = await give(x)
    held = [np.asarray(each).tolist() for each in results]
    x += 100
    state += 1000
    await give(x)
    assert held == [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0.0, 0.0, 0.0], [0.0, 1.0, 2.0]]
    assert [np.asarray(await each).tolist() for each in results] == held
    assert all(each._storage is not x._storage for each in results)


async def test_a_transposed_result_is_a_view_without_a_copy() -> None:
    @aj.jit
    def turn(x: anp.Array) -> anp.Array:
        return (x + 1).T

    x = anp.arange(6, dtype="float32").reshape(2, 3)
    result = await turn(x)
    assert result.strides == (4, 12)
    np.testing.assert_array_equal(np.asarray(result), (np.arange(6, dtype=np.float32).reshape(2, 3) + 1).T)
    assert len(turn.explain().splitlines()) == 6


async def test_an_async_body_awaits_jitted_callees_and_arrays() -> None:
    @aj.jit
    async def outer(x: anp.Array) -> anp.Array:
        replay = scale_and_shift(x)
        y = await replay
        assert replay.result is y  # type: ignore[unreachable]
        z = await (y + 1)
        return await inner(z)

    @aj.jit
    async def inner(x: anp.Array) -> anp.Array:
        return x * 10

    assert np.asarray(await outer(ramp(2))).tolist() == [20.0, 40.0]
    assert len(outer.captures) == 1


async def test_callees_in_a_plain_body_give_arrays_and_take_no_ticket() -> None:
    @aj.jit
    async def inner(x: anp.Array) -> anp.Array:
        return x * 10

    @aj.jit
    def outer(x: anp.Array) -> anp.Array:
        direct: Any = inner(x)
        return direct + inner.run(x) + scale_and_shift(np.ones(1, "float32"))  # type: ignore[operator]

    inner_before = inner.statistics().replays
    assert np.asarray(await outer(ramp(2))).tolist() == [3.0, 23.0]
    assert inner.statistics().replays == inner_before


async def test_a_body_that_really_waits_is_refused_by_name_and_line() -> None:
    @aj.jit
    async def lazy(x: anp.Array) -> anp.Array:
        await asyncio.sleep(0)
        return x + 1

    with pytest.raises(aj.CaptureError, match=r"await asyncio\.sleep\(0\)") as caught:
        lazy(ramp())
    assert "test_jit_calls.py" in str(caught.value.where)
    assert caught.value.awaited == "sleep"


async def test_cleanup_that_raises_does_not_hide_why_the_body_was_refused() -> None:
    @aj.jit
    async def stubborn(x: anp.Array) -> anp.Array:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise OSError("cleanup")
        return x

    with pytest.raises(aj.CaptureError, match="a Future"):
        stubborn(ramp())


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


async def test_run_refuses_a_running_loop_and_says_what_to_write() -> None:
    with pytest.raises(aj.WouldBlockError, match=r"await scale_and_shift"):
        scale_and_shift.run(ramp())


def test_run_blocks_in_a_plain_script() -> None:
    assert np.asarray(scale_and_shift.run(ramp(2))).tolist() == [1.0, 3.0]


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
    assert all("test_jit_calls.py" in line for line in lines[5:])
    assert repr(f) == f"<jit {f.__qualname__}: 1 captured>"


async def test_a_call_with_arrays_of_another_engine_is_refused() -> None:
    x = ramp()
    async with aj.Engine():
        inside = ramp()
        await scale_and_shift(inside)
        for call in (lambda: scale_and_shift(x), lambda: scale_and_shift(x, shift=3.0)):
            with pytest.raises(aj.CaptureError, match="'x' .*another engine"):
                call()
    assert np.asarray(await scale_and_shift(x)).shape == (4,)
    with pytest.raises(aj.CaptureError, match="another engine"):
        scale_and_shift(inside)


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
    import functools

    class Add:
        def __init__(self, value: float) -> None:
            self.value = value

        def __call__(self, x: anp.Array) -> anp.Array:
            return x + self.value

    def add(value: float, x: anp.Array) -> anp.Array:
        return x + value

    kinds: list[Callable[..., Any]] = [Add(1.0), functools.partial(add, 1.0), Add(1.0).__call__, lambda x: x + 1]
    for kind in kinds:
        assert np.asarray(aj.jit(kind).run(anp.zeros(1))).tolist() == [1.0]
