"""Calling a jitted function: spellings, structures, ``async def`` bodies, inlining, ``run``, engines."""

from __future__ import annotations

import asyncio
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
    assert results[2].strides == (8,)
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


async def test_a_task_started_in_a_recording_calls_jitted_functions_as_anybody_does() -> None:
    tasks: list[asyncio.Task[Any]] = []
    state = ramp(2)

    async def later() -> Any:
        return await scale_and_shift(state)

    @aj.jit
    def outer(x: anp.Array) -> anp.Array:
        tasks.append(asyncio.get_running_loop().create_task(later()))
        return x + 1

    before = scale_and_shift.statistics().replays
    await outer(ramp(2))
    assert np.asarray(await tasks[0]).tolist() == [1.0, 3.0]
    assert scale_and_shift.statistics().replays == before + 1


async def test_a_body_that_really_waits_is_refused_by_name_and_line() -> None:
    @aj.jit
    async def lazy(x: anp.Array) -> anp.Array:
        await asyncio.sleep(0)
        return x + 1

    with pytest.raises(aj.CaptureError, match=r"await asyncio\.sleep\(0\)") as caught:
        lazy(ramp())
    assert __file__ in str(caught.value.where)
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


async def test_run_refuses_a_running_loop_and_says_what_to_write() -> None:
    with pytest.raises(aj.WouldBlockError, match=r"await scale_and_shift"):
        scale_and_shift.run(ramp())


def test_run_blocks_in_a_plain_script() -> None:
    assert np.asarray(scale_and_shift.run(ramp(2))).tolist() == [1.0, 3.0]


async def test_a_call_with_arrays_of_another_engine_is_refused() -> None:
    x = ramp()
    async with aj.Engine():
        inside = ramp()
        await scale_and_shift(inside)
        await scale_and_shift(inside, inside, inside)
        calls: list[Callable[[], Any]] = [
            lambda: scale_and_shift(x),
            lambda: scale_and_shift(x, shift=3.0),
            lambda: scale_and_shift(inside, x, inside),
        ]
        for call in calls:
            with pytest.raises(aj.CaptureError, match="'(x|factor)' .*another engine"):
                call()
    assert np.asarray(await scale_and_shift(x)).shape == (4,)
    with pytest.raises(aj.CaptureError, match="another engine"):
        scale_and_shift(inside)
