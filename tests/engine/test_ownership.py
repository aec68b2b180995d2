"""Who owns what memory, and what a reader sees: no value that was read ever changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from asyncjit.devices.sim import CallFault, SimDevice
from asyncjit.errors import DependencyError, KernelError, WouldBlockError
from asyncjit.loading import STAGED_FROM_BYTES
from tests.engine.world import BOTH, READ, WRITE, Held, World, assign, double, fail, increment


async def test_outputs_are_new_arrays_that_no_later_replay_writes(world: World) -> None:
    program = world.program(double, [READ], outputs=1)
    (first,) = await world.call(program, world.array(1.0))
    view = world.view(first)
    (second,) = await world.call(program, world.array(5.0))
    assert first is not second
    assert view.tolist() == [2.0] * 4
    assert world.read(second) == [10.0] * 4


async def test_a_view_that_was_read_is_read_only_and_never_changes_when_the_array_is_written(world: World) -> None:
    array = world.array(1.0)
    view = world.view(array)
    assert not view.flags.writeable
    await world.call(world.program(increment, [BOTH]), array)
    await array
    assert view.tolist() == [1.0] * 4
    assert world.read(array) == [2.0] * 4


async def test_a_read_of_state_is_a_copy(world: World) -> None:
    array = world.array(1.0)
    program = world.program(increment, [BOTH])
    await world.call(program, array)
    await array
    copy = world.view(array)
    await world.call(program, array)
    assert copy.tolist() == [2.0] * 4


async def test_no_view_is_given_out_of_what_is_written_in_place(world: World) -> None:
    array, (output,) = world.array(1.0), await world.pure()
    assert world.engine.export(array)
    assert world.engine.export(output)
    await world.call(world.program(increment, [BOTH]), array)
    assert not world.engine.export(array)
    assert not array.exported


async def test_state_that_moves_in_memory_is_bound_anew_by_programs_that_have_run(world: World) -> None:
    state = world.array(3.0)
    reader = world.program(double, (), [(state, READ)], outputs=1)
    (before,) = await world.call(reader)
    view = world.view(state)
    await world.call(world.program(increment, [BOTH]), state)
    (after,) = await world.call(reader)
    assert (world.read(before), view.tolist(), world.read(after)) == ([6.0] * 4, [3.0] * 4, [8.0] * 4)


def test_a_queued_reader_and_a_later_writer_of_an_exported_array_keep_their_order(world: World) -> None:
    state, blocked = world.array(1.0), world.array(0.0)
    view = world.view(state)
    held = Held(increment)
    world.call(world.program(held, [BOTH]), blocked)

    def add(first: np.ndarray, second: np.ndarray, out: np.ndarray) -> None:
        np.add(first, second, out=out)

    reader = world.call(world.program(add, [READ, READ], outputs=1), state, blocked)
    writer = world.call(world.program(assign(9.0), [WRITE]), state)
    held.let_go()
    (total,) = reader.wait()
    writer.wait()
    assert world.read(total) == [2.0] * 4
    assert world.read(state) == [9.0] * 4
    assert view.tolist() == [1.0] * 4


async def test_reading_before_awaiting_raises_done_or_not(world: World) -> None:
    (result,) = world.pure().result
    held = Held(double)
    (pending,) = world.pure(held).result
    for array in (result, pending):
        with pytest.raises(WouldBlockError, match=r"np\.asarray reads an array of shape"):
            world.read(array)
    held.let_go()
    await result
    await pending
    assert world.read(result) == world.read(pending) == [2.0] * 4


async def test_reading_state_that_was_written_since_it_was_awaited_raises(world: World) -> None:
    state = world.array(0.0)
    held = Held(increment)
    replay = world.call(world.program(held, [BOTH]), state)
    with pytest.raises(WouldBlockError):
        world.read(state)
    # Somebody who awaits an earlier replay marks it awaited although this one is pending.
    state.awaited = True
    with pytest.raises(WouldBlockError, match="await the array again"):
        world.read(state)
    held.let_go()
    await replay
    assert world.read(state) == [1.0] * 4


def test_outside_a_loop_reading_waits_for_the_writer(world: World) -> None:
    state = world.array(0.0)
    held = Held(increment)
    world.call(world.program(held, [BOTH]), state)
    held.wait_until_entered()
    held.let_go()
    assert world.read(state) == [1.0] * 4


def test_reads_of_disjoint_rows_do_not_wait_for_each_other(world: World) -> None:
    state = world.array(0.0)
    held = Held(increment)
    world.call(world.program(held, [BOTH], parts={0: (0, 2)}), state)
    world.call(world.program(increment, [BOTH], parts={0: (2, 4)}), state).wait()
    held.wait_until_entered()
    state.awaited = True
    upper = state.read_host(16, (2,), (8,), np.dtype(np.float64), "np.asarray")
    assert upper.tolist() == [1.0, 1.0]
    held.let_go()
    assert world.read(state) == [1.0] * 4


async def test_an_array_is_pending_until_the_last_of_its_writers_has_ended(world: World) -> None:
    state = world.array(0.0)
    held = Held(increment)
    slow = world.call(world.program(held, [BOTH], parts={0: (0, 2)}), state)
    await world.call(world.program(increment, [BOTH], parts={0: (2, 4)}), state)
    assert state.writer is slow
    held.let_go()
    await state
    assert world.read(state) == [1.0] * 4


async def test_a_dropped_writer_gives_the_array_back_to_the_writer_before_it(world: World) -> None:
    state = world.array(0.0)
    held = Held(increment)
    first = world.call(world.program(held, [BOTH]), state)
    second = world.call(world.program(increment, [BOTH]), state)
    assert second.cancel()
    assert state.writer is first
    held.let_go()
    await state
    assert world.read(state) == [1.0] * 4


def test_host_data_up_to_the_limit_is_copied_at_the_call(world: World) -> None:
    host = np.ones(STAGED_FROM_BYTES, np.uint8)
    storage = world.engine.constant(host)
    host[:] = 7
    assert storage.staging is None
    assert storage.read_host(0, (3,), (1,), np.dtype(np.uint8), "np.asarray").tolist() == [1, 1, 1]


async def test_large_host_data_can_be_read_at_once_and_written_again_when_consumed(
    make_world: Callable[..., World],
) -> None:
    world = make_world("cpu", size=1 << 18)
    workers = [Held() for _ in range(4)]
    for worker in workers:
        world.call(world.program(worker, [READ]), world.array())
    host = np.arange(float(world.size))
    storage = world.engine.constant(host)
    assert storage.staging is not None
    assert world.read(storage)[5] == 5.0
    replay = world.call(world.program(double, [READ], outputs=1), storage)
    consumed = replay.inputs_consumed
    for worker in workers:
        worker.let_go()
    await consumed
    host[:] = -1.0
    (doubled,) = await replay
    assert world.read(doubled)[5] == 10.0
    assert world.read(storage)[5] == 5.0
    assert storage.staging is storage.source is None
    assert replay._staged == []


def test_foreign_byte_order_is_turned_round(world: World) -> None:
    storage = world.engine.constant(np.arange(4.0).astype(">f8"))
    assert world.read(storage) == [0.0, 1.0, 2.0, 3.0]


def test_a_failed_output_that_is_overwritten_can_be_read_again(world: World) -> None:
    failed = world.call(world.program(fail, [READ], outputs=1), world.array(1.0))
    (output,) = failed.result
    with pytest.raises(DependencyError) as caught:
        world.read(output)
    assert isinstance(caught.value.__cause__, KernelError)
    world.call(world.program(assign(4.0), [WRITE]), output).wait()
    assert world.read(output) == [4.0] * 4


async def test_awaiting_an_array_fails_whenever_it_is_asked(world: World) -> None:
    state = world.array(0.0)
    held = Held(fail)
    replay = world.call(world.program(held, [BOTH]), state)
    held.let_go()
    for _ in range(2):
        with pytest.raises(DependencyError):
            await state
    with pytest.raises(KernelError):
        await replay
    with pytest.raises(DependencyError):
        world.read(state)
    await world.call(world.program(assign(1.0), [WRITE]), state)
    await state
    assert world.read(state) == [1.0] * 4


def test_a_simulated_fault_poisons_state_until_it_is_overwritten(make_world: Callable[..., World]) -> None:
    device = SimDevice(faults=[CallFault(0, 0, ZeroDivisionError("on purpose"))])
    world = make_world(device)
    state = world.array(1.0)
    broken = world.call(world.program(increment, [BOTH]), state)
    reader = world.call(world.program(double, [READ], outputs=1), state)
    healer = world.call(world.program(assign(5.0), [WRITE]), state)
    later = world.call(world.program(double, [READ], outputs=1), state)
    device.run_until_idle()
    assert [replay._run.state.value for replay in (broken, reader, healer, later)] == [
        "failed",
        "failed",
        "done",
        "done",
    ]
    assert world.read(later.outputs[0]) == [10.0] * 4
