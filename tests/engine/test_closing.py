"""Closing: what was taken is finished, for a bounded time; no thread, task or descriptor stays behind."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from asyncjit.devices.cpu import CpuDevice
from asyncjit.engine import Engine, Group
from asyncjit.errors import (
    DependencyError,
    DeviceLostError,
    EngineClosedError,
    ReplayCancelledError,
    WouldBlockError,
)
from tests.engine.test_streams import LOOPS, run_in
from tests.engine.world import BOTH, PATIENCE_S, READ, Held, World, double, engine_threads, increment


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_aclose_finishes_what_was_taken_and_stops_all_threads(backend: str) -> None:
    before = threading.active_count()
    world = World()
    state = world.array(0.0)
    held = Held(increment)

    async def main() -> None:
        replays = [world.call(world.program(function, [BOTH]), state) for function in (held, increment, increment)]
        held.let_go()
        await world.engine.aclose()
        assert [replay.done() for replay in replays] == [True] * 3
        assert engine_threads() == []
        await state
        assert world.read(state) == [3.0] * 4

    anyio.run(main, backend=backend)
    assert threading.active_count() == before


async def test_closing_twice_and_at_once_is_fine() -> None:
    world = World()
    held = Held(double)
    replay = world.pure(held)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(world.engine.aclose())
        tasks.create_task(world.engine.aclose())
        await asyncio.sleep(0)
        held.let_go()
    assert replay.done()
    await world.engine.aclose()
    assert engine_threads() == []


async def test_a_closed_engine_says_so_to_calls_and_still_gives_the_values_it_has() -> None:
    async with (world := World()).engine:
        state = world.array(1.0)
        program = world.program(increment, [BOTH])
        replay = world.call(program, state)
        failed = world.call(world.program(broken, [READ], outputs=1), state)
    with pytest.raises(EngineClosedError, match="open a new engine"):
        world.call(program, state)
    with pytest.raises(EngineClosedError):
        world.array(1.0)
    with pytest.raises(EngineClosedError):
        world.engine.submit_first(world.group, 1, lambda: (program, [(state, 0)], list))
    assert await replay == []
    await state
    assert world.read(state) == [2.0] * 4
    with pytest.raises(Exception, match="on purpose"):
        await failed
    with pytest.raises(Exception, match="on purpose"):
        await failed.result[0]
    assert world.engine.statistics().queued == 0


def broken(*arrays: Any) -> None:
    raise ValueError("on purpose")


async def test_what_has_not_started_in_time_fails_and_what_runs_is_left_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    device = CpuDevice(workers=1)
    world = World(device)
    group, held, state = Group("narrow", in_flight_max=1), Held(increment), world.array(1.0)
    program = world.program(held, [BOTH])
    running = world.call(program, state, group=group)
    queued = world.call(program, world.array(1.0), group=group)
    held.wait_until_entered()
    with caplog.at_level(logging.WARNING, "asyncjit"):
        await world.engine.aclose(0.0)
    assert "left behind" in caplog.text
    with pytest.raises(EngineClosedError, match="had not started"):
        await queued
    with pytest.raises(DeviceLostError):
        await running
    with pytest.raises(DependencyError) as caught:
        await state
    assert isinstance(caught.value.__cause__, DeviceLostError)
    with pytest.raises(DependencyError):
        world.read(state)
    # It comes back late, and nobody minds.
    held.let_go()
    assert device.close(10.0)
    world.engine._scheduler.verify()
    assert engine_threads() == []


@pytest.mark.parametrize("new_loop", LOOPS)
def test_aclose_that_is_cancelled_finishes_first(new_loop: Callable[[], Any]) -> None:
    world = World()
    held = Held(double)
    replay = world.pure(held)

    async def main() -> None:
        closing = asyncio.create_task(world.engine.aclose())
        await asyncio.sleep(0)
        for _ in range(3):
            closing.cancel()
            await asyncio.sleep(0)
        assert not closing.done()
        held.let_go()
        with pytest.raises(asyncio.CancelledError):
            await closing

    run_in(new_loop, main)
    assert replay.done()
    assert engine_threads() == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_aclose_in_a_cancelled_scope_finishes_first(backend: str) -> None:
    world = World()
    state = world.array(0.0)

    async def main() -> None:
        with anyio.move_on_after(0) as scope:
            async with world.engine:
                world.call(world.program(increment, [BOTH]), state)
                await anyio.sleep_forever()
        assert scope.cancelled_caught

    anyio.run(main, backend=backend)
    assert world.read(state) == [1.0] * 4
    assert engine_threads() == []


def until_closing(world: World) -> None:
    while world.engine._idle is None:
        pass


async def test_closing_ends_when_the_last_replay_is_removed() -> None:
    world = World()
    entered, proceed = threading.Event(), threading.Event()
    program = world.program(double, [READ], outputs=1)
    source = world.array(1.0)

    def prepare() -> Any:
        entered.set()
        assert proceed.wait(PATIENCE_S)
        return program, [(source, 0)], list

    capturing = asyncio.create_task(asyncio.to_thread(world.engine.submit_first, world.group, "signature", prepare))
    assert await asyncio.to_thread(entered.wait, PATIENCE_S)
    ((run,),) = world.engine._scheduler._captures.values()
    assert run.context.cancel()
    closing = asyncio.create_task(world.engine.aclose(10 * PATIENCE_S))
    await asyncio.to_thread(until_closing, world)
    proceed.set()
    replay = await capturing
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.shield(closing)
    with pytest.raises(ReplayCancelledError):
        await replay


async def test_close_is_for_scripts() -> None:
    engine = Engine()
    with pytest.raises(WouldBlockError, match="aclose"):
        engine.close()
    await asyncio.to_thread(engine.close)
    assert engine_threads() == []


def open_descriptors() -> int:
    """How many there are, where the system lists them; elsewhere there is nothing to compare."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def test_engines_leave_no_descriptor_behind() -> None:
    async def once() -> None:
        async with (world := World()).engine:
            await world.pure()

    asyncio.run(once())
    before = open_descriptors()
    for _ in range(5):
        asyncio.run(once())
    assert open_descriptors() == before


def test_a_program_that_ends_without_closing_ends() -> None:
    script = (
        "import asyncjit.engine as e, numpy as np\n"
        "engine = e.default_engine()\n"
        "storage = engine.constant(np.zeros(1 << 20))\n"
        "print(storage.staging is not None)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"
    assert done.stderr == ""
