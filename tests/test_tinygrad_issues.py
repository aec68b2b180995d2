"""What users of TinyJit, the ancestor, reported, as small cases of our own; one test a report, in the order of numbers.

Law: the docstring says what was reported and what happens here. Reports are at github.com/tinygrad/tinygrad/issues (and
pull), the last one at github.com/exo-explore/exo/pull. Those on training are in ``test_tinygrad_issues_training``.
"""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import anyio
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


def test_5360_a_result_has_the_length_of_its_own_argument(run: Run) -> None:
    """Reported: after the capture the result keeps the shape of the variable's earlier value. Here: a new length is a
    new capture, up to ``captures_max``, and no result has the shape of another call."""

    @aj.jit
    def add_one(x: anp.Array) -> anp.Array:
        return x + 1

    async def main() -> None:
        for count in (1, 2, 3, 4, 2):
            result = await add_one(anp.arange(count, dtype="float32"))
            assert result.shape == (count,)
            assert values(result) == [index + 1.0 for index in range(count)]

    run(main)


def test_6803_a_model_called_twice_for_one_step_gives_two_results(run: Run) -> None:
    """Reported: guidance calls the model with and without the prompt, then mixes the two; both were one buffer, and the
    pictures were bad. Here: the second call leaves the first one's result alone, awaited in between or not."""
    weight = anp.asarray(np.arange(16, dtype="float32").reshape(4, 4) % 5)

    @aj.jit
    def denoise(x: anp.Array, context: anp.Array, add: anp.Array) -> anp.Array:
        return (x + context) @ weight * 0.25 + add

    def mixed(x: Any, plain: Any, prompt: Any, add: Any) -> Any:
        host = np.asarray(weight)
        one, two = ((x + each) @ host * np.float32(0.25) + add for each in (plain, prompt))
        return one + (two - one) * np.float32(7.5)

    async def main() -> None:
        plain, prompt = np.zeros((2, 4), "float32"), np.ones((2, 4), "float32")
        x = expected = np.full((2, 4), 0.5, "float32")
        state = anp.asarray(x)
        for step in range(4):
            add = np.full((2, 4), step, "float32")
            one = denoise(state, anp.asarray(plain), anp.asarray(add))
            two = denoise(state, anp.asarray(prompt), anp.asarray(add))
            state = one.result + (two.result - one.result) * 7.5
            expected = mixed(expected, plain, prompt, add)
        np.testing.assert_allclose(np.asarray(await state), expected, rtol=1e-5)

    run(main)


def test_7020_two_results_of_one_function_are_not_the_same_array(run: Run) -> None:
    """Reported: f(1.1) == f(1.2) is True. Here: False."""

    @aj.jit
    def add_one(x: anp.Array) -> anp.Array:
        return x + 1

    async def main() -> None:
        one, two = anp.asarray([1.1]), anp.asarray([1.2])
        await add_one(one)
        await add_one(two)
        assert values(await (await add_one(one) == await add_one(two))) == [False]

    run(main)


def test_9108_draws_differ_from_call_to_call_and_from_argument_to_argument(run: Run) -> None:
    """Reported: sampling from a distribution repeats itself from the third call on, depending on which arrays were
    realised outside. Here: the generator is state that every replay moves on."""
    generator = aj.random.Generator(7)

    @aj.jit
    def sample(weights: anp.Array) -> anp.Array:
        share = anp.exp(weights) / anp.exp(weights).sum()
        below = anp.cumulative_sum(share) <= generator.random(())
        return below.astype("int64").sum()

    async def main() -> None:
        arguments = [anp.asarray(np.random.default_rng(seed).random(100)) for seed in range(2)]
        drawn = [[values(await sample(each)) for each in arguments] for _ in range(8)]
        for index in range(2):
            assert len({draws[index] for draws in drawn}) > 4
        assert all(0 <= draw < 100 for draws in drawn for draw in draws)
        assert len(sample.captures) == 1

    run(main)


def test_10590_a_capture_changes_no_state(run: Run) -> None:
    """Reported: a function that squares its state cannot be captured without squaring it twice, for warm-up and capture
    execute it. Here: capture computes nothing, and ``prepare`` captures without a call."""

    async def main() -> None:
        state = anp.full(1, -2.0)

        @aj.jit
        def square() -> None:
            state[...] = state**2

        await square.prepare()
        assert len(square.captures) == 1
        assert values(await state) == [-2.0]
        found = []
        for _ in range(3):
            await square()
            found.append(values(await state))
        assert found == [[4.0], [16.0], [256.0]]

    run(main)


def test_10956_an_integer_argument_counts_at_every_call(run: Run) -> None:
    """Reported: adding 0, 1, 2, 3, 4 in a loop gives 4 and not 10, for the integer of the capture is added for ever.
    Here: an integer is part of the signature, or, with ``dynamic``, a value that one capture takes at each call."""

    def add(x: anp.Array, by: int) -> anp.Array:
        return x + by

    async def main() -> None:
        for function, captures in ((aj.jit(add), 2), (aj.jit(add, dynamic="by"), 1)):
            total = anp.zeros((), dtype="int64")
            for by in (3, 4, 3):
                total = await function(total, by)
            assert values(total) == 10
            assert len(function.captures) == captures

    run(main)


