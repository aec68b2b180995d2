"""Which calls share a capture and which make a new one."""

from __future__ import annotations

import enum
import math
import warnings
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


def probe(**options: Any) -> Any:
    """A function of an array and anything."""

    def probed(x: anp.Array, other: Any = None) -> anp.Array:
        return x + 1

    return aj.jit(probed, captures_max=100, **options)


async def captures_of(f: Any, *others: Any) -> int:
    x = anp.zeros(2)
    for other in others:
        await f(x, other)
    return len(f.captures)


@pytest.mark.parametrize(
    "others",
    [
        (0.5, 1.5, -0.0, math.nan, math.inf),
        (1j, 2 + 1j),
        (True, True),
        (3, 3),
        ("a", "a"),
        (b"a", b"a"),
        (None, None),
        (Colour.RED, Colour.RED),
        (np.dtype("float32"), np.dtype("float32")),
        (np.float32, np.float32),
        (float, float),
        ((1, "a", None), (1, "a", None)),
        ([1.5, {"k": 2.5}], [3.5, {"k": 4.5}]),
        (np.float32(1), np.float32(2)),
        (np.arange(3), np.arange(3) + 1),
        (np.arange(6).reshape(2, 3).T, np.zeros((3, 2), int)),
    ],
    ids=repr,
)
async def test_these_values_share_a_capture(others: tuple[Any, ...]) -> None:
    assert await captures_of(probe(), *others) == 1


@pytest.mark.parametrize(
    "others",
    [
        (1, True, 1.0, "1", None, Level.LOW),
        (1.0, 1j, np.float32(1), np.float64(1)),
        (Colour.RED, Colour.BLUE),
        (np.dtype("float32"), np.dtype("float64"), np.float32),
        ((1,), [1], (1, 2), {"a": 1}, {"b": 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.zeros(2), np.zeros(3), np.zeros(2, np.float32), np.zeros((2, 1))),
    ],
    ids=repr,
)
async def test_each_of_these_values_has_its_own_capture(others: tuple[Any, ...]) -> None:
    assert await captures_of(probe(), *others) == len(others)


async def test_layouts_have_captures_of_their_own_but_places_have_not() -> None:
    f = probe()
    x = anp.arange(12, dtype="float32")
    for view in (x[:4], x[4:8], x[8:], x[:8:2], x[::-1][:4], x[:4].reshape(2, 2), x.astype("float64")[:4]):
        np.testing.assert_array_equal(np.asarray(await f(view)), np.asarray(await view) + 1)
    assert len(f.captures) == 5
    assert any("strides [-4]" in each for each in f.captures)


async def test_floats_are_dynamic_and_adapt_to_the_arrays_around_them() -> None:
    @aj.jit
    def f(x: anp.Array, rate: float) -> anp.Array:
        return x * rate

    for dtype in ("float32", "int16"):
        x = anp.arange(3, dtype=dtype)
        for rate in (0.1, 2.5, -0.0, 0.0, math.nan):
            expected = np.arange(3, dtype=dtype) * rate
            result = np.asarray(await f(x, rate))
            assert result.dtype == expected.dtype
            np.testing.assert_array_equal(result, expected)
            np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))
    assert len(f.captures) == 2


async def test_static_counts_numbers_by_value_and_dynamic_makes_integers_arrays() -> None:
    @aj.jit(static=("rate", "axes"), dynamic=("count", "flag"), captures_max=100)
    def f(x: anp.Array, rate: float, axes: Any, count: int, flag: bool) -> anp.Array:
        # A dynamic value cannot choose a branch, a static one can.
        y = x * 2 if rate > 1 else x
        return anp.where(flag, y * count, y) + len(axes)

    x = anp.ones(2)
    for count in range(1, 5):
        for flag in (True, False):
            result = await f(x, 2.0, frozenset("ab"), count, flag)
            assert np.asarray(result).tolist() == [2.0 * (count if flag else 1) + 2] * 2
    assert len(f.captures) == 1
    for rate in (0.0, -0.0, math.nan, math.nan, 1.0):
        await f(x, rate, (), 1, True)
    assert len(f.captures) == 5
    for axes in ((1,), (1.0,), (True,), (Level.LOW,)):
        await f(x, 1.0, axes, 1, True)
    assert len(f.captures) == 9


