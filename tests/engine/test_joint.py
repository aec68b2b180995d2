"""Replays over several devices of one engine: failure, closing, times, inline runs, memory."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice
from asyncjit.devices.null import NullDevice
from asyncjit.errors import DeviceLostError, KernelError
from asyncjit.instruments import Instrument
from tests.engine.world import PATIENCE_S, Held, engine_threads

Pair = tuple[CpuDevice, CpuDevice]


def two_devices() -> Pair:
    return CpuDevice("cpu:0", workers=1), CpuDevice("cpu:1", workers=1)


def user_kernel(function: Any) -> Any:
    return aj.kernel(reads_writes=("array",))(lambda array: function(array))


async def test_of_two_failures_the_first_in_program_order_is_told_whichever_came_first() -> None:
    late = Held(lambda array: 1 // 0)

    def fail_behind(array: np.ndarray) -> None:
        # One that fails before the other has started would keep it from starting.
        late.wait_until_entered()
        raise IndexError

    first, second, idle = user_kernel(late), user_kernel(fail_behind), user_kernel(lambda array: None)
    async with aj.Engine(two_devices()) as engine:

        @aj.jit
        def step(x: anp.Array, y: anp.Array) -> None:
            first(x)
            second(y)

        # In program order the second would wait for the first.
        await step.prepare(*(aj.spec(2, "float64", device=name) for name in ("cpu:0", "cpu:1")))
        x, y, z = (anp.asarray(np.zeros(2), device=name) for name in ("cpu:0", "cpu:1", "cpu:1"))
        replay = step(x, y)
        late.wait_until_entered()
        # The one worker of the other device gets here when it has reported the failure.
        idle(z)
        await z
        late.let_go()
        with pytest.raises(KernelError) as failure:
            await replay
        assert failure.value.call_index == 0
        assert isinstance(failure.value.__cause__, ZeroDivisionError)
        assert engine.statistics().in_flight == 0
    assert engine_threads() == []


async def test_what_relies_on_a_call_that_failed_does_not_run_on_another_device() -> None:
    seen: list[float] = []
    fail, note = user_kernel(lambda array: 1 // 0), user_kernel(lambda array: seen.append(float(array[0])))
    async with aj.Engine(two_devices()):

        @aj.jit
        def step(x: anp.Array) -> anp.Array:
            here = x + 1
            fail(here)
            there = here.to_device("cpu:1")
            note(there)
            return there

        for _ in range(3):
            with pytest.raises(KernelError, match="ZeroDivisionError"):
                await step(anp.asarray(np.zeros(2)))
        assert seen == []
        y = anp.asarray(np.ones(2), device="cpu:1") * 2
        await y
        assert np.asarray(y).tolist() == [2, 2]


async def test_a_device_that_is_left_behind_does_not_keep_the_replay_or_the_other_device() -> None:
    held = Held()
    stuck = user_kernel(held)
    devices = two_devices()
    engine = aj.Engine(devices)
    with engine.use():

        @aj.jit
        def step(x: anp.Array) -> anp.Array:
            here = x * 2
            stuck(here)
            return here.to_device("cpu:1") + 1

        replay = step(anp.asarray(np.zeros(2)))
        waiting = asyncio.ensure_future(replay)
        held.wait_until_entered()
        await engine.aclose(0.05)
        with pytest.raises(DeviceLostError, match="cpu:0"):
            # Sooner than the held kernel would give up.
            await asyncio.wait_for(waiting, PATIENCE_S / 2)
    held.let_go()
    assert devices[0].close(20.0)
    assert devices[1].close(20.0)
    assert engine_threads() == []


async def test_times_of_calls_are_those_of_the_whole_plan() -> None:
    class Watch(Instrument):
        takes_times = True

    async with aj.Engine(two_devices()) as engine:
        engine.instruments.add(Watch())

        @aj.jit
        def step(x: anp.Array) -> anp.Array:
            there = (x + 1).to_device("cpu:1") * 2
            return there.to_device("cpu:0") - 3

        await step.prepare(aj.spec(300_000))
        replay = step(anp.asarray(np.zeros(300_000, "float32")))
        await replay
        calls = replay.call_times
        assert [call.call for call in calls] == [0, 1, 2, 3, 4]
        assert [call.device for call in calls] == ["cpu:0", "cpu:1", "cpu:1", "cpu:0", "cpu:0"]
        for earlier, later in pairwise(calls):
            assert earlier.done_s <= later.started_s


async def test_a_small_plan_over_devices_runs_on_the_thread_that_calls() -> None:
    async with aj.Engine((NullDevice("null:0"), NullDevice("null:1"))) as engine:

        @aj.jit
        def step(x: anp.Array) -> anp.Array:
            return (x + 1).to_device("null:1") * 2

        x = anp.asarray(np.arange(3))
        await step(x)
        before = engine.statistics()
        replay = step(x)
        assert replay.done()
        assert engine.statistics().inline == before.inline + 1
        assert np.asarray(await replay).tolist() == [2, 4, 6]


async def test_a_failure_inline_is_told_by_the_call_of_the_whole_plan() -> None:
    async with aj.Engine((NullDevice("null:0"), NullDevice("null:1"))) as engine:

        @aj.jit
        def step(x: anp.Array, index: anp.Array) -> anp.Array:
            return (x + 1)[index].to_device("null:1")[index.to_device("null:1")]

        x = anp.asarray(np.arange(3))
        await step(x, anp.asarray(np.array([0, 1, 2])))
        with pytest.raises(KernelError) as failure:
            await step(x, anp.asarray(np.array([0, 1, 3])))
        assert failure.value.call_index == 1
        assert engine.statistics().failed == 1


async def test_replays_in_flight_have_arenas_of_their_own_and_give_them_back() -> None:
    async with aj.Engine(two_devices()) as engine:

        @aj.jit(in_flight_max=3)
        def step(x: anp.Array) -> anp.Array:
            here = anp.sin(x * 3) + x
            there = here.to_device("cpu:1")
            return (anp.cos(there) * there).to_device("cpu:0") + here

        hosts = [np.arange(40_000.0) + index for index in range(12)]
        replays = [step(anp.asarray(host)) for host in hosts]
        for host, replay in zip(hosts, replays, strict=True):
            here = np.sin(host * 3) + host
            assert np.array_equal(np.asarray(await replay), np.cos(here) * here + here)
        # In program order at first, then lowered: idle frames are shared by both forms.
        assert engine.statistics().frames <= 3
        step.reset()
        del replays, replay
        assert engine.statistics().frames == 0


async def test_the_loss_of_a_member_that_refuses_work_is_told_once_and_ends_the_replay() -> None:
    devices = two_devices()
    async with aj.Engine(devices):

        @aj.jit
        def step(x: anp.Array) -> anp.Array:
            return (x * 2).to_device("cpu:1").to_device("cpu:0") + 1

        assert devices[1].close(20.0)
        with pytest.raises(DeviceLostError, match="cpu:1"):
            await step(anp.asarray(np.arange(200_000.0)))
        y = anp.asarray(np.arange(3.0)) + 1
        await y
        assert np.asarray(y).tolist() == [1, 2, 3]
