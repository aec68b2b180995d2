"""Loops of every kind: the same programs on asyncio, uvloop and trio, several at a time and one after another."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

from asyncjit.errors import ReplayCancelledError
from tests.engine.world import BOTH, PATIENCE_S, READ, Held, World, double, increment, state_of

Main = Callable[[], Awaitable[Any]]


def run_asyncio(main: Main) -> Any:
    return anyio.run(main, backend="asyncio")


def run_uvloop(main: Main) -> Any:
    return anyio.run(main, backend="asyncio", backend_options={"use_uvloop": True})


def run_trio(main: Main) -> Any:
    return anyio.run(main, backend="trio")


LOOPS = [run_asyncio, run_trio]
if importlib.util.find_spec("uvloop") is not None:
    LOOPS.append(run_uvloop)


@pytest.mark.parametrize("run", LOOPS)
def test_replays_are_awaited_by_several_tasks_and_cancelled_by_scopes_on_every_loop(
    world: World, run: Callable[[Main], Any]
) -> None:
    state, held = world.array(0.0), Held(increment)

    async def main() -> None:
        first = world.call(world.program(held, [BOTH]), state)
        behind = world.call(world.program(increment, [BOTH]), state)
        with anyio.move_on_after(0) as scope:
            await behind
        assert scope.cancelled_caught
        # Nobody else wanted it, so it is as if it had never been called.
        assert state_of(behind) == "dropped"
        with pytest.raises(ReplayCancelledError):
            await behind
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(lambda: first)
            held.let_go()
        doubled = await world.call(world.program(double, [READ], outputs=1), state)
        assert world.read(doubled[0]) == [2.0] * 4

    run(main)
    assert world.read(state) == [1.0] * 4


def test_loops_of_every_kind_in_threads_share_one_engine(world: World) -> None:
    state, program = world.array(0.0), None
    program = world.program(increment, [BOTH])

    async def client() -> None:
        for _ in range(40):
            one, other = world.call(program, state), world.call(program, state)
            await other
            await one

    with ThreadPoolExecutor(2 * len(LOOPS)) as pool:
        for done in [pool.submit(run, client) for run in LOOPS * 2]:
            done.result(PATIENCE_S)
    assert world.read(state) == [160.0 * len(LOOPS)] * 4


def test_a_replay_may_begin_on_one_loop_and_be_awaited_on_one_of_another_kind(world: World) -> None:
    state, held = world.array(0.0), Held(increment)
    replays: list[Any] = []

    async def begin() -> None:
        replays.append(world.call(world.program(held, [BOTH]), state))

    async def finish() -> None:
        await replays[0]

    LOOPS[0](begin)
    with ThreadPoolExecutor(len(LOOPS)) as pool:
        waiting = [pool.submit(run, finish) for run in LOOPS]
        held.wait_until_entered()
        held.let_go()
        for done in waiting:
            done.result(PATIENCE_S)
    assert world.read(state) == [1.0] * 4


@pytest.mark.parametrize("run", LOOPS)
def test_one_loop_after_another_in_one_thread(world: World, run: Callable[[Main], Any]) -> None:
    state, program = world.array(0.0), world.program(increment, [BOTH])

    async def once() -> None:
        await world.call(program, state)

    for _ in range(10):
        run(once)
        asyncio.run(once())
    assert world.read(state) == [20.0] * 4
