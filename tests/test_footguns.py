"""Surprises of capture and replay, silent ones first: what tinygrad's TinyJit, the ancestor, does, and what is so here.

Law: one surprise a section, in three lines: *there*, *here*, *why*. A surprise is closed (the right value comes), or
refused (an error says what to write), or it stays, and then its test shows how to find it. What several callers do to
one another is in ``test_footguns_shared``.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.prefetching import RUNS, Run


@pytest.fixture(params=list(RUNS))
def run(request: pytest.FixtureRequest) -> Run:
    """Runs an async function on a loop of each kind."""
    return RUNS[request.param]


def values(array: Any) -> Any:
    return np.asarray(array).tolist()


# An output is overwritten by the next call.
# There: outputs share one buffer from the capture on, so what a call returned holds the next call's value.
# Here: each call has new output buffers that no later replay writes.
# Why: whoever holds a result may look at it whenever it likes; a clone at each call would cost more than a new buffer.


def test_a_result_keeps_its_value_whatever_is_called_later(run: Run) -> None:
    @aj.jit
    def double(x: anp.Array) -> anp.Array:
        return x * 2

    async def main() -> None:
        kept = [await double(anp.full(2, float(index))) for index in range(5)]
        assert [values(each) for each in kept] == [[2.0 * index] * 2 for index in range(5)]

    run(main)


# Python constants are frozen.
# There: an integer in a closure or an argument keeps the value that it had at the capture.
# Here: an int argument belongs to the signature; a name outside is compared by identity, and a new object is a new
#   capture; a float argument is a value that changes from call to call.
# Why: a capture answers only for the values that it has seen.


def test_numbers_in_arguments_and_closures_are_those_of_the_call(run: Run) -> None:
    factor = 10

    @aj.jit
    def scale(x: anp.Array, count: int, gain: float) -> anp.Array:
        return x * factor + count + gain

    async def main() -> None:
        nonlocal factor
        for factor, count, gain in ((10, 1, 0.25), (20, 1, 0.5), (20, 3, 0.75), (10, 1, 1.0)):
            assert values(await scale(anp.ones(1), count, gain)) == [factor + count + gain]
        assert len(scale.captures) == 3

    run(main)


# What Python cannot see from outside: an attribute, a container that is changed in place.
# There: frozen without a word, like every Python value.
# Here: frozen too, since looking at every attribute at each call would cost more than the call; ``check`` finds it.
# Why: an array in place of the number is read at each replay (``self.scale[...] = 3.0``).


def test_an_attribute_that_changed_is_found_by_a_check(run: Run) -> None:
    class Model:
        scale = 2.0

        @aj.jit
        def apply(self, x: anp.Array) -> anp.Array:
            return x * self.scale

    async def main() -> None:
        model = Model()
        assert (await model.apply.check(anp.ones(1))).ok
        model.scale = 3.0
        assert values(await model.apply(anp.ones(1))) == [2.0]
        report = await model.apply.check(anp.ones(1))
        assert [(each.expected, each.given) for each in report.differences] == [("3.0", "2.0")]

    run(main)


# Branches are frozen.
# There: ``if flag:`` runs the branch of the capture for ever.
# Here: a bool belongs to the signature, so each branch is captured; branching on a value raises HostReadError.
# Why: the value does not exist yet when the branch is taken.


def test_each_branch_is_captured_and_a_branch_on_a_value_is_refused(run: Run) -> None:
    @aj.jit
    def either(x: anp.Array, flag: bool) -> anp.Array:
        return x * 3 if flag else x + 1

    @aj.jit
    def by_value(x: anp.Array) -> anp.Array:
        return x * 3 if x[0] > 0 else x + 1

    async def main() -> None:
        flags = [True, True, True, False, True, False]
        found = [values(await either(anp.full(1, 2.0), flag)) for flag in flags]
        assert found == [[6.0] if flag else [3.0] for flag in flags]
        with pytest.raises(aj.HostReadError, match="where"):
            by_value(anp.ones(1))

    run(main)


# A pad, or the shape of a result, keeps the value of the capture.
# There: a symbolic pad stays as it was captured, and a result has the shape of an earlier call.
# Here: what decides a shape belongs to the signature, so every result has the shape of its own call.
# Why: a shape is known before anything is computed; whoever is given a result relies on it.


def test_pads_and_shapes_are_those_of_the_call(run: Run) -> None:
    @aj.jit
    def padded(x: anp.Array, before: int) -> anp.Array:
        return anp.concatenate([anp.zeros(before), x + 1])

    async def main() -> None:
        for count, before in ((2, 1), (2, 1), (2, 4), (3, 1), (2, 1)):
            result = await padded(anp.ones(count), before)
            assert result.shape == (before + count,)
            assert values(result) == [0.0] * before + [2.0] * count

    run(main)


# Python side effects happen in the first calls only.
# There: in the warm-up and in the capture, so a counter stays at 2.
# Here: at the recording only, once; counting in an array is a side effect that every replay has.
# Why: a replay runs no Python; that is what makes it quick.


def test_side_effects_of_python_happen_once_and_those_on_arrays_at_each_replay(run: Run) -> None:
    seen: list[str] = []

    async def main() -> None:
        count = anp.zeros((), dtype="int64")

        @aj.jit
        def f(x: anp.Array) -> anp.Array:
            seen.append("recorded")
            count[...] = count + 1
            return x + 1

        seen.clear()
        for _ in range(4):
            await f(anp.ones(1))
        assert seen == ["recorded"]
        assert values(await count) == 4

    run(main)


# A method's capture is shared by all instances.
# There: the decorator makes one JIT a class, and the second instance computes with the weights of the first.
# Here: captures belong to the instance.
# Why: ``self`` is an argument like the others, and arrays that it holds are other state.


def test_instances_compute_with_their_own_weights(run: Run) -> None:
    class Layer:
        def __init__(self, weight: float) -> None:
            self.weight = anp.full(1, weight)

        @aj.jit
        def apply(self, x: anp.Array) -> anp.Array:
            return x * self.weight

    async def main() -> None:
        layers = [Layer(2.0), Layer(3.0)]
        for _ in range(3):
            assert [values(await layer.apply(anp.full(1, 5.0))) for layer in layers] == [[10.0], [15.0]]

    run(main)


# Updates of what a function closes over are ignored.
# There: seen if the assignment was realised before the call, else not; with prune never.
# Here: state is read at each replay, as of its ticket, awaited or not, pruned or not; an array bound anew to the name
#   is another capture.
# Why: results equal a serial run in the order of the calls.


@pytest.mark.parametrize("prune", [False, True])
def test_state_is_read_as_of_the_call(run: Run, prune: bool) -> None:
    weight = anp.ones(1)

    @aj.jit(prune=prune)
    def apply(x: anp.Array) -> anp.Array:
        return x * (weight + 1)

    async def main() -> None:
        nonlocal weight
        x = anp.ones(1)
        replays = []
        for index in range(4):
            weight[...] = float(index)
            replays.append(apply(x))
        assert [values(await replay) for replay in replays] == [[1.0], [2.0], [3.0], [4.0]]
        weight = anp.full(1, 9.0)
        assert values(await apply(x)) == [10.0]

    run(main)


# An assignment that is not returned is dropped.
# There: ``w.assign(…)`` on an argument that is neither realised nor returned vanishes from the replays.
# Here: writing into an array is a call of the schedule like any other.
# Why: what a function writes into its arguments or its state is part of what it does.


def test_a_write_that_is_not_returned_happens_at_each_replay(run: Run) -> None:
    @aj.jit
    def step(weight: anp.Array, gradient: anp.Array) -> None:
        weight -= gradient * 0.5

    async def main() -> None:
        weight = anp.full(2, 10.0)
        for _ in range(4):
            await step(weight, anp.ones(2))
        assert values(await weight) == [8.0, 8.0]

    run(main)


# Louder ones: what fails there with an error and is right here.


async def test_keyword_and_positional_spellings_are_one_capture() -> None:
    @aj.jit
    def subtract(x: anp.Array, y: anp.Array) -> anp.Array:
        return x - y

    x, y = anp.full(1, 3.0), anp.ones(1)
    spellings = [subtract(x, y), subtract(x, y=y), subtract(y=y, x=x)]
    assert [values(await each) for each in spellings] == [[2.0]] * 3
    assert len(subtract.captures) == 1


async def test_a_captured_function_inside_another_is_part_of_it() -> None:
    @aj.jit
    def inner(x: anp.Array) -> anp.Array:
        return x * 3

    @aj.jit
    def outer(x: anp.Array) -> Any:
        return inner(x) + 5

    found = await asyncio.gather(*(outer(anp.full(1, float(index))) for index in range(5)))
    assert [values(each) for each in found] == [[3.0 * index + 5] for index in range(5)]
    assert inner.captures == []
