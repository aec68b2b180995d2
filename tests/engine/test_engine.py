"""Order, limits and books of an engine."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncjit.clock import VirtualClock
from asyncjit.devices.cpu import CpuDevice
from asyncjit.devices.null import NullDevice
from asyncjit.devices.sim import SimDevice
from asyncjit.engine import Engine, Group, current_engine, default_engine
from asyncjit.errors import (
    DeviceUnavailableError,
)
from asyncjit.instruments import Instrument
from asyncjit.ir import Access, Call, Kernel, Schedule, Slot, SlotKind, new_buffer, operand_of
from asyncjit.plan import ANY_LANE, StreamSpec
from asyncjit.replay import Replay
from asyncjit.storage import Storage
from tests.engine.world import READ, WRITE, Held, World, assign, double


async def test_instruments_are_told_in_order_and_may_ask_the_engine(world: World) -> None:
    class Witness(Instrument):
        takes_times = True

        def __init__(self) -> None:
            self.told: list[tuple[str, int]] = []

        def note(self, hook: str, replay: Replay[Any]) -> None:
            world.engine.statistics()
            self.told.append((hook, replay.ticket))

        def replay_submitted(self, replay: Any) -> None:
            self.note("submitted", replay)

        def replay_started(self, replay: Any) -> None:
            self.note("started", replay)

        def replay_done(self, replay: Any) -> None:
            self.note("done", replay)

        def replay_failed(self, replay: Any, error: BaseException) -> None:
            self.note("failed", replay)

        def replay_cancelled(self, replay: Any) -> None:
            self.note("cancelled", replay)

    witness = Witness()
    world.engine.instruments.add(witness)
    source = world.array(1.0)
    group, held = Group("narrow", in_flight_max=1), Held(double)
    await world.call(world.program(None, [READ, READ], kernel="add", outputs=1), source, source)
    slow = world.call(world.program(held, [READ], outputs=1), source, group=group)
    dropped = world.call(world.program(double, [READ], outputs=1), source, group=group)
    dropped.cancel()
    held.let_go()
    await slow
    with pytest.raises(Exception, match="on purpose"):
        await world.pure(broken)
    # Waiters are woken first; closing waits for the threads that tell.
    await world.engine.aclose()
    told = [[hook for hook, ticket in witness.told if ticket == number] for number in range(1, 5)]
    assert told[0] == ["submitted", "started", "done"]
    assert told[1] == ["submitted", "started", "done"]
    assert told[2] == ["submitted", "cancelled"]
    assert told[3] == ["submitted", "started", "failed"]


def broken(*arrays: np.ndarray) -> None:
    raise ValueError("on purpose")


async def test_the_engine_of_a_task_is_the_one_opened_last_around_it() -> None:
    async def other() -> Engine:
        return current_engine()

    async with Engine() as outer:
        async with Engine() as inner:
            assert current_engine() is inner
            assert await asyncio.create_task(other()) is inner
        assert current_engine() is outer
        # Entered by two tasks: each sets back its own.
        async with Engine() as shared:

            async def enter() -> Engine:
                async with shared:
                    pass
                return current_engine()

            assert await asyncio.create_task(enter()) is shared
    assert current_engine() is default_engine()


async def test_a_task_that_did_not_inherit_an_engine_can_use_it_and_leaves_it_open() -> None:
    seen: list[Engine] = []

    async def request() -> None:
        with engine.use() as used:
            seen.extend([used, current_engine()])
        seen.append(current_engine())

    fresh = contextvars.Context()
    async with Engine() as engine:
        await asyncio.get_running_loop().create_task(request(), context=fresh)
        assert seen == [engine, engine, default_engine()]
        other = Engine()
        with pytest.raises(ZeroDivisionError), other.use():
            raise ZeroDivisionError
        assert current_engine() is engine
        with other.use():
            assert current_engine() is other
        await other.aclose()


def test_an_engine_needs_devices_of_different_names() -> None:
    with pytest.raises(ValueError, match="at least one device"):
        Engine(())
    with pytest.raises(ValueError, match="same name"):
        Engine((CpuDevice(), CpuDevice()))


def test_what_cannot_be_loaded_is_refused(make_world: Callable[..., World]) -> None:
    world = make_world(NullDevice("one"), NullDevice("two"))
    with pytest.raises(DeviceUnavailableError, match="no device 'three'"):
        world.engine.device("three")
    kernel = Kernel("copy", (Access.READ, Access.WRITE))
    calls = []
    slots = []
    for device in ("one", "two"):
        buffers = [new_buffer(device, 8) for _ in range(2)]
        slots += [Slot(SlotKind.INPUT, buffer) for buffer in buffers]
        calls.append(Call(kernel, tuple(operand_of(buffer, (1,), (8,), "float64", 8) for buffer in buffers)))
    program = world.engine.load(Schedule(tuple(calls), tuple(slots), "mixed"), {}, {})
    assert program.device == "one+two"
    assert program.plan.streams == (StreamSpec("one", ANY_LANE), StreamSpec("two", ANY_LANE))


def test_a_story_tells_what_happened_to_a_replay(make_world: Callable[..., World]) -> None:
    device = SimDevice()
    world = make_world(device, clock=VirtualClock())
    replay = world.pure()
    device.run_until_idle()
    assert [name for _, name, _ in world.engine.story(replay)] == ["Submit", "Admitted", "RunDone"]
    assert world.engine.story() == world.engine.story(replay)


def test_programs_give_back_their_entry_for_what_they_read(world: World) -> None:
    state = world.array(1.0)
    program = world.program(double, (), [(state, READ)], outputs=1)
    world.call(program).wait()
    del program
    gc.collect()
    world.call(world.program(assign(2.0), [WRITE]), state).wait()
    assert world.engine.statistics().tracker_entries == 0
    assert not world.engine._scheduler._ledger.tracker.tracked & {state.serial}


def test_constants_of_a_capture_run_detached_and_take_no_ticket(world: World) -> None:
    program = world.program(None, [READ, READ], kernel="add", outputs=1)
    source = world.array(2.0)
    (output,) = world.engine.run_detached(program, [(source, 0), (source, 0)])
    assert world.read(output) == [4.0] * 4
    with pytest.raises(Exception, match="on purpose"):
        world.engine.run_detached(world.program(broken, [READ], outputs=1), [(source, 0)])
    assert world.engine.statistics().tickets == 0


def test_a_storage_knows_its_place(world: World) -> None:
    storage: Storage = world.array(1.0)
    assert repr(storage) == f"<storage {storage.serial}: 32 bytes on cpu>"
    assert storage.is_ready
    empty = storage.read_host(0, (0,), (8,), np.dtype(np.float64), "np.asarray")
    assert empty.shape == (0,)
