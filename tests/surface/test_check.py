"""``check``: a function and its replay agree, or every place where they part is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.prefetching import Run


class Model:
    def __init__(self) -> None:
        self.scale = 2.0
        self.total = anp.zeros(3)
        self.other = anp.zeros(2)
        self.tasks: list[str] = []

    @aj.jit
    def step(self, x: anp.Array) -> dict[str, Any]:
        self.total[...] = self.total + x * self.scale
        if "other" in self.tasks:
            self.other += 1
        if "more" in self.tasks:
            return {"y": self.total * 2, "more": x + 1}
        if "fail" in self.tasks:
            raise KeyError("no such task")
        if "narrow" in self.tasks:
            return {"y": self.total[:2].astype("float32")}
        return {"y": self.total * 2, "none": None}


def test_a_function_that_nothing_has_changed_agrees_and_counts_as_called_once(run: Run) -> None:
    async def main() -> None:
        generator = aj.random.Generator(4)
        model = Model()
        x = anp.ones(3)
        for turn in range(1, 4):
            report = await model.step.check(x)
            assert report.ok
            assert str(report) == "Model.step(x: float64[3]): a replay does what the function does"
            report.raise_if_different()
            assert np.asarray(await model.total).tolist() == [2.0 * turn] * 3

        @aj.jit
        async def draw(x: anp.Array, by: float) -> tuple[anp.Array, anp.Array]:
            x *= by
            return generator.normal(size=3), x / 0

        for turn in range(3):
            assert (await draw.check(x, 2.0)).differences == ()
            assert np.asarray(await x).tolist() == [2.0 ** (turn + 1)] * 3
        assert np.asarray(await generator.state).tolist() == [4, 6]
        assert len(draw.captures) == 1

    run(main)


async def test_an_attribute_that_changed_is_found_in_results_and_state() -> None:
    model = Model()
    x = anp.asarray([1.0, 0.0, 3.0])
    await model.step(x)
    model.scale = 5.0
    report = await model.step.check(x)
    assert not report.ok
    places = {difference.where: difference for difference in report.differences}
    assert set(places) == {"return value['y'][0]", "state 'self.total'[0]"}
    total = places["state 'self.total'[0]"]
    assert (total.expected, total.given, total.elements, total.largest) == ("7.0", "4.0", 2, 9.0)
    assert places["return value['y'][0]"].elements == 2
    # As after a call of the function itself, with the scale of today.
    assert np.asarray(await model.total).tolist() == [7.0, 0.0, 21.0]
    with pytest.raises(
        aj.ReplayMismatchError, match=r"the replay gives 4\.0, the function 7\.0 \(2 elements"
    ) as caught:
        report.raise_if_different()
    assert caught.value.differences == report.differences
    model.step.reset()
    assert (await model.step.check(x)).ok


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("more", {"return value['more']: the replay gives no array, the function float64[3]"}),
        ("narrow", {"return value['y']: the replay gives float64[3], the function float32[2]"}),
        ("fail", {"the call: the replay gives a result, the function raises KeyError: 'no such task'"}),
    ],
)
async def test_another_branch_is_found(task: str, expected: set[str]) -> None:
    model = Model()
    x = anp.ones(3)
    await model.step(x)
    model.tasks.append(task)
    report = await model.step.check(x)
    assert set(map(str, report.differences)) == expected
    assert np.asarray(await model.total).tolist() == [4.0] * 3


async def test_a_write_that_no_replay_does_is_found_with_its_line() -> None:
    model = Model()
    x = anp.ones(3)
    await model.step(x)
    model.tasks.append("other")
    (difference,) = (await model.step.check(x)).differences
    assert difference.given == "what was there before"
    assert difference.expected.startswith(f"writes it at {__file__}:")
    # The function wrote it, as a call would have.
    assert np.asarray(await model.other).tolist() == [1.0, 1.0]


async def test_nan_equals_nan_and_the_largest_difference_may_be_no_number() -> None:
    limit = [np.nan]

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        return anp.where(x > 0, limit[0], x)

    x = anp.asarray([1.0, -1.0])
    assert (await f.check(x)).ok
    limit[0] = 3.0
    (difference,) = (await f.check(x)).differences
    assert (difference.given, difference.expected, difference.elements, difference.largest) == ("nan", "3.0", 1, None)


async def test_pruned_functions_are_checked_too() -> None:
    weights = anp.ones(2)

    @aj.jit(prune=True)
    def f(x: anp.Array) -> anp.Array:
        return x * (weights + 1)

    for _ in range(3):
        assert (await f.check(anp.ones(2))).ok
    weights[0] = 9.0
    for _ in range(2):
        assert (await f.check(anp.ones(2))).ok
    assert np.asarray(await f(anp.ones(2))).tolist() == [10.0, 2.0]


async def test_a_check_in_a_recording_is_refused() -> None:
    @aj.jit
    def inner(x: anp.Array) -> anp.Array:
        return x + 1

    @aj.jit
    async def outer(x: anp.Array) -> anp.Array:
        await inner.check(x)
        return x + 1

    with pytest.raises(aj.CaptureError, match="there are none while a function is recorded"):
        outer(anp.ones(2))
