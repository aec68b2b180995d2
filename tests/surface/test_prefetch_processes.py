"""``prefetch`` with transforms in processes: results, errors and deaths, and nothing left behind.

Each test starts one process or two, which takes half a second each.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from multiprocessing.connection import Client, Listener
from pathlib import Path
from traceback import walk_tb
from typing import Any

import anyio
import numpy as np
import pytest
import trio

import asyncjit as aj
from asyncjit.prefetch import processes
from asyncjit.prefetch.child import Story, error_of
from tests.surface.prefetching import prefetch_threads

SHARED = Path("/dev/shm")


def shared_blocks() -> set[str]:
    return {path.name for path in SHARED.glob("psm_*")} if SHARED.exists() else set()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = shared_blocks()
    yield
    assert multiprocessing.active_children() == []
    assert prefetch_threads() == []
    assert shared_blocks() <= before


def decode(item: int) -> dict[str, Any]:
    grid = np.arange(item * item, dtype=np.float32).reshape(item, item)
    return {"grid": grid, "turned": grid.T, "columns": grid[:, ::2], "name": f"item {item}", "pid": os.getpid()}


async def test_arrays_come_back_however_large_and_however_laid_out() -> None:
    sizes = [3, 0, 700, 5, 900, 1]
    async with aj.prefetch(sizes, decode, concurrency=2, executor="process") as batches:
        got = [batch async for batch in batches]
    assert os.getpid() not in {batch["pid"] for batch in got}
    for size, batch in zip(sizes, got, strict=True):
        wanted = decode(size)
        assert batch["name"] == wanted["name"]
        for key in ("grid", "turned", "columns"):
            assert type(batch[key]) is aj.Array
            np.testing.assert_array_equal(np.asarray(batch[key]), wanted[key])


class OwnError(Exception):
    """Pickles."""


class StubbornError(Exception):
    """Does not come out of pickle again."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("stubborn")


def misbehave(how: str) -> Any:
    if how == "raise":
        try:
            raise KeyError("the cause")
        except KeyError as cause:
            raise OwnError("mine", 3) from cause
    if how == "return a lock":
        return threading.Lock()
    if how == "die":
        os._exit(7)
    return how


def test_an_error_arrives_with_its_type_its_cause_and_the_traceback_over_there() -> None:
    async def main() -> None:
        async with aj.prefetch(["fine", "raise"], misbehave, executor="process") as batches:
            assert await anext(batches) == "fine"
            await anext(batches)

    with pytest.raises(OwnError) as caught:
        trio.run(main)
    assert caught.value.args == ("mine", 3)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "in misbehave" in caught.value.__notes__[0]


def test_an_error_that_does_not_pickle_is_told_in_words() -> None:
    error = error_of(Story.of(StubbornError(1, 2)))
    assert type(error) is RuntimeError
    assert "StubbornError: stubborn" in str(error)


async def test_a_process_that_dies_is_an_error_with_its_exit_code() -> None:
    async with aj.prefetch(["die"], misbehave, executor="process") as batches:
        with pytest.raises(ChildProcessError, match=r"transform misbehave ended \(exit code 7\)"):
            await anext(batches)


async def test_what_does_not_pickle_on_either_way_is_an_error_at_its_item() -> None:
    async with aj.prefetch([threading.Lock()], misbehave, executor="process") as batches:
        with pytest.raises(TypeError, match="item cannot be sent .*misbehave"):
            await anext(batches)
    async with aj.prefetch(["return a lock"], misbehave, executor="process") as batches:
        with pytest.raises(TypeError, match="pickle"):
            await anext(batches)


def call_and_hang(address: Any) -> None:
    with Client(address):
        threading.Event().wait()


async def test_a_process_that_hangs_is_killed_with_a_warning() -> None:
    async def leave(listener: Listener) -> None:
        async with aj.prefetch([listener.address], call_and_hang, executor="process", close_timeout_s=0.01):
            (await anyio.to_thread.run_sync(listener.accept)).close()

    with (
        Listener() as listener,
        pytest.warns(RuntimeWarning, match="transform call_and_hang .* its process was killed"),
    ):
        await leave(listener)


async def test_an_array_that_the_engine_has_no_room_for_leaves_no_shared_memory_and_nothing_that_looks_at_it() -> None:
    async with (
        aj.Engine(memory_bytes_max=1000),
        aj.prefetch([100], decode, executor="process") as batches,
    ):
        with pytest.raises(aj.EngineBusyError) as caught:
            await anext(batches)
    locals_ = [value for frame, _ in walk_tb(caught.tb) for value in frame.f_locals.values()]
    assert not any(isinstance(value, np.ndarray) for value in locals_)


def test_a_transform_that_does_not_pickle_is_refused_before_anything_starts() -> None:
    with pytest.raises(TypeError, match="transform mine cannot be sent"):
        processes.pickled_transform(lambda item: item, "transform mine")
