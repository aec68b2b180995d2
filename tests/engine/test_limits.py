"""Limits: room, queue, memory, and work on the loop; and books that stay in order where something is refused."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncjit.devices.cpu import CpuDevice
from asyncjit.devices.null import NullDevice
from asyncjit.devices.sim import MemoryFault, SimDevice
from asyncjit.engine import Group
from asyncjit.errors import (
    DeviceOutOfMemoryError,
    EngineBusyError,
)
from asyncjit.ir import Call, Kernel, Schedule, Slot, SlotKind, new_buffer, operand_of
from asyncjit.streams import INLINE_TURN_S, current_port
from tests.engine.world import BOTH, READ, WRITE, Held, World, increment


def test_room_is_first_come_first_served_within_a_group(world: World) -> None:
    group = Group("narrow", in_flight_max=2)
    kernels = [Held() for _ in range(4)]
    replays = [world.call(world.program(kernel, [READ]), world.array(), group=group) for kernel in kernels]
    kernels[0].wait_until_entered()
    kernels[1].wait_until_entered()
    statistics = world.engine.statistics()
    assert (statistics.in_flight, statistics.queued, statistics.in_flight_peak) == (2, 2, 2)
    kernels[1].let_go()
    kernels[2].wait_until_entered()
    assert not kernels[3].entered.is_set()
    for kernel in kernels:
        kernel.let_go()
    for replay in replays:
        replay.wait()
    statistics = world.engine.statistics()
    assert (statistics.in_flight, statistics.queued, statistics.in_flight_peak, statistics.done) == (0, 0, 2, 4)


def test_a_call_beyond_the_queue_limit_is_refused_and_leaves_no_trace(make_world: Callable[..., World]) -> None:
    world = make_world(replays_queued_max=2)
    group, held = Group("narrow", in_flight_max=1), Held()
    program = world.program(held, [BOTH])
    state = world.array()
    replays = [world.call(program, state, group=group) for _ in range(3)]
    before = world.engine.statistics()
    with pytest.raises(EngineBusyError, match="replays_queued_max=2"):
        world.call(program, state, group=group)
    assert world.engine.statistics() == before
    # What the surfaces do for the user is exempt.
    eager = world.call(world.program(increment, [BOTH]), state, group=world.engine.eager_group)
    held.let_go()
    for replay in (*replays, eager):
        replay.wait()
    assert world.read(state) == [1.0] * 4


def test_a_call_beyond_the_memory_limit_is_refused_and_its_bytes_are_given_back(
    make_world: Callable[..., World],
) -> None:
    world = make_world(memory_bytes_max=200)
    source = world.array(1.0)
    with pytest.raises(EngineBusyError, match="memory_bytes_max=200"):
        world.engine.constant(np.zeros(30))
    kept = world.call(world.program(lambda *arrays: None, [READ], outputs=2), source)
    kept.wait()
    assert world.engine.statistics().memory_bytes == 96
    with pytest.raises(EngineBusyError, match=r"needs 128 bytes more, but \d+ of memory_bytes_max=200"):
        world.call(world.program(lambda *arrays: None, [READ], outputs=4), source)
    gc.collect()
    assert world.engine.statistics().memory_bytes == 96
    del kept
    world.pure().wait()


def test_outputs_count_once_and_those_of_a_refused_call_are_free_with_its_error(
    make_world: Callable[..., World],
) -> None:
    world = make_world(memory_bytes_max=96)
    source = world.array(1.0)
    program = world.program(lambda *arrays: None, [READ], outputs=1)
    kept = [world.call(program, source) for _ in range(2)]
    for replay in kept:
        replay.wait()
    gc.disable()
    try:
        with pytest.raises(EngineBusyError, match="needs 32 bytes more, but 96 of memory_bytes_max=96"):
            world.call(program, source)
        assert world.engine.statistics().memory_bytes == 96
        kept.pop()
        del replay
        world.call(program, source).wait()
    finally:
        gc.enable()


def test_an_output_that_finds_no_memory_leaves_the_books_in_order(make_world: Callable[..., World]) -> None:
    world = make_world(SimDevice(faults=[MemoryFault(2)]))
    source = world.array(1.0)
    program = world.program(lambda *arrays: None, [READ], outputs=2)
    with pytest.raises(DeviceOutOfMemoryError):
        world.call(program, source)
    gc.collect()
    assert world.engine.statistics().memory_bytes == 32
    assert world.engine.statistics().tickets == 0


@pytest.mark.parametrize("inline", [True, False])
def test_a_frame_that_finds_no_memory_fails_the_replay_and_nothing_else(
    make_world: Callable[..., World], inline: bool
) -> None:
    device = SimDevice(faults=[MemoryFault(1)], inline_s_max=10.0 if inline else 0.0)
    world = make_world(device)
    state = world.array(1.0)
    group = Group("narrow", in_flight_max=1)
    program = with_an_intermediate(world)
    broken = world.call(program, state, group=group)
    device.run_until_idle()
    assert isinstance(broken._run.error, DeviceOutOfMemoryError)
    # What it should have written is poisoned, written or not; other arrays are not.
    other = world.array(1.0)
    again = world.call(program, other, group=group)
    device.run_until_idle()
    again.wait()
    statistics = world.engine.statistics()
    assert (statistics.failed, statistics.done, statistics.in_flight) == (1, 1, 0)
    assert world.read(other) == [2.0] * 4


def with_an_intermediate(world: World) -> Any:
    """A program that doubles its input in place, by way of its frame."""
    device, size = world.engine.default_device, world.size
    state, middle = new_buffer(device, 8 * size), new_buffer(device, 8 * size)
    operand, between = (operand_of(buffer, (size,), (8,), "float64", 8) for buffer in (state, middle))
    add = Kernel("add", (READ, READ, WRITE))
    calls = (Call(add, (operand, operand, between)), Call(Kernel("copy", (READ, WRITE)), (between, operand)))
    schedule = Schedule(calls, (Slot(SlotKind.INPUT, state),), "doubled")
    return world.engine.load(schedule, {}, {}, lowering=False)


def test_an_interrupt_during_an_inline_run_goes_out_and_leaves_the_books_in_order(
    make_world: Callable[..., World],
) -> None:
    class Interrupted(NullDevice):
        """Ctrl-C comes between the kernels and the end of the run."""

        armed = True

        def run_inline(self, submission: Any) -> Any:
            outcome = super().run_inline(submission)
            if self.armed:
                self.armed = False
                raise KeyboardInterrupt
            return outcome

    world = make_world(Interrupted())
    source = world.array(1.0)
    group = Group("narrow", in_flight_max=1)
    program = world.program(None, [READ, READ], kernel="add", outputs=1)
    with pytest.raises(KeyboardInterrupt):
        world.call(program, source, source, group=group)
    replay = world.call(program, source, source, group=group)
    replay.wait()
    statistics = world.engine.statistics()
    assert (statistics.failed, statistics.done, statistics.in_flight) == (1, 1, 0)


async def test_tiny_calls_stay_on_the_loop_and_others_leave_it_when_the_turn_is_used_up(
    make_world: Callable[..., World],
) -> None:
    class Sized(NullDevice):
        """Says of every plan how long it takes."""

        estimated_s = 0.0

        def instantiate(self, plan: Any, executor: str | None = None) -> Any:
            executable = super().instantiate(plan, executor)
            executable.estimated_s = self.estimated_s
            return executable

    device = Sized()
    world = make_world(device)
    tiny = world.program(None, [READ, READ], kernel="add", outputs=1)
    device.estimated_s = 80e-6
    larger = world.program(None, [READ, READ], kernel="add", outputs=1)
    source = world.array(1.0)
    world.call(larger, source, source)
    assert world.engine.statistics().inline == 1
    port = current_port()
    assert port is not None
    port.charge_inline(2 * INLINE_TURN_S)
    world.call(larger, source, source)
    assert world.engine.statistics().inline == 1
    world.call(tiny, source, source)
    assert world.engine.statistics().inline == 2
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    world.call(larger, source, source)
    assert world.engine.statistics().inline == 3


def test_frames_are_counted_until_they_are_dropped_wherever_that_is(world: World) -> None:
    state = world.array(1.0)
    before = world.engine.statistics().memory_bytes
    group = Group("work", in_flight_max=2)
    program = with_an_intermediate(world)
    world.call(program, state, group=group).wait()
    during = world.engine.statistics().memory_bytes
    assert during >= before + 32
    del program
    group.idle.clear()
    gc.collect()
    assert world.engine.statistics().memory_bytes == before


class Cramped(CpuDevice):
    """Has no memory for the first frame that it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.made_by: list[str] = []

    def instantiate(self, plan: Any, executor: str | None = None) -> Any:
        executable = super().instantiate(plan, executor)
        if plan.schedule.name != "doubled":
            return executable
        create = executable.create_frame

        def create_frame() -> Any:
            self.made_by.append(threading.current_thread().name)
            if len(self.made_by) == 1:
                raise DeviceOutOfMemoryError("on purpose")
            return create()

        executable.create_frame = create_frame  # type: ignore[method-assign]
        return executable


def test_large_frames_are_made_off_the_loop_and_a_failure_is_the_replays(make_world: Callable[..., World]) -> None:
    device = Cramped()
    world = make_world(device, size=1 << 18)
    program = with_an_intermediate(world)
    group = Group("narrow", in_flight_max=1)
    other, state = world.array(1.0), world.array(1.0)
    for array in (other, state):
        if array.writer is not None:
            array.writer.block_until_done()
    broken = world.call(program, other, group=group)
    following = world.call(program, state, group=group)
    with pytest.raises(DeviceOutOfMemoryError):
        broken.wait()
    assert broken._run.error is not None
    assert broken._run.error.__traceback__ is None
    following.wait()
    assert world.read(state)[-1] == 2.0
    assert device.made_by == ["asyncjit-engine"] * 2
