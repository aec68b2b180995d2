"""What a loop does for replays in one turn: tasks go on in order, a few at a time, as time allows."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Generator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from asyncjit import ports
from asyncjit.fences import Fence
from asyncjit.ports import RELEASED_AT_FIRST, TURN_S
from asyncjit.streams import current_port, pace, wait_fence

BACKENDS: list[Any] = [("asyncio", {}), ("trio", {})]
if importlib.util.find_spec("uvloop") is not None:
    BACKENDS.append(("asyncio", {"use_uvloop": True}))

every_loop = pytest.mark.parametrize("backend", BACKENDS, ids=lambda each: each[0] + ("+uvloop" if each[1] else ""))


class Waiting:
    def __init__(self, fence: Fence) -> None:
        self.fence = fence

    def __await__(self) -> Generator[Any, Any, None]:
        yield from wait_fence(self.fence, lambda is_closing: True)


class Pause:
    def __await__(self) -> Generator[Any, Any, None]:
        yield from pace()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Time that passes when it is told to."""
    now = [100.0]
    monkeypatch.setattr(ports, "perf_counter", lambda: now[0])

    def pass_time(seconds: float) -> None:
        now[0] += seconds

    return pass_time


async def released(count: int, each_s: float, clock: Callable[[float], None]) -> list[list[int]]:
    """``count`` tasks wait for one fence and take ``each_s`` when they go on: who went on in each turn of the loop."""
    fence, turns = Fence(), [list[int]()]
    over = False

    async def wait(index: int) -> None:
        await Waiting(fence)
        clock(each_s)
        turns[-1].append(index)

    async def count_turns() -> None:
        while not over:
            await anyio.lowlevel.cancel_shielded_checkpoint()
            turns.append([])

    async with anyio.create_task_group() as outer:
        async with anyio.create_task_group() as tasks:
            for index in range(count):
                tasks.start_soon(wait, index)
            await anyio.wait_all_tasks_blocked()
            outer.start_soon(count_turns)
            fence.signal()
        over = True
    return [sorted(turn) for turn in turns if turn]


@every_loop
def test_tasks_that_take_long_go_on_few_a_turn(backend: Any, clock: Callable[[float], None]) -> None:
    turns = anyio.run(released, 24, TURN_S, clock, backend=backend[0], backend_options=backend[1])
    assert sorted(index for turn in turns for index in turn) == list(range(24))
    assert len(turns[0]) <= RELEASED_AT_FIRST
    assert max(map(len, turns[1:])) == 1


@every_loop
def test_tasks_that_take_no_time_soon_go_on_many_a_turn(backend: Any, clock: Callable[[float], None]) -> None:
    turns = anyio.run(released, 500, 0.0, clock, backend=backend[0], backend_options=backend[1])
    assert sum(map(len, turns)) == 500
    # Trio runs the tasks of one turn in any order, so one batch may be counted as two turns.
    assert len(turns) <= 20
    assert max(map(len, turns)) >= 100


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_turn_is_long_when_time_has_passed_since_its_first_inline_work(
    backend: str, clock: Callable[[float], None]
) -> None:
    async def main() -> None:
        port = current_port()
        assert port is not None
        clock(1.0)
        assert not port.is_long(), "nothing was done inline in this turn"
        port.charge_inline(1e-6)
        clock(TURN_S / 2)
        assert not port.is_long()
        clock(TURN_S)
        assert port.is_long()
        await Pause()
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        assert not port.is_long()

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_task_that_is_cancelled_before_its_turn_leaves_the_others_theirs(
    backend: str, clock: Callable[[float], None]
) -> None:
    async def main() -> None:
        first, second, gone = Fence(), Fence(), []
        scope = anyio.CancelScope()

        async def wait(fence: Fence, name: str) -> None:
            await Waiting(fence)
            clock(TURN_S)
            gone.append(name)
            scope.cancel()

        async def wait_in_scope() -> None:
            with scope:
                await wait(second, "cancelled")

        async with anyio.create_task_group() as tasks:
            for _ in range(RELEASED_AT_FIRST):
                tasks.start_soon(wait, first, "first")
            tasks.start_soon(wait_in_scope)
            for _ in range(4):
                tasks.start_soon(wait, second, "second")
            await anyio.wait_all_tasks_blocked()
            first.signal()
            second.signal()
        assert gone == ["first"] * RELEASED_AT_FIRST + ["second"] * 4

    anyio.run(main, backend=backend)