def test_13707_a_function_that_does_something_else_each_time_is_found_out(run: Run) -> None:
    """Wanted: an error where warm-up and capture have not done the same. Here: names that the function reads are
    guarded, so a change captures anew; with ``strict`` it is refused; what guards cannot see, ``check`` finds."""
    helper = anp.sin

    class Switch:
        turned = False

    @aj.jit
    def apply(x: anp.Array) -> anp.Array:
        return helper(x) if not Switch.turned else helper(x) + 1

    @aj.jit(strict=True)
    def strictly(x: anp.Array) -> anp.Array:
        return helper(x)

    async def main() -> None:
        nonlocal helper
        x = anp.full(1, 0.5)
        helper = anp.sin
        assert values(await apply(x)) == values(await anp.sin(x))
        await strictly(x)
        helper = anp.cos
        assert values(await apply(x)) == values(await anp.cos(x))
        with pytest.raises(aj.ReplayMismatchError, match="helper"):
            strictly(x)
        Switch.turned = True
        report = await apply.check(x)
        assert [each.where for each in report.differences] == ["return value[0]"]
        Switch.turned = False

    run(main)


@pytest.mark.parametrize("prune", [False, True])
def test_14689_a_large_buffer_is_shifted_by_half_in_every_call(run: Run, prune: bool) -> None:
    """Reported: the output of one call is the input of the next, and 25 to 75 % of it are wrong, for threads of one
    kernel raced on one buffer. Here: the input stays as it is until its last reader has ended."""
    count = 2**18

    @aj.jit(prune=prune)
    def shift(buffer: anp.Array, new: anp.Array) -> anp.Array:
        return anp.concatenate([buffer[count // 2 :], new])

    async def main() -> None:
        buffer = anp.zeros(count, dtype="int32")
        for index in range(8):
            replay = shift(buffer, anp.full(count // 2, index + 1, dtype="int32"))
            buffer = replay.result
        found = np.asarray(await buffer)
        assert set(found[: count // 2].tolist()) == {7}
        assert set(found[count // 2 :].tolist()) == {8}

    run(main)


def add_ones(x: anp.Array) -> anp.Array:
    return x + anp.ones(4)


def test_15682_a_pickled_function_gives_what_the_function_gives() -> None:
    """Reported: a function that was pickled and loaded in the same process returns the last result from before.
    Here: a loaded function has buffers of its own."""
    original = aj.jit(add_ones)
    for seed in range(3):
        original.run(anp.asarray(np.random.default_rng(seed).random(4)))
    loaded = pickle.loads(pickle.dumps(original))
    x = anp.asarray([1.0, 2.0, 3.0, 4.0])
    assert values(loaded.run(x)) == values(original.run(x)) == [2.0, 3.0, 4.0, 5.0]


def test_16266_weights_that_five_functions_share_are_stored_once(tmp_path: Path) -> None:
    """Reported: five functions with one set of weights take up the space of five. Here: of one, also where the weights
    are read through a view that has to be copied first."""
    weight = anp.asarray(np.random.default_rng(0).random((128, 128)))

    def scaled(scale: anp.Array) -> Any:
        return aj.jit(lambda x: (x @ anp.permute_dims(weight, (1, 0)).copy()) * scale)

    scales = [anp.full(1, float(index + 1)) for index in range(5)]
    functions = {f"f{index}": scaled(scale) for index, scale in enumerate(scales)}
    x = anp.asarray(np.ones(128))
    expected = [values(each.run(x)) for each in functions.values()]
    aj.save(tmp_path / "five.aj", **functions)
    assert (tmp_path / "five.aj").stat().st_size < 1.5 * 128 * 128 * 8
    loaded = aj.load(tmp_path / "five.aj")
    assert [values(loaded[name].run(x)) for name in functions] == expected


async def test_exo_203_the_loop_lives_while_a_model_runs() -> None:
    """Reported: the library blocks the loop, peers time out, so everything went to one thread of its own. Here: while a
    replay is held up on its worker, the loop goes on, and nothing else is needed for it."""
    entered, go_on = anyio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @aj.kernel(writes="out")
    def held_up(out: Any, src: Any) -> None:
        loop.call_soon_threadsafe(entered.set)
        # Ends only when the loop has answered: a loop that is blocked would never do so.
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)
        np.add(src, 1, out=out)

    @aj.jit
    def model(x: anp.Array) -> anp.Array:
        out = anp.empty_like(x)
        held_up(out, x @ x)
        return out

    x = anp.ones((400, 400))
    replay = model(x)
    await entered.wait()
    assert not replay.done()
    go_on.set()
    assert values((await replay)[0, :2]) == [401.0, 401.0]
