"""Host memory: when it may be written again, and when a result may be read. Each test names its public issue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
from tests.scenarios.world import Work, engine_of, on_each_loop, until, value

#: Above 1 MiB host arrays are copied by a worker, and not at the call.
LARGE = 1 << 18


@on_each_loop
async def test_a_small_host_array_may_be_written_as_soon_as_the_call_has_returned() -> None:
    """pytorch/pytorch #127612.

    Wanted: an input that is changed after the call does not change what the call computes on.
    Here: the array is overwritten while its call still waits behind another one; the call sees what was passed.
    """
    work = Work(held=True, in_flight_max=1)
    async with engine_of(work):
        running = work.f(np.ones(2))
        host = np.full(2, 2.0)
        queued = work.f(host)
        host[:] = 99.0
        work.let_go()
        assert (value(await running), value(await queued)) == (2.0, 4.0)
    assert work.log == [1.0, 2.0]


@on_each_loop
async def test_a_result_cannot_be_read_before_it_is_there() -> None:
    """pytorch/pytorch #140296.

    Wanted: a copy to the host that is not read before it has finished.
    Here: reading a pending result raises in a loop; after the ``await`` it is whole.
    """
    work = Work(held=True)
    async with engine_of(work):
        replay = work.f(np.ones(2))
        with pytest.raises(aj.WouldBlockError):
            np.asarray(replay.result)
        work.let_go()
        assert value(await replay) == 2.0


@on_each_loop
async def test_one_large_buffer_is_filled_again_and_again_while_calls_wait() -> None:
    """vllm-project/vllm #47644, #54269 and #29288.

    Wanted: staging memory that is not overwritten while the copy of the step before is in flight.
    Here: one buffer serves six calls that are all still waiting; ``inputs_consumed`` says when to fill it again.
    """
    work = Work(held=True, in_flight_max=1)
    async with engine_of(work):
        buffer, replays = np.empty(LARGE), list[aj.Replay[Any]]()
        for number in range(6):
            buffer[:] = number
            replays.append(work.f(buffer))
            await replays[-1].inputs_consumed
        buffer[:] = 99.0
        assert not any(replay.done() for replay in replays)
        work.let_go()
        assert [value(await replay) for replay in replays] == [2.0 * number for number in range(6)]


@on_each_loop
async def test_a_loader_may_use_one_buffer_for_all_its_batches() -> None:
    """sgl-project/sglang-omni #1369.

    Wanted: a batch that is handed on while the loader fills the next one into the same memory, without a race.
    Here: prefetched batches are copies on the device, whole before the source is asked for the next.
    """

    def source() -> Iterator[Any]:
        buffer = np.empty(LARGE)
        for number in range(5):
            buffer[:] = number
            yield buffer

    work = Work(held=True)
    async with engine_of(work), aj.prefetch(source(), buffer=4) as batches:
        replays = [work.f(await anext(batches))]
        await until(work.entered)
        replays += [work.f(batch) async for batch in batches]
        work.let_go()
        assert [value(await replay) for replay in replays] == [2.0 * number for number in range(5)]
