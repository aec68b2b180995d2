"""What the scheduler keeps of a replay. Law: reads records; nothing is scheduled here."""

from __future__ import annotations

import pytest

from asyncjit.deps import DepsTracker, Region
from asyncjit.ir import Cost, Schedule
from asyncjit.plan import Plan, Segment, StreamSpec
from asyncjit.records import Footprint, GroupState, Run, State, Touch, gate_fronts

WHOLE = 1 << 62


def plan(*segments: tuple[int, tuple[int, ...]]) -> Plan:
    """A plan of empty segments, each (stream, waits)."""
    streams = tuple(StreamSpec("cpu", "compute") for _ in range(1 + max(stream for stream, _ in segments)))
    made = tuple(Segment(index, stream, (), waits) for index, (stream, waits) in enumerate(segments))
    return Plan(Schedule(()), streams, made, {}, {}, (), (), Cost())


@pytest.mark.parametrize(
    ("segments", "first", "front"),
    [
        ([(0, ()), (0, ()), (0, ())], 1, (1,)),
        ([(0, ()), (1, ()), (0, ())], 0, (0, 1)),
        ([(0, ()), (1, ()), (0, ()), (1, ())], 1, (1, 2)),
        ([(0, ()), (1, (0,)), (0, ()), (2, (1,))], 1, (1, 2)),
        ([(0, ()), (1, ()), (2, (0, 1))], 2, (2,)),
    ],
)
def test_a_front_holds_back_every_segment_from_there_on(
    segments: list[tuple[int, tuple[int, ...]]], first: int, front: tuple[int, ...]
) -> None:
    assert gate_fronts(plan(*segments), [first]) == {first: front}


def test_a_run_says_what_it_touches_where_its_slots_are_bound() -> None:
    run = Run(GroupState("f"))
    assert (run.reads(), run.writes()) == ([], [])
    read, write = Touch(0, 0, 4, 0, 0), Touch(1, 2, 10, 1, 4)
    run.bind("cpu", Footprint(((0, (read,), ()), (2, (), (write,)))), [7, 8], [16, 0])
    run.outputs = [9]
    assert run.reads() == [Region(7, 16, 20)]
    assert run.writes() == [Region(9, 0, WHOLE), Region(8, 2, 10, 1, 4)]
    assert run.output_regions() == [Region(9, 0, WHOLE)]


def test_work_is_pure_when_it_writes_outputs_only() -> None:
    touch = Touch(0, 0, 4, 0, 0)
    assert Footprint(((0, (touch,), ()),)).is_pure
    assert not Footprint(((0, (touch,), ()), (1, (), (touch,)))).is_pure


def test_a_run_is_bound_to_its_slots_and_to_its_read_set() -> None:
    run = Run(GroupState("f"))
    assert not run.is_bound_to({1})
    run.bind("cpu", Footprint(), [1], [0])
    assert run.is_bound_to({1, 5})
    assert not run.is_bound_to({2})
    read_set = DepsTracker[Run]().read_set([Region(2, 0, 8)])
    run.bind("cpu", Footprint((), read_set), [1], [0])
    assert run.is_bound_to({2})
    assert not run.is_bound_to({3})


def test_room_is_what_is_left_of_in_flight_max() -> None:
    group = GroupState("f", in_flight_max=1)
    assert group.has_room
    group.running = 1
    assert not group.has_room
    assert GroupState("g", in_flight_max=None).has_room


def test_a_run_describes_itself() -> None:
    run = Run(GroupState("f"))
    run.ticket, run.state = 3, State.RUNNING
    assert repr(run) == "<run 3 of 'f': running>"
