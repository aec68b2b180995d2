"""Saved state: stored once, of one moment, shared where it was shared, and apart from everything else."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
import asyncjit.random as anp_random
from asyncjit.saving.container import Container
from tests.surface.prefetching import Run
from tests.surface.saved_models import accumulator, again

ONES = np.ones(4)


def arrays_in(file: Path) -> list[int]:
    with file.open("rb") as opened:
        return Container(opened, file.stat().st_size, str(file)).arrays_nbytes


def test_state_is_that_of_the_moment_of_saving_and_apart_afterwards(file: Path) -> None:
    add, _, total = accumulator()
    add.run(ONES)
    aj.save(file, add)
    add.run(ONES)
    first, second = aj.load(file), aj.load(file)
    assert np.asarray(first.run(ONES)).tolist() == [2.0] * 4
    assert np.asarray(first.run(ONES)).tolist() == [3.0] * 4
    assert np.asarray(second.run(ONES)).tolist() == [2.0] * 4
    assert np.asarray(total).tolist() == [2.0] * 4


def test_functions_and_arrays_that_shared_state_share_it_again(file: Path) -> None:
    add, peek, total = accumulator()
    add.run(ONES)
    peek.run()
    loaded = again(file, add=add, peek=peek, total=total, half=total[2:])
    loaded["add"].run(ONES)
    assert np.asarray(loaded["peek"].run()).tolist() == [2.0] * 4
    loaded["total"][...] = 7.0
    assert np.asarray(loaded["add"].run(ONES)).tolist() == [8.0] * 4
    assert np.asarray(loaded["half"]).tolist() == [8.0, 8.0]
    assert np.asarray(total).tolist() == [1.0] * 4


def test_a_loaded_generator_of_random_numbers_goes_on_where_the_saved_one_was(file: Path) -> None:
    generator = anp_random.Generator(7)
    draw = aj.jit(lambda: generator.uniform(size=4))
    draw.run()
    aj.save(file, draw)
    loaded = aj.load(file)
    for _ in range(3):
        assert np.asarray(loaded.run()).tolist() == np.asarray(draw.run()).tolist()


def test_weights_are_stored_once_however_many_captures_and_functions_read_them(file: Path) -> None:
    weights = anp.asarray(np.ones((64, 64)))

    def model(name: str) -> Any:
        function = aj.jit(lambda x: x @ weights)
        for rows in (1, 2, 3):
            function.run(np.ones((rows, 64)))
        return function

    aj.save(file, f=model("f"), g=model("g"), view=weights.T)
    assert arrays_in(file) == [weights.nbytes]
    assert file.stat().st_size < 2 * weights.nbytes


def test_a_load_gives_new_serial_numbers_to_everything(file: Path) -> None:
    add, _, _ = accumulator()
    add.run(ONES)
    loaded = again(file, add)
    (old,), (new,) = ([entry for table in each._tables.all() for entry in table] for each in (add, loaded))
    serials = [
        {slot.buffer.serial for slot in entry.program.schedule.slots} | {each.serial for each in entry.states}
        for entry in (old, new)
    ]
    assert serials[0].isdisjoint(serials[1])


def test_loading_into_an_engine_in_use_on_every_loop(run: Run, file: Path) -> None:
    """State of its own engine, replays of old and new side by side, saved from a worker thread."""

    async def main() -> None:
        async with aj.Engine() as engine:
            add, peek, total = accumulator()
            await add(ONES)
            await peek()
            await anyio.to_thread.run_sync(lambda: aj.save(file, add=add, peek=peek))
            loaded = aj.load(file)
            replays = [each(ONES) for _ in range(20) for each in (add, loaded["add"], loaded["add"])]
            results = [float(np.asarray(await replay)[0]) for replay in replays]
            assert sorted(results[0::3]) == list(range(2, 22))
            assert sorted([*results[1::3], *results[2::3]]) == list(range(2, 42))
            assert np.asarray(await loaded["peek"]()).tolist() == [41.0] * 4
            assert np.asarray(await total).tolist() == [21.0] * 4
            assert engine.statistics().failed == 0

    run(main)


def test_saving_in_a_running_loop_is_refused_with_the_remedy(file: Path) -> None:
    async def main() -> None:
        add, _, _ = accumulator()
        await add(ONES)
        with pytest.raises(aj.WouldBlockError, match=r"to_thread\.run_sync\(aj\.save"):
            aj.save(file, add)

    asyncio.run(main())
    assert not file.exists()


def test_what_is_saved_is_one_moment(file: Path) -> None:
    """Two arrays that are always written together are equal in every file, whoever writes meanwhile."""
    a, b = anp.zeros(1000), anp.zeros(1000)

    @aj.jit
    def step() -> None:
        a[...] = a + 1
        b[...] = b + 1

    async def main() -> None:
        await step()
        async with anyio.create_task_group() as group:
            group.start_soon(keep_stepping)
            for _ in range(5):
                await anyio.to_thread.run_sync(lambda: aj.save(file, step=step, a=a, b=b))
                loaded = aj.load(file)
                assert np.array_equal(np.asarray(loaded["a"]), np.asarray(loaded["b"]))
            group.cancel_scope.cancel()

    async def keep_stepping() -> None:
        while True:
            await step()

    asyncio.run(main())


def test_nothing_that_was_loaded_outlives_the_function(file: Path) -> None:
    weights = anp.asarray(np.ones(1 << 16))
    function: Callable[..., Any] = aj.jit(lambda x: x * weights)
    function(ONES[:1]).wait()  # type: ignore[attr-defined]
    aj.save(file, function)
    gc.collect()
    before = aj.current_engine().statistics().memory_bytes
    loaded = aj.load(file)
    assert aj.current_engine().statistics().memory_bytes >= before + weights.nbytes
    del loaded
    gc.collect()
    assert aj.current_engine().statistics().memory_bytes <= before
