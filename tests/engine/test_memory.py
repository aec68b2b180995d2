"""Memory: what is freed when, and that nothing grows."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from asyncjit.devices.cpu import CpuDevice
from asyncjit.engine import Group
from asyncjit.errors import KernelError
from tests.engine.world import READ, Held, World, double, fail


def test_a_replay_and_its_arrays_are_freed_without_the_cyclic_collector(make_world: Callable[..., World]) -> None:
    world = make_world(CpuDevice(workers=1))
    program = world.program(double, [READ], outputs=1)
    inline = world.program(None, [READ, READ], outputs=1, kernel="add")
    gc.collect()
    gc.disable()
    try:
        for make in (
            lambda: world.call(program, world.array(1.0)),
            lambda: world.call(inline, *[world.array(1.0)] * 2),
        ):
            replay = make()
            (output,) = replay.wait()
            gone = [weakref.ref(replay), weakref.ref(output)]
            del replay, output
            # The worker holds a submission for a moment longer; until it runs the next one at the latest.
            world.pure().wait()
            assert [reference() for reference in gone] == [None, None]
    finally:
        gc.enable()


def test_a_replay_that_has_ended_holds_no_inputs(world: World) -> None:
    group, held = Group("narrow", in_flight_max=1), Held(double)
    blocker = world.call(world.program(held, [READ], outputs=1), world.array(1.0), group=group)
    source = world.array(1.0)
    program = world.program(double, [READ], outputs=1)
    dropped = world.call(program, source, group=group)
    passed = world.call(program, source)
    dropped.cancel()
    passed.wait()
    held.let_go()
    blocker.wait()
    # The worker holds a submission for a moment longer; until it runs the next one at the latest.
    for _ in range(world.engine.device("cpu").workers):
        world.pure().wait()
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert dropped.inputs == passed.inputs == ()
    assert gone() is None


def test_arrays_of_failed_and_cancelled_replays_are_freed(world: World) -> None:
    held = Held(double)
    failed = world.call(world.program(fail, [READ], outputs=1), world.array(1.0))
    with pytest.raises(KernelError):
        failed.wait()
    group = Group("narrow", in_flight_max=1)
    program = world.program(held, [READ], outputs=1)
    running = world.call(program, world.array(1.0), group=group)
    dropped = world.call(program, world.array(1.0), group=group)
    assert dropped.cancel()
    held.let_go()
    running.wait()
    gone = [weakref.ref(storage) for replay in (failed, dropped) for storage in replay.outputs]
    del failed, dropped
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
    assert world.engine.statistics().tracker_entries == 0


def test_memory_stays_flat_over_ten_thousand_replays(world: World) -> None:
    state = world.array(0.0)
    inline = world.program(None, [READ, READ], outputs=1, kernel="add")
    worker = world.program(double, (), [(state, READ)], outputs=1)
    failing = world.program(fail, [READ], outputs=1)
    source = world.array(1.0)

    def some(count: int) -> None:
        for index in range(count):
            replay = world.call(inline, source, source) if index % 10 else world.call(worker)
            if index % 3 == 0:
                replay.wait()
            if index % 100 == 0:
                with pytest.raises(KernelError):
                    world.call(failing, source).wait()
        world.call(worker).wait()

    def measure() -> tuple[int, int, int]:
        world.call(worker).wait()
        gc.collect()
        statistics = world.engine.statistics()
        return statistics.memory_bytes, statistics.tracker_entries, len(gc.get_objects())

    some(500)
    before = measure()
    some(10_000)
    after = measure()
    assert before[:2] == after[:2]
    # The scheduler remembers the last 4096 moves; a tuple each.
    assert after[2] - before[2] < 5_000
