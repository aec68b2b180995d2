"""Arguments that share memory, with each other and with state: the result of a serial run, or AliasError."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncjit as aj
import asyncjit.numpy as anp


def ramp(count: int) -> anp.Array:
    return anp.arange(count, dtype="float64")


@aj.jit
def total(x: anp.Array, y: anp.Array) -> anp.Array:
    return x * 10 + y


@aj.jit
def shift_into(x: anp.Array, y: anp.Array) -> None:
    x += 1
    y *= 2


async def test_the_same_array_twice_is_fine_while_neither_is_written() -> None:
    total.reset()
    x = ramp(6)
    for first, second in [(x[:3], x[3:]), (x[:3], x[:3]), (x[:3], x[1:4]), (x[:3], x[2:5])]:
        expected = np.asarray(await first) * 10 + np.asarray(await second)
        np.testing.assert_array_equal(np.asarray(await total(first, second)), expected)
    assert len(total.captures) == 1


async def test_a_written_argument_that_begins_to_overlap_is_refused_with_both_names() -> None:
    shift_into.reset()
    await shift_into(ramp(3), ramp(3))
    x = ramp(6)
    with pytest.raises(aj.AliasError, match=r"'x' and 'y'.*copy\(\)") as caught:
        shift_into(x[:3], x[2:5])
    assert caught.value.names == ("x", "y")
    assert caught.value.written == ("x", "y")
    await shift_into(x[:3], x[3:])
    assert np.asarray(await x).tolist() == [1.0, 2.0, 3.0, 6.0, 8.0, 10.0]


async def test_a_capture_made_with_overlaps_holds_for_that_pattern() -> None:
    shift_into.reset()
    x = ramp(5)
    await shift_into(x[:3], x[1:4])
    assert np.asarray(await x).tolist() == [1.0, 4.0, 6.0, 6.0, 4.0]
    y = ramp(6)
    await shift_into(y[2:5], y[3:])
    assert np.asarray(await y).tolist() == [0.0, 1.0, 3.0, 8.0, 10.0, 10.0]
    assert len(shift_into.captures) == 1
    await shift_into(ramp(3), ramp(3))
    assert len(shift_into.captures) == 2
    await shift_into(x[:3], x[1:4])
    with pytest.raises(aj.AliasError):
        shift_into(x[:3], x[:3])


async def test_columns_of_one_matrix_do_not_overlap() -> None:
    shift_into.reset()
    matrix = anp.zeros((3, 4))
    await shift_into(matrix[:, 0], matrix[:, 1])
    for first, second in [(2, 3), (0, 3), (1, 2)]:
        await shift_into(matrix[:, first], matrix[:, second])
    assert len(shift_into.captures) == 1
    with pytest.raises(aj.AliasError):
        shift_into(matrix[:, 1], matrix[:, 1])


async def test_state_that_is_written_may_not_come_in_as_an_argument() -> None:
    state = ramp(4)

    @aj.jit
    def add(x: anp.Array) -> None:
        state[:2] = state[:2] + x

    await add(anp.ones(2))
    with pytest.raises(aj.AliasError, match="'x'.*state 'state'") as caught:
        add(state[1:3])
    assert caught.value.names == ("x",)
    await add(state[2:])
    assert np.asarray(await state).tolist() == [3.0, 5.0, 2.0, 3.0]


async def test_state_of_an_object_is_called_by_its_attribute() -> None:
    class Model:
        def __init__(self) -> None:
            self.weight = ramp(2)

    model = Model()

    @aj.jit
    def add(x: anp.Array) -> None:
        model.weight[...] = model.weight + x

    await add(anp.ones(2))
    with pytest.raises(aj.AliasError, match="state 'model.weight'"):
        add(model.weight)


async def test_a_written_argument_may_not_be_state_that_is_read() -> None:
    state = ramp(2)

    @aj.jit
    def add(x: anp.Array) -> None:
        x += state

    await add(anp.ones(2))
    with pytest.raises(aj.AliasError, match="'x'.*state"):
        add(state)


async def test_state_that_is_only_read_may_come_in_as_an_argument() -> None:
    state = ramp(2)

    @aj.jit
    def add(x: anp.Array) -> anp.Array:
        return x + state

    assert np.asarray(await add(anp.ones(2))).tolist() == [1.0, 2.0]
    assert np.asarray(await add(state)).tolist() == [0.0, 2.0]
    assert len(add.captures) == 1


async def test_a_capture_made_with_state_as_an_argument_holds_for_that_array() -> None:
    state = ramp(3)

    @aj.jit
    def add(x: anp.Array) -> anp.Array:
        state[...] = state + 1
        return x * 10

    assert np.asarray(await add(state)).tolist() == [10.0, 20.0, 30.0]
    assert np.asarray(await add(state)).tolist() == [20.0, 30.0, 40.0]
    assert len(add.captures) == 1
    assert np.asarray(await add(anp.ones(3))).tolist() == [10.0] * 3
    assert len(add.captures) == 2
    assert np.asarray(await add(state)).tolist() == [40.0, 50.0, 60.0]
    assert np.asarray(await state).tolist() == [4.0, 5.0, 6.0]


async def test_state_that_is_read_beside_a_written_argument_is_bound_as_one_buffer_with_it() -> None:
    state = ramp(3)

    @aj.jit
    def add(x: anp.Array) -> anp.Array:
        x += 1
        return state * 10

    assert np.asarray(await add(state)).tolist() == [10.0, 20.0, 30.0]
    assert np.asarray(await add(state)).tolist() == [20.0, 30.0, 40.0]
    entry: Any = add.match(state)
    assert [slot.kind.value for slot in entry.program.schedule.slots] == ["state", "output"]


async def test_captures_that_hold_for_one_array_go_when_there_are_too_many() -> None:
    state = ramp(6)

    @aj.jit(captures_max=2)
    def bump(x: anp.Array) -> None:
        state[...] = state + 1
        x *= 2

    host = np.arange(6.0)
    for start in (0, 1, 2, 0, 3):
        await bump(state[start : start + 2])
        host += 1
        host[start : start + 2] *= 2
    assert np.asarray(await state).tolist() == host.tolist()
    assert bump.statistics().captures == 2


async def test_many_views_of_one_buffer_are_matched_without_comparing_all_pairs() -> None:
    @aj.jit
    def gather(*xs: anp.Array) -> anp.Array:
        return anp.stack(xs).sum(axis=0)

    flat = ramp(100)
    views = [flat[index : index + 2] for index in range(0, 100, 2)]
    assert np.asarray(await gather(*views)).tolist() == [2450.0, 2500.0]
    assert np.asarray(await gather(*views[::-1])).tolist() == [2450.0, 2500.0]
    assert len(gather.captures) == 1


SPANS = st.tuples(st.integers(0, 5), st.integers(0, 5))


@settings(max_examples=60, deadline=None)
@given(calls=st.lists(st.tuples(SPANS, st.booleans()), min_size=1, max_size=5))
def test_whatever_overlaps_the_result_is_the_serial_one_or_an_error(calls: list[tuple[tuple[int, int], bool]]) -> None:
    """Views of one buffer of eight, three elements long, passed to a function that writes both and state."""
    state = ramp(8)
    host = np.arange(8.0)

    def body(x: Any, y: Any, own: Any) -> None:
        x += 1
        y *= 2
        own[2:4] = own[2:4] + x[0]

    @aj.jit(captures_max=50)
    def f(x: anp.Array, y: anp.Array) -> None:
        body(x, y, state)

    for (a, b), fresh in calls:
        if fresh:
            f.run(ramp(3), ramp(3))
            host[2:4] = host[2:4] + 1
            continue
        before = np.asarray(state)
        try:
            f.run(state[a : a + 3], state[b : b + 3])
        except aj.AliasError:
            np.testing.assert_array_equal(np.asarray(state), before)
        else:
            body(host[a : a + 3], host[b : b + 3], host)
        np.testing.assert_array_equal(np.asarray(state), host)
