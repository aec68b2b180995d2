"""Failure: who hears of it, and who goes on. Each test names the public issue it comes from."""

from __future__ import annotations

from typing import Any

import anyio
import numpy as np

import asyncjit as aj
from asyncjit.testing import LossFault, SimDevice
from tests.scenarios.world import Work, engine_of, on_each_loop, pings, until, value


def _fail() -> None:
    raise ZeroDivisionError("on purpose")


@on_each_loop
async def test_an_error_on_a_worker_wakes_everybody_who_waits_for_it() -> None:
    """JuliaGPU/CUDA.jl #1369.

    Wanted: no waiter that sleeps for ever because a callback does not fire once its stream has failed.
    Here: eight tasks that wait for one replay, and one that waits for its reader, all hear of the error.
    """
    work, errors = Work(held=True, inside=_fail), list[BaseException]()
    double = aj.jit(lambda x: x * 2)

    async def wait_for(replay: Any) -> None:
        try:
            await replay
        except aj.AsyncJitError as error:
            errors.append(error)

    async with engine_of(work), anyio.create_task_group() as tasks:
        failing = work.f(np.ones(2))
        reader = double(failing.result)
        for replay in [failing] * 8 + [reader]:
            tasks.start_soon(wait_for, replay)
        await until(work.entered)
        await pings(3)
        assert errors == []
        work.let_go()
    kinds = sorted(type(error).__name__ for error in errors)
    assert kinds == ["DependencyError"] + ["KernelError"] * 8
    assert all("on purpose" in str(error.__cause__) for error in errors if isinstance(error, aj.KernelError))


async def test_a_lost_device_wakes_its_waiters_and_leaves_other_engines_alone() -> None:
    """JuliaGPU/CUDA.jl #893, #1910 and #2025.

    Wanted: waiting that neither burns a core nor sleeps through an error.
    Here: waiters are woken by what happens and by nothing else; the loss of a device is such a thing.
    """
    lost, kept = SimDevice("lost", faults=[LossFault(at_s=0.5)]), SimDevice("kept")
    double = aj.jit(lambda x: x * 2)
    woken: list[type[BaseException]] = []

    async def wait_for(replay: Any) -> None:
        try:
            await replay
        except aj.DeviceLostError as error:
            woken.append(type(error))

    async with engine_of(devices=[kept]):
        other = double(np.ones(2))
        async with engine_of(devices=[lost]), anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(wait_for, double(np.full(2, float(number))))
            await pings(5)
            assert woken == []
            lost.run_until_idle()
        kept.run_until_idle()
        assert value(await other) == 2.0
    assert woken == [aj.DeviceLostError] * 4
