"""What a failure does: to its replay, to readers, to those that overwrite, and to the rest of the world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from asyncjit.devices.cpu import CpuDevice
from asyncjit.devices.null import NullDevice
from asyncjit.devices.sim import LossFault, SimDevice
from asyncjit.errors import (
    CaptureError,
    DependencyError,
    DeviceLostError,
    DeviceUnavailableError,
    KernelError,
)
from asyncjit.ir import Call, Copy, Kernel, Schedule, Slot, SlotKind, new_buffer, operand_of
from tests.engine.world import BOTH, READ, WRITE, Held, World, assign, double, fail, increment


async def test_a_failed_call_names_kernel_index_shapes_place_and_cause(world: World) -> None:
    device = world.engine.default_device
    state = new_buffer(device, 32)
    operand = operand_of(state, (4,), (8,), "float64", 8)
    calls = tuple(
        Call(Kernel(name, (BOTH,), (), function), (operand,), source=f"model.py:{line}")
        for line, (name, function) in enumerate([("good", increment), ("bad", fail), ("never", increment)], 1)
    )
    schedule = Schedule(calls, (Slot(SlotKind.INPUT, state),), "step")
    program = world.engine.load(schedule, {}, {}, lowering=False)
    array = world.array(0.0)
    with pytest.raises(
        KernelError, match=r"call 1 of 'step', kernel 'bad' on float64\[4\] \(recorded at model.py:2\)"
    ) as caught:
        await world.call(program, array)
    error = caught.value
    assert (error.kernel, error.call_index, error.shapes, error.function) == ("bad", 1, ["float64[4]"], "step")
    assert isinstance(error.__cause__, ZeroDivisionError)


async def test_poison_runs_from_reader_to_reader_and_ends_where_somebody_only_overwrites(world: World) -> None:
    held = Held(fail)
    state = world.array(1.0)
    failed = world.call(world.program(held, [BOTH]), state)
    reader = world.call(world.program(double, [READ], outputs=1), state)
    second = world.call(world.program(double, [READ], outputs=1), *reader.result)
    healer = world.call(world.program(assign(4.0), [WRITE]), state)
    healed = world.call(world.program(double, [READ], outputs=1), state)
    other = world.pure()
    held.let_go()
    with pytest.raises(KernelError):
        await failed
    for replay, source in ((reader, failed), (second, reader)):
        with pytest.raises(DependencyError) as caught:
            await replay
        assert caught.value.source_ticket == source.ticket
        assert isinstance(caught.value.__cause__, KernelError)
    await healer
    (value,) = await healed
    assert world.read(value) == [8.0] * 4
    await other
    late = world.call(world.program(double, [READ], outputs=1), *second.result)
    with pytest.raises(DependencyError):
        await late


async def test_ranges_that_a_failed_replay_does_not_write_stay_good(world: World) -> None:
    state = world.array(1.0)
    with pytest.raises(KernelError):
        await world.call(world.program(fail, [BOTH], parts={0: (0, 2)}), state)
    await world.call(world.program(increment, [BOTH], parts={0: (2, 4)}), state)
    with pytest.raises(DependencyError):
        await state
    upper = state.read_host(16, (2,), (8,), np.dtype(np.float64), "np.asarray")
    assert upper.tolist() == [2.0, 2.0]
    with pytest.raises(DependencyError):
        world.read(state)


async def test_an_error_of_a_kernel_that_is_no_exception_does_not_end_the_worker(world: World) -> None:
    def leave(*arrays: np.ndarray) -> None:
        raise SystemExit(3)

    with pytest.raises(KernelError) as caught:
        await world.pure(leave)
    assert isinstance(caught.value.__cause__, SystemExit)
    (output,) = await world.pure()
    assert world.read(output) == [2.0] * 4


async def test_a_lost_device_fails_what_is_on_it_and_others_stay_usable(make_world: Callable[..., World]) -> None:
    loop = asyncio.get_running_loop()
    world = make_world(SimDevice(faults=[LossFault(0.5)], defer=loop.call_soon), NullDevice())
    state = world.array(1.0)
    running = world.call(world.program(increment, [BOTH]), state)
    queued = world.call(world.program(increment, [BOTH]), state)
    with pytest.raises(DeviceLostError, match="other devices stay usable"):
        await running
    with pytest.raises((DeviceLostError, DependencyError)):
        await queued
    with pytest.raises(DeviceLostError):
        await world.call(world.program(assign(1.0), [WRITE]), state)
    with pytest.raises(DependencyError):
        await state
    world.engine.default_device = "null"
    (output,) = await world.pure()
    assert world.read(output) == [2.0] * 4


async def test_what_an_inline_replay_fails_with_is_seen_by_its_waiters_and_readers(world: World) -> None:
    source = world.array(1.0)
    device = world.engine.default_device
    buffers = [new_buffer(device, 32), new_buffer(device, 32)]
    # A copy between shapes that do not fit: an error of ours, made by hand, that only an inline run meets.
    target = operand_of(buffers[1], (4,), (8,), "float64", 8)
    given = operand_of(buffers[0], (3,), (8,), "float64", 8)
    slots = (Slot(SlotKind.INPUT, buffers[0]), Slot(SlotKind.OUTPUT, buffers[1]))
    program = world.engine.load(Schedule((Copy(target, given),), slots, "misfit"), {}, {1: ((4,), "float64")})
    replay = world.call(program, source)
    assert replay.done()
    with pytest.raises(KernelError, match="could not broadcast"):
        await replay
    with pytest.raises(DependencyError):
        await replay.result[0]
    with pytest.raises(DependencyError):
        await world.call(world.program(double, [READ], outputs=1), *replay.result)


async def test_a_body_that_raises_fails_its_call_and_the_next_one_captures_anew(world: World) -> None:
    def broken() -> object:
        raise CaptureError("on purpose")

    for _ in range(3):
        with pytest.raises(CaptureError, match="on purpose"):
            world.engine.submit_first(world.group, "signature", broken)
    source = world.array(1.0)
    program = world.program(double, [READ], outputs=1)
    replay = world.engine.submit_first(world.group, "signature", lambda: (program, [(source, 0)], list))
    (output,) = await replay
    assert world.read(output) == [2.0] * 4
    assert world.engine.statistics().failed == 3


def test_an_unknown_executor_is_refused(world: World) -> None:
    buffer = new_buffer("cpu", 32)
    operand = operand_of(buffer, (4,), (8,), "float64", 8)
    schedule = Schedule(
        (Call(Kernel("user", (BOTH,), (), increment), (operand,)),), (Slot(SlotKind.INPUT, buffer),), "f"
    )
    with pytest.raises(DeviceUnavailableError, match="no executor 'quantum'"):
        world.engine.load(schedule, {}, {}, executor="quantum")


def test_a_device_that_cannot_take_work_is_lost(make_world: Callable[..., World]) -> None:
    device = CpuDevice(workers=1)
    world = make_world(device)
    world.pure().wait()
    assert device.close(10.0)
    with pytest.raises(DeviceLostError, match="was closed"):
        world.pure().wait()
