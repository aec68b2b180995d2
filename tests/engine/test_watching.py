"""What an engine tells of its work: times of calls, predecessors, statistics."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import pytest

from asyncjit.devices.cpu import CpuDevice
from asyncjit.devices.null import NullDevice
from asyncjit.devices.sim import SimDevice
from asyncjit.engine import EngineStatistics, Group
from asyncjit.instruments import Instrument
from tests._threads import threads_since
from tests.engine.world import BOTH, READ, Held, World, double, fail, increment


class Timekeeper(Instrument):
    takes_times = True


class Onlooker(Instrument):
    """Told of replays, without their times."""


def test_nothing_is_measured_unless_an_instrument_asks(world: World) -> None:
    replays = [world.pure() for _ in range(2)]
    world.engine.instruments.add(Onlooker())
    replays += [
        world.pure(),
        world.call(world.program(None, [READ, READ], kernel="add", outputs=1), *[world.array()] * 2),
    ]
    for replay in replays:
        replay.wait()
        assert replay.measured is None
        assert replay.call_times == ()


def test_calls_say_when_and_on_which_thread_they_ran(world: World) -> None:
    world.engine.instruments.add(Timekeeper())
    replay = world.call(world.program(double, [READ], outputs=1, calls=3), world.array(1.0))
    replay.wait()
    calls = replay.call_times
    assert [(call.call, call.name, call.device, call.stream) for call in calls] == [
        (n, "user", "cpu", 0) for n in range(3)
    ]
    assert {call.source for call in calls} == {"world.py:1"}
    workers = {thread.native_id for thread in threads_since("asyncjit")}
    assert {call.thread for call in calls} <= workers
    times = [moment for call in calls for moment in (call.started_s, call.done_s)]
    started_s, done_s = replay.times.started_s, replay.times.done_s
    assert started_s is not None
    assert done_s is not None
    assert [started_s, *times, done_s] == sorted([started_s, *times, done_s])


@pytest.mark.parametrize("device", [CpuDevice, NullDevice])
def test_inline_replays_are_measured_on_the_thread_that_calls(
    make_world: Callable[..., World], device: Callable[[], Any]
) -> None:
    world = make_world(device())
    program = world.program(None, [READ, READ], kernel="add", outputs=1)
    source = world.array(1.0)
    world.call(program, source, source).wait()
    timekeeper = Timekeeper()
    world.engine.instruments.add(timekeeper)
    measured = world.call(program, source, source)
    measured.wait()
    assert [(call.name, call.thread) for call in measured.call_times] == [("add", threading.get_native_id())]
    before = measured.call_times
    # The submission is used again: what was asked for once is not taken ever after.
    world.engine.instruments.remove(timekeeper)
    later = world.call(program, source, source)
    later.wait()
    assert later.call_times == ()
    assert measured.call_times == before


def test_a_replay_that_fails_has_the_times_of_what_ran(world: World) -> None:
    world.engine.instruments.add(Timekeeper())
    replay = world.call(world.program(fail, [READ], outputs=1, calls=2), world.array())
    with pytest.raises(Exception, match="on purpose"):
        replay.wait()
    assert replay.call_times == ()


def test_predecessors_are_those_that_had_not_ended_and_stay_known(world: World) -> None:
    one, both, held = world.array(0.0), world.array(0.0), Held(increment)
    group = Group("narrow", in_flight_max=1)
    first = world.call(world.program(held, state=[(one, BOTH)]), group=group)
    dropped = world.call(world.program(lambda *arrays: None, state=[(one, BOTH), (both, BOTH)]), group=group)
    last = world.call(world.program(lambda *arrays: None, state=[(one, BOTH), (both, BOTH)]), group=group)
    assert (first.predecessors, dropped.predecessors) == ((), (first.ticket,))
    assert last.predecessors == (dropped.ticket,)
    # Without it, the last one follows whom it hid.
    assert dropped.cancel()
    assert last.predecessors == (first.ticket, dropped.ticket)
    held.let_go()
    last.wait()
    assert last.predecessors == (first.ticket, dropped.ticket)
    assert world.call(world.program(increment, state=[(one, BOTH)])).predecessors == ()


def test_statistics_count_frames_hops_and_waits(make_world: Callable[..., World]) -> None:
    world = make_world(CpuDevice(workers=2))
    engine = world.engine
    before = engine.statistics()
    assert (before.frames, before.hops, before.waits_issued, before.waits_avoided) == (0, 0, 0, 0)
    state, held = world.array(0.0), Held(increment)
    writer = world.program(held, state=[(state, BOTH)])
    group = Group("one at a time", in_flight_max=1)
    # The second touches what the first writes, and waits for its turn: by then there is nothing to wait for.
    replays = [world.call(writer, group=group) for _ in range(2)]
    during = engine.statistics()
    assert (during.queued, during.in_flight, during.frames) == (1, 1, 1)
    held.let_go()
    for replay in replays:
        replay.wait()
    after = engine.statistics()
    assert (after.queued, after.in_flight, after.done) == (0, 0, 2)
    assert (after.waits_issued, after.waits_avoided) == (0, 1)
    assert after.hops == 2
    assert after.frames == 1
    # Idle ones stay in the pool of their group.
    del writer, replay, replays, group
    assert engine.statistics().frames == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        after.done = 0  # type: ignore[misc]


def test_waits_of_plans_and_gates_between_replays_are_counted(make_world: Callable[..., World]) -> None:
    sim = SimDevice(submits_ahead=True, streams_max=2)
    world = make_world(sim)
    engine = world.engine
    one, other, joined = world.array(0.0), world.array(0.0), world.array(0.0)
    # Two streams that meet: the calls on ``one`` and ``other`` are independent, and nothing else is.
    program = world.program(increment, state=[(one, BOTH)], kernel="one")
    engine.lower(program)
    first, second = world.call(program), world.call(program)
    # It takes work ahead: the second is there already, behind a gate.
    assert (first.predecessors, second.predecessors) == ((), (first.ticket,))
    assert engine.statistics().waits_issued == 1
    sim.run_until_idle()
    third = world.call(program)
    assert third.predecessors == ()
    sim.run_until_idle()
    counted = engine.statistics()
    assert (counted.waits_issued, counted.waits_avoided, counted.hops) == (1, 0, 3)
    del other, joined


def test_every_field_of_the_statistics_is_explained() -> None:
    documented = EngineStatistics.__doc__ or ""
    names = [field.name for field in dataclasses.fields(EngineStatistics)]
    assert [name for name in names if name not in ("devices",) and name not in documented] == []
