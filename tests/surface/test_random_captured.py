"""Random numbers in captured functions: new ones at each replay, and those of a serial run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.philox import doubles
from tests.surface.prefetching import Run


def test_replays_draw_what_plain_calls_would(run: Run) -> None:
    def noisy(x: anp.Array, generator: aj.random.Generator) -> anp.Array:
        return x + generator.normal(size=3) * generator.uniform(size=3) + generator.integers(10, size=3)

    async def main() -> None:
        plain, captured = aj.random.Generator(11), aj.random.Generator(11)
        f = aj.jit(lambda x: noisy(x, captured))
        x = anp.ones(3)
        expected = [np.asarray(await noisy(x, plain)).tolist() for _ in range(6)]
        found = [np.asarray(await f(x)).tolist() for _ in range(6)]
        assert found == expected
        assert len({tuple(each) for each in found}) == 6
        assert len(f.captures) == 1

    run(main)


def test_many_at_once_draw_in_ticket_order(run: Run) -> None:
    async def main() -> None:
        generator = aj.random.Generator(5)

        @aj.jit(in_flight_max=8)
        def draw(x: anp.Array) -> anp.Array:
            return generator.random(50_000) * x

        replays: list[Any] = []
        found: list[Any] = []
        for turn in range(12):
            replays.append(draw(anp.ones(())))
            if turn % 3 == 0:
                # Between them an eager draw, of one block.
                found.append(generator.random(1))
        blocks = 0
        for turn, replay in enumerate(replays):
            drawn = np.asarray(await replay)
            assert drawn[:3].tolist() == doubles(5, 3, blocks)
            assert drawn[-2:].tolist() == doubles(5, 2, blocks + 24_999)
            blocks += 25_000
            if turn % 3 == 0:
                assert np.asarray(await found[turn // 3]).tolist() == doubles(5, 1, blocks)
                blocks += 1

    run(main)


def test_functions_and_threads_share_a_generator_without_drawing_anything_twice() -> None:
    generator = aj.random.Generator(21)

    @aj.jit
    def pair() -> anp.Array:
        return generator.random(2)

    @aj.jit
    def four() -> anp.Array:
        return generator.random((2, 2)).ravel()

    drawn: list[list[float]] = []

    def work(f: Any) -> None:
        for _ in range(30):
            drawn.append(np.asarray(f.run()).tolist())

    threads = [threading.Thread(target=work, args=(f,)) for f in (pair, four, pair, four)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = [value for each in drawn for value in each]
    assert sorted(values) == sorted(doubles(21, 2 * 60 + 4 * 60))


async def test_a_generator_may_be_an_argument_and_is_moved_on() -> None:
    @aj.jit
    def draw(generator: aj.random.Generator, x: anp.Array) -> anp.Array:
        return generator.random(2) + x

    first, second = aj.random.Generator(1), aj.random.Generator(2)
    zero = anp.zeros(())
    for block in range(3):
        assert np.asarray(await draw(first, zero)).tolist() == doubles(1, 2, block)
        assert np.asarray(await draw(second, zero)).tolist() == doubles(2, 2, block)
    assert len(draw.captures) == 1
    assert np.asarray(await first.state).tolist() == [1, 3]


async def test_a_generator_made_in_the_function_begins_anew_at_each_call() -> None:
    @aj.jit
    def fixed(x: anp.Array) -> anp.Array:
        generator = aj.random.Generator(7)
        generator.random(2)
        return x + generator.random(2)

    for _ in range(3):
        assert np.asarray(await fixed(anp.zeros(()))).tolist() == doubles(7, 2, 1)


async def test_a_generator_made_once_and_kept_goes_on_from_call_to_call() -> None:
    class Model:
        generator: aj.random.Generator | None = None

        @aj.jit
        def draw(self) -> anp.Array:
            if self.generator is None:
                self.generator = aj.random.Generator(13)
            return self.generator.random(2)

    model = Model()
    found = [np.asarray(await model.draw()).tolist() for _ in range(3)]
    assert found == [doubles(13, 2, block) for block in range(3)]
    assert model.generator is not None
    assert np.asarray(await model.generator.random(2)).tolist() == doubles(13, 2, 3)


async def test_seeding_in_a_captured_function_happens_at_each_replay() -> None:
    @aj.jit
    def again() -> anp.Array:
        aj.random.seed(3)
        return aj.random.uniform(size=2)

    aj.random.seed(9)
    assert np.asarray(await aj.random.uniform(size=2)).tolist() == doubles(9, 2)
    for _ in range(2):
        assert np.asarray(await again()).tolist() == doubles(3, 2)
    assert np.asarray(await aj.random.uniform(size=2)).tolist() == doubles(3, 2, 1)


async def test_the_state_can_be_kept_and_put_back() -> None:
    generator = aj.random.Generator(2)
    generator.random(10)
    kept = generator.state.copy()
    before = np.asarray(await generator.standard_normal(5)).tolist()
    generator.state[...] = kept
    assert np.asarray(await generator.standard_normal(5)).tolist() == before


async def test_the_default_generators_of_engines_are_apart_and_begin_differently() -> None:
    aj.random.seed(1)
    async with aj.Engine() as engine:
        inner = aj.random.default_generator()
        first = np.asarray(await aj.random.normal(size=4)).tolist()
        assert aj.random.default_generator() is inner
        assert engine.generator is inner
    async with aj.Engine():
        assert np.asarray(await aj.random.normal(size=4)).tolist() != first
    assert np.asarray(await aj.random.uniform(size=2)).tolist() == doubles(1, 2)


async def test_the_default_generator_may_be_met_first_in_a_recording() -> None:
    async with aj.Engine():

        @aj.jit
        def draw() -> tuple[anp.Array, anp.Array, anp.Array]:
            order = aj.random.permutation(5)
            return aj.random.integers(1 << 60, size=2), aj.random.bernoulli(size=9), order

        found = [[np.asarray(each).tolist() for each in await draw()] for _ in range(3)]
        assert found[0][0] != found[1][0] != found[2][0]
        assert len(draw.captures) == 1


@pytest.mark.parametrize("keeps", [True, False])
async def test_pruning_keeps_draws_in_every_replay(keeps: bool) -> None:
    generator = aj.random.Generator(17)
    weights = anp.ones(2)

    @aj.jit(prune=True)
    def f(x: anp.Array) -> anp.Array:
        scale = weights * 2
        drawn = generator.random(2)
        return (x if keeps else anp.zeros(2)) + drawn * scale

    found = [np.asarray(await f(anp.zeros(2))).tolist() for _ in range(4)]
    assert found == [[2 * value for value in doubles(17, 2, block)] for block in range(4)]


def test_a_removed_replay_draws_nothing(run: Run) -> None:
    async def main() -> None:
        generator = aj.random.Generator(6)
        gate = threading.Event()

        @aj.kernel(reads_writes="state")
        def hold(state: Any) -> None:
            assert gate.wait(20)

        @aj.jit
        def draw(x: anp.Array) -> anp.Array:
            return generator.random(2) + x

        zero = anp.zeros(())
        assert np.asarray(await draw(zero)).tolist() == doubles(6, 2)
        hold(generator.state)
        with anyio.move_on_after(0):
            await draw(zero)
        last = draw(zero)
        gate.set()
        assert np.asarray(await last).tolist() == doubles(6, 2, 1)

    run(main)


def test_a_saved_function_draws_on_where_it_was_saved(tmp_path: Path) -> None:
    generator = aj.random.Generator(19)

    @aj.jit
    def draw(x: anp.Array) -> anp.Array:
        return generator.integers(-(1 << 63), 1 << 63, 1) * 0 + generator.random(2) + x

    zero = anp.zeros(())
    assert np.asarray(draw.run(zero)).tolist() == doubles(19, 2, 1)
    aj.save(tmp_path / "draw.aj", draw=draw)
    assert np.asarray(draw.run(zero)).tolist() == doubles(19, 2, 3)
    loaded = aj.load(tmp_path / "draw.aj")["draw"]
    assert [np.asarray(loaded.run(zero)).tolist() for _ in range(2)] == [doubles(19, 2, block) for block in (3, 5)]
