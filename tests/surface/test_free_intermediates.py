"""``free_intermediates``: memory goes, results and state stay."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.prefetching import Run

COUNT = 100_000
#: Of each intermediate below, in float64.
NBYTES = 8 * COUNT


def used(engine: aj.Engine) -> int:
    return engine.statistics().memory_bytes


async def falls_below(engine: aj.Engine, nbytes: int) -> None:
    """A worker that has just told of a replay's end may hold its frame for a moment still."""
    with anyio.fail_after(20):
        while used(engine) >= nbytes:
            await anyio.lowlevel.checkpoint()


def test_arenas_are_freed_twice_over_state_is_not_and_the_next_call_is_right(run: Run) -> None:
    async def main() -> None:
        async with aj.Engine() as engine:
            total = anp.zeros(COUNT)

            @aj.jit
            def f(x: anp.Array) -> anp.Array:
                total[...] = total + x
                y = anp.exp(x * 0) + anp.sqrt(total)
                return (y * y).sum()

            x = anp.ones(COUNT)
            await f.prepare(x)
            await total
            before = used(engine)
            for turn in range(1, 3):
                assert float(await f(x)) == COUNT * (1 + turn**0.5) ** 2
                assert used(engine) >= before + NBYTES
                f.free_intermediates()
                await falls_below(engine, before + NBYTES // 2)
                f.free_intermediates()
                await falls_below(engine, before + NBYTES // 2)
                assert np.asarray(await total).tolist() == [float(turn)] * COUNT
            assert len(f.captures) == 1

    run(main)


def test_frames_of_the_form_before_it_was_lowered_are_freed_too() -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        return ((x + 1) * (x + 2)).sum()

    engine = aj.Engine()
    with engine.use():
        x = anp.zeros(COUNT)
        replays = [f(x) for _ in range(4)]
        assert [float(np.asarray(each.wait())) for each in replays] == [2.0 * COUNT] * 4
        for table in f._tables.all():
            for entry in table:
                engine.lower(entry.program)
        assert float(np.asarray(f.run(x))) == 2.0 * COUNT
        f.free_intermediates()
        anyio.run(falls_below, engine, NBYTES + NBYTES // 2)
        assert float(np.asarray(f.run(x))) == 2.0 * COUNT
    engine.close()


def test_small_functions_that_run_inline_are_freed_as_well() -> None:
    engine = aj.Engine()
    with engine.use():
        f = aj.jit(lambda x: (x + 1) * 2 + x)
        x = anp.zeros(8)
        for _ in range(3):
            assert np.asarray(f.run(x)).tolist() == [2.0] * 8
        before = used(engine)
        f.free_intermediates()
        assert used(engine) < before
        assert np.asarray(f.run(x)).tolist() == [2.0] * 8
    engine.close()


async def test_a_replay_under_way_keeps_its_memory_and_gives_it_back_afterwards() -> None:
    async with aj.Engine() as engine:
        entered, go = threading.Event(), threading.Event()

        @aj.kernel(reads_writes="x")
        def hold(x: Any) -> None:
            entered.set()
            assert go.wait(20)

        @aj.jit
        def f(x: anp.Array) -> anp.Array:
            y = x + 1
            hold(y)
            return (y + x).sum()

        x = anp.ones(COUNT)
        replay = f(x)
        assert entered.wait(20)
        f.free_intermediates()
        go.set()
        assert float(await replay) == 3.0 * COUNT
        f.free_intermediates()
        await falls_below(engine, NBYTES + NBYTES // 2)
        assert float(await f(x)) == 3.0 * COUNT


async def test_what_pruning_computed_once_stays() -> None:
    weights = anp.ones(4)

    @aj.jit(prune=True)
    def f(x: anp.Array) -> anp.Array:
        return (weights * 3 + 1) * x

    for _ in range(3):
        assert np.asarray(await f(anp.full(4, 2.0))).tolist() == [8.0] * 4
        f.free_intermediates()
