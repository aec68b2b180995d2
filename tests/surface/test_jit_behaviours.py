"""What TinyJit's own tests check of calls, outputs and writes, where no other test here says it as plainly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.prefetching import Run


def values(array: Any) -> Any:
    return np.asarray(array).tolist()


def calls_of(function: Any) -> int:
    """The number of calls that its one capture has."""
    (line,) = (line for line in function.explain().splitlines() if " flops and " in line)
    return int(line.split()[0])


def test_a_capture_has_one_call_an_operation_and_none_when_captures_are_off(run: Run) -> None:
    @aj.jit
    def one(a: anp.Array, b: anp.Array) -> anp.Array:
        return a + b

    @aj.jit
    def three(a: anp.Array, b: anp.Array) -> tuple[anp.Array, ...]:
        return a + b, a - b, a * b

    async def main() -> None:
        a, b = anp.full(2, 3.0), anp.ones(2)
        with aj.override_settings(jit="off"):
            assert values(await one(a, b)) == [4.0, 4.0]
            assert one.captures == []
        assert values(await one(a, b)) == [4.0, 4.0]
        assert [values(each) for each in await three(a, b)] == [[4.0] * 2, [2.0] * 2, [3.0] * 2]
        assert (calls_of(one), calls_of(three)) == (1, 3)

    run(main)


def test_a_new_shape_after_the_capture_is_right_and_a_view_is_an_argument_like_any(run: Run) -> None:
    @aj.jit
    def double(x: anp.Array) -> anp.Array:
        return x * 2

    async def main() -> None:
        base = anp.arange(8, dtype="float64")
        for argument, expected in (
            (base[2:5], [4.0, 6.0, 8.0]),
            (base[3:6], [6.0, 8.0, 10.0]),
            (base[1:2], [2.0]),
            (base[:6:2], [0.0, 4.0, 8.0]),
            (base[2:5], [4.0, 6.0, 8.0]),
        ):
            assert values(await double(argument)) == expected
        assert len(double.captures) == 3

    run(main)


def test_outputs_that_are_fed_back_are_right_when_both_come_from_one_intermediate(run: Run) -> None:
    @aj.jit
    def step(a: anp.Array, b: anp.Array) -> tuple[anp.Array, anp.Array]:
        both = a + b
        return both * 2, both + 1

    async def main() -> None:
        one, two = anp.ones(1000), anp.full(1000, 2.0)
        a, b = 1.0, 2.0
        for _ in range(6):
            one, two = step(one, two).result
            a, b = (a + b) * 2, (a + b) + 1
        assert set(values(await one)) == {a}
        assert set(values(await two)) == {b}

    run(main)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8"])
def test_writing_an_argument_in_place_writes_whichever_array_is_passed(run: Run, dtype: str) -> None:
    @aj.jit
    def increment(x: anp.Array, others: list[anp.Array]) -> None:
        x += 1
        for other in others:
            other += x

    async def main() -> None:
        first, second, third = (anp.zeros(3, dtype=dtype) for _ in range(3))
        for turn in range(3):
            await increment(first, [second])
            await increment(third, [first])
            assert values(await third) == [turn + 1] * 3
        assert values(await first) == [1 + 2 + 3 + 3] * 3
        assert values(await second) == [1 + 3 + 6] * 3
        assert len(increment.captures) == 1

    run(main)


def test_an_assignment_to_a_slice_is_read_back_inside_the_function(run: Run) -> None:
    async def main() -> None:
        cache = anp.zeros((6, 2))

        @aj.jit(dynamic="position")
        def append(row: anp.Array, position: int) -> anp.Array:
            cache[position] = row
            cache[0] = cache[0] + 1
            return cache.sum(axis=0)

        total = np.zeros(2)
        for position in range(1, 6):
            row = np.full(2, float(position))
            total += row + 1
            assert values(await append(anp.asarray(row), position)) == total.tolist()
        assert len(append.captures) == 1
        assert values(await cache) == [[5.0, 5.0]] + [[float(each)] * 2 for each in range(1, 6)]

    run(main)


def test_an_array_that_was_never_written_may_be_the_first_argument(run: Run) -> None:
    @aj.jit
    def replace(x: anp.Array, by: anp.Array) -> anp.Array:
        return anp.where(by > 0, by, x)

    async def main() -> None:
        by = anp.ones(4)
        assert values(await replace(anp.empty(4), by)) == [1.0] * 4
        assert values(await replace(anp.full(4, 7.0), by * 0)) == [7.0] * 4
        assert len(replace.captures) == 1

    run(main)
