"""Outputs, frames and aliases: what a result is, and that nothing is written over. Each test names its public issue."""

from __future__ import annotations

from typing import Any

import anyio.lowlevel
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.testing import SimDevice
from tests.scenarios.world import engine_of, on_each_loop, value


@on_each_loop
async def test_results_of_two_calls_are_two_arrays() -> None:
    """tinygrad/tinygrad #7020.

    Wanted: two results of a captured function, both kept, that do not turn out to be one buffer.
    Here: each call has outputs of its own; ten of them kept to the end hold ten values in memory of their own.
    """
    double = aj.jit(lambda x: x * 2)
    async with engine_of():
        kept = [np.asarray(await double(np.full(2, float(number)))) for number in range(10)]
    assert [value(each) for each in kept] == [2.0 * number for number in range(10)]
    assert not any(np.shares_memory(a, b) for index, a in enumerate(kept) for b in kept[:index])


@on_each_loop
async def test_a_result_may_be_fed_to_the_function_that_made_it() -> None:
    """pytorch/pytorch #170604, #148439, #152887, #169545 and PR #178915.

    Wanted: results of captured graphs that a later run does not overwrite, without cloning them by hand.
    Here: ``f(f(x))`` on pending results, with both generations, and the input, kept alive and right.
    """
    double = aj.jit(lambda x: x * 2)
    device = SimDevice(seed=1)
    async with engine_of(devices=[device]):
        x = anp.asarray(np.ones(2))
        first = double(x)
        second = double(first.result)
        third = double(second.result)
        device.run_until_idle()
        assert [value(await each) for each in (third, second, first)] == [8.0, 4.0, 2.0]
        assert value(x) == 1.0


def _branches(x: Any, np_: Any) -> Any:
    """Four branches that may run on four streams, and several intermediates that may share bytes."""
    parts = [np_.exp(x * scale) * 2 + scale for scale in (0.25, 0.5, 0.75, 1.0)]
    return (parts[0] - parts[1]) * (parts[2] - parts[3])


@pytest.mark.parametrize("seed", range(6))
async def test_bytes_of_an_intermediate_are_used_again_only_when_every_reader_has_passed(seed: int) -> None:
    """pytorch/pytorch #181191 and PR #179863.

    Wanted: memory used on several streams that is reused safely without event queues written by hand.
    Here: frames, poisoned before each replay, are shared by eight replays over four streams in a seeded order.
    """
    device = SimDevice(seed=seed, streams_max=4)
    f = aj.jit(lambda x: _branches(x, anp), in_flight_max=2)
    async with engine_of(devices=[device]):
        await f.prepare(aj.spec(3, "float64"))
        hosts = [np.linspace(0, 1, 3) + number for number in range(8)]
        # No input is kept: whoever frees one too early gives its bytes to somebody else.
        replays = [f(anp.asarray(host)) for host in hosts]
        device.run_until_idle()
        for host, replay in zip(hosts, replays, strict=True):
            assert np.asarray(await replay).tolist() == _branches(host, np).tolist()
    assert ", 4 streams, " in f.explain()


@on_each_loop
async def test_a_function_of_the_host_runs_in_its_place_between_captured_calls() -> None:
    """NVIDIA/cuda-python #2058 and #111.

    Wanted: host functions as part of a stream and of a captured graph.
    Here: a user's kernel is a call of the schedule; it sees what stands before it and is seen by what follows.
    """
    seen: list[float] = []

    @aj.kernel(writes="out")
    def look(out: Any, source: Any) -> None:
        seen.append(value(source))
        out[...] = -source

    @aj.jit
    def f(x: Any) -> Any:
        out = anp.empty(x.shape)
        look(out, x + 1)
        return out * 10

    async with engine_of():
        assert [value(await f(np.full(2, float(number)))) for number in range(3)] == [-10.0, -20.0, -30.0]
        await anyio.lowlevel.checkpoint()
    assert seen == [1.0, 2.0, 3.0]
    assert len(f.captures) == 1