async def test_a_dynamic_integer_keeps_the_dtype_of_the_array() -> None:
    @aj.jit(dynamic="n")
    def f(x: anp.Array, n: int) -> anp.Array:
        return x + n

    assert (await f(anp.zeros(1, dtype="int8"), 100)).dtype == np.int8
    assert (await f(anp.zeros(1, dtype="float32"), 100)).dtype == np.float32
    with pytest.raises(aj.CaptureError, match="fit int64"):
        f(anp.zeros(1), 1 << 70)


async def test_in_place_work_on_a_number_stays_within_the_call() -> None:
    @aj.jit
    def f(x: anp.Array, a: Any, b: Any) -> anp.Array:
        a += 1
        return x * a + b

    x = anp.ones(1)
    replays = [f(x, 0.5, 0.5) for _ in range(4)]
    assert [np.asarray(await each).tolist() for each in replays] == [[2.0]] * 4
    assert len(f.captures) == 1


async def test_an_adapting_array_is_written_in_place_where_a_number_is_not() -> None:
    @aj.jit
    def give(rate: Any) -> anp.Array:
        return rate * 2

    @aj.jit
    def bump(rate: Any) -> anp.Array:
        rate += 1
        return rate * 1

    assert float(await bump(0.5)) == 1.5
    array = await give(0.25)
    assert float(await bump(array)) == 1.5
    assert float(await bump(array)) == 2.5
    assert float(await array) == 2.5


async def test_numpy_arguments_are_copied_at_the_call() -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        return x + 1

    host = np.zeros(3, np.float32)
    replays = []
    for value in range(5):
        host[:] = value
        replays.append(f(host))
    assert [np.asarray(await each)[0] for each in replays] == [1, 2, 3, 4, 5]


async def test_the_least_recently_used_capture_goes() -> None:
    @aj.jit(captures_max=2)
    def f(x: anp.Array) -> anp.Array:
        return x + 1

    one, two, three = (anp.zeros(count) for count in (1, 2, 3))
    for x in (one, two, one, three):
        await f(x)
    assert [each.split(": ")[1] for each in f.captures] == ["float64[1])", "float64[3])"]
    statistics = f.statistics()
    assert (statistics.captures, statistics.captures_made, statistics.captures_dropped) == (2, 3, 1)
    assert statistics.replays == 4


async def test_the_third_capture_for_one_integer_warns_once_at_the_users_line() -> None:
    @aj.jit(captures_max=20)
    def f(x: anp.Array, n: int, m: tuple[int, ...] = ()) -> anp.Array:
        return x * n

    x = anp.ones(1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        await f(x, 1)
        await f(x, 2)
        await f(anp.ones(2), 3)
        await f(x, 3, (7,))
        assert seen == []
        await f(x, 3)
        for n in range(4, 8):
            await f(x, n)
    (warning,) = seen
    assert "'n'" in str(warning.message)
    assert "dynamic=('n',)" in str(warning.message)
    assert warning.filename == __file__


def test_match_tells_which_capture_a_call_would_replay() -> None:
    @aj.jit
    def f(x: anp.Array, y: anp.Array) -> anp.Array:
        return x + y

    x, y = anp.zeros(2), anp.ones(2)
    assert f.match(x, y) is None
    f.run(x, y)
    entry = f.match(x, y)
    assert entry is not None
    assert f.match(y, y=x) is entry
    assert f.match(x, x) is entry
    assert f.match(x, anp.ones(1)) is None
    assert f.statistics().replays == 1
