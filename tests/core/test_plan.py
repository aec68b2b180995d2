"""Plans: segments, accesses from outside, and what the verifier refuses. Results are judged by a machine of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from asyncjit.errors import InternalError
from asyncjit.ir import Buffer, Call, Copy, Operand, Schedule, Slot, SlotKind, View, new_buffer, operand_of
from asyncjit.plan import ANY_LANE, Plan, Segment, SlotAccess, StreamSpec, lower, program_order_plan, verify_plan
from tests.core.byte_machine import call_of, part, random_schedule, run_in_program_order, run_interleaved, whole

SEEDS = range(40)
STREAMS = [1, 2, 4, None]


def run(plan: Plan, seed: int) -> list[bytes]:
    """Slots after one order of the calls that the plan's segments allow."""
    streams: list[list[int]] = [[] for _ in plan.streams]
    waits: list[tuple[int, ...]] = [()] * len(plan.schedule.calls)
    for segment in plan.segments:
        streams[segment.stream] += segment.calls
        waits[segment.calls[0]] = tuple(plan.segments[wait].calls[-1] for wait in segment.waits)
    return run_interleaved(plan.schedule, streams, waits, plan.offsets, plan.frame_nbytes, seed)


# Results.


@pytest.mark.parametrize("streams_max", STREAMS)
@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("calls_first", [None, 1, 2])
def test_any_order_that_a_plan_allows_gives_the_results_of_program_order(
    streams_max: int | None, reuse: bool, calls_first: int | None
) -> None:
    for seed in SEEDS:
        schedule = random_schedule(seed, devices=1 + seed % 2)
        plan = lower(schedule, streams_max=streams_max, segment_calls_first=calls_first, reuse=reuse)
        verify_plan(plan)
        assert run(plan, seed) == run_in_program_order(schedule)


def test_the_plan_in_program_order_gives_the_results_of_program_order() -> None:
    for seed in SEEDS:
        schedule = random_schedule(seed, devices=1 + seed % 3)
        plan = program_order_plan(schedule)
        verify_plan(plan)
        assert run(plan, seed) == run_in_program_order(schedule)


def test_a_layout_for_one_stream_on_several_is_caught_by_results_and_by_the_verifier() -> None:
    wrong = refused = 0
    for seed in SEEDS:
        schedule = random_schedule(seed)
        plan = replace(lower(schedule, streams_max=4), offsets=(narrow := lower(schedule)).offsets)
        plan = replace(plan, frame_nbytes=narrow.frame_nbytes)
        wrong += any(run(plan, order) != run_in_program_order(schedule) for order in range(5))
        try:
            verify_plan(plan)
        except InternalError:
            refused += 1
    assert 0 < wrong <= refused


# Segments.


def chain(calls: int, device: str = "d0") -> Schedule:
    start = new_buffer(device, 64)
    listed = []
    last = start
    for _ in range(calls):
        listed.append(call_of([whole(last)], [whole(after := new_buffer(device, 64))]))
        last = after
    return Schedule(tuple(listed), (Slot(SlotKind.INPUT, start),), "chain")


def test_segments_double_and_without_a_limit_there_is_one() -> None:
    assert [len(segment.calls) for segment in lower(chain(100), segment_calls_first=4).segments] == [4, 8, 16, 32, 40]
    assert [len(segment.calls) for segment in lower(chain(100)).segments] == [100]


def test_a_stream_is_cut_where_it_waits_and_where_it_is_waited_for() -> None:
    source, left, right, joined = (new_buffer("d0", 64) for _ in range(4))
    calls = (
        call_of([whole(source)], [whole(left)]),
        call_of([whole(source)], [whole(right)]),
        call_of([whole(left), whole(right)], [whole(joined)]),
    )
    plan = lower(Schedule(calls, (Slot(SlotKind.INPUT, source),)), streams_max=2)
    assert [segment.calls for segment in plan.segments] == [(0,), (1,), (2,)]
    assert sorted(len(segment.waits) for segment in plan.segments) == [0, 0, 1]


def test_a_wait_that_another_one_implies_is_left_out() -> None:
    for seed in SEEDS:
        plan = lower(random_schedule(seed, devices=2), streams_max=4)
        before: list[set[int]] = []
        last: dict[int, int] = {}
        for segment in plan.segments:
            follows = {*segment.waits, *([last[segment.stream]] if segment.stream in last else [])}
            for wait in segment.waits:
                assert not any(wait in before[other] for other in follows - {wait})
            before.append(follows.union(*(before[each] for each in follows)))
            last[segment.stream] = segment.index


def test_program_order_has_a_stream_a_device_and_a_segment_a_run() -> None:
    here, there, back = new_buffer("d0", 8), new_buffer("d1", 8), new_buffer("d0", 8)
    calls = (Copy(whole(there), whole(here)), call_of([whole(there)], []), Copy(whole(back), whole(there)))
    plan = program_order_plan(Schedule(calls, (Slot(SlotKind.INPUT, here), Slot(SlotKind.OUTPUT, back))))
    assert plan.streams == (StreamSpec("d1", ANY_LANE), StreamSpec("d0", ANY_LANE))
    assert plan.segments == (Segment(0, 0, (0, 1), ()), Segment(1, 1, (2,), (0,)))
    assert plan.offsets[there] == 0


# Accesses from outside.


def accesses(calls: list[Call], *slots: Slot, streams_max: int | None = 1, calls_first: int | None = None) -> Plan:
    plan = lower(Schedule(tuple(calls), slots), streams_max=streams_max, segment_calls_first=calls_first)
    verify_plan(plan)
    return plan


def spans(listed: tuple[SlotAccess, ...]) -> list[tuple[int, int, int, int]]:
    return [
        (access.slot, access.view.offset_bytes, access.view.offset_bytes + access.view.nbytes, access.segment)
        for access in listed
    ]


def column(buffer: Buffer, offset_bytes: int) -> Operand:
    return operand_of(buffer, (4, 2), (8, 1), "uint8", 1, offset_bytes)


def test_bytes_are_listed_once_with_the_first_segment_and_outputs_are_not() -> None:
    x, w, y = new_buffer("d0", 32), new_buffer("d0", 32), new_buffer("d0", 32)
    slots = (Slot(SlotKind.INPUT, x), Slot(SlotKind.STATE, w), Slot(SlotKind.OUTPUT, y))
    calls = [
        call_of([part(x, 4, 8)], [], [whole(w)]),
        call_of([whole(x), part(x, 0, 0)], [part(w, 0, 16)]),
        call_of([part(x, 4, 8), column(x, 0)], [whole(y)]),
    ]
    plan = accesses(calls, *slots, calls_first=1)
    assert spans(plan.reads) == [(0, 4, 12, 0), (0, 0, 32, 1), (1, 0, 32, 0)]
    assert spans(plan.writes) == [(1, 0, 32, 0)]


@pytest.mark.parametrize(
    ("shape", "strides", "reads"),
    [
        ((16,), (1,), False),
        ((4, 2), (4, 1), False),
        ((4, 4), (1, 4), False),
        ((4, 2), (-4, 1), False),
        ((2, 2, 4), (8, 0, 1), False),
        ((2, 2), (12, 3), True),
        ((2, 2), (-12, 3), True),
    ],
)
def test_a_write_with_gaps_counts_as_reading_what_it_leaves(
    shape: tuple[int, ...], strides: tuple[int, ...], reads: bool
) -> None:
    """Else it would heal what failed in between, and hide who wrote there."""
    x = new_buffer("d0", 16)
    offset = 12 if strides[0] < 0 else 0
    plan = accesses([call_of([], [operand_of(x, shape, strides, "uint8", 1, offset)])], Slot(SlotKind.INPUT, x))
    assert spans(plan.reads) == (spans(plan.writes) if reads else [])
    assert plan.writes


def test_within_a_segment_what_lies_inside_something_larger_needs_no_entry() -> None:
    x = new_buffer("d0", 32)
    calls = [call_of([part(x, 4, 8), column(x, 2)], []), call_of([whole(x)], [])]
    assert spans(accesses(calls, Slot(SlotKind.INPUT, x)).reads) == [(0, 0, 32, 0)]


def test_a_larger_range_takes_the_place_of_smaller_ones_that_came_before() -> None:
    x = new_buffer("d0", 32)
    calls = [
        call_of([part(x, 4, 4)], []),
        call_of([part(x, 8, 4)], []),
        call_of([whole(x)], []),
        call_of([part(x, 9, 2)], []),
        call_of([part(x, 20, 4)], []),
    ]
    found = spans(accesses(calls, Slot(SlotKind.INPUT, x), calls_first=1).reads)
    # The second segment holds the second and third calls.
    assert found == [(0, 4, 8, 0), (0, 0, 32, 1)]


def test_two_columns_are_two_entries() -> None:
    x = new_buffer("d0", 32)
    calls = [call_of([], [column(x, 0)]), call_of([], [column(x, 4)])]
    assert len(accesses(calls, Slot(SlotKind.STATE, x)).writes) == 2


def test_segments_that_nothing_orders_have_an_entry_each() -> None:
    x, a, b = new_buffer("d0", 32), new_buffer("d0", 8), new_buffer("d0", 8)
    slots = (Slot(SlotKind.INPUT, x), Slot(SlotKind.OUTPUT, a), Slot(SlotKind.OUTPUT, b))
    calls = [call_of([whole(x)], [whole(a)]), call_of([whole(x)], [whole(b)])]
    assert spans(accesses(calls, *slots, streams_max=2).reads) == [(0, 0, 32, 0), (0, 0, 32, 1)]


# What the verifier refuses.


def joined() -> Plan:
    """Two branches of an input that meet in state, on two streams."""
    x, w = new_buffer("d0", 64), new_buffer("d0", 64)
    left, right = new_buffer("d0", 64), new_buffer("d0", 64)
    calls = (
        call_of([whole(x)], [whole(left)]),
        call_of([whole(x)], [whole(right)]),
        call_of([whole(left), whole(right)], [whole(w)]),
    )
    return lower(Schedule(calls, (Slot(SlotKind.INPUT, x), Slot(SlotKind.STATE, w)), "joined"), streams_max=2)


def with_segment(plan: Plan, at: int, /, **changes: object) -> Plan:
    segments = list(plan.segments)
    segments[at] = replace(segments[at], **changes)  # type: ignore[arg-type]
    return replace(plan, segments=tuple(segments))


def without_calls(plan: Plan) -> Plan:
    return replace(plan, segments=plan.segments[:-1])


def elsewhere(plan: Plan) -> Plan:
    return replace(plan, streams=tuple(StreamSpec("d9", stream.lane) for stream in plan.streams))


def other_lane(plan: Plan) -> Plan:
    return replace(plan, streams=tuple(StreamSpec(stream.device, "copy") for stream in plan.streams))


def first_read(plan: Plan, **changes: object) -> Plan:
    return replace(plan, reads=(replace(plan.reads[0], **changes), *plan.reads[1:]))  # type: ignore[arg-type]


def same_bytes(plan: Plan) -> Plan:
    return replace(plan, offsets=dict.fromkeys(plan.offsets, 0))


FAULTS: dict[str, tuple[Callable[[Plan], Plan], str]] = {
    "another version": (lambda plan: replace(plan, version=99), "version 99 is not"),
    "a wrong index": (lambda plan: with_segment(plan, 1, index=5), "says that it is 5"),
    "a stream of no plan": (lambda plan: with_segment(plan, 0, stream=7), "on stream 7"),
    "an empty segment": (lambda plan: with_segment(plan, 0, calls=()), "is empty"),
    "a call twice": (lambda plan: with_segment(plan, 1, calls=(0,)), "runs call 0"),
    "a call of no schedule": (lambda plan: with_segment(plan, 1, calls=(9,)), "runs call 9"),
    "a call missing": (without_calls, "1 calls are in no segment"),
    "another device": (elsewhere, "on a stream of"),
    "another lane": (other_lane, "on a stream of"),
    "a wait forwards": (lambda plan: with_segment(plan, 0, waits=(1,)), "waits for segment 1"),
    "a wait left out": (lambda plan: with_segment(plan, 2, waits=()), "call 2 must follow call"),
    "a buffer without a place": (lambda plan: replace(plan, offsets={}), "has no place in the frame"),
    "bytes shared too early": (same_bytes, "joined|buffer|bytes"),
    "a slot of no schedule": (lambda plan: first_read(plan, slot=9), "slot 9, which does not exist"),
    "a view of another slot": (lambda plan: first_read(plan, slot=1), "not of a view of its slot"),
    "a segment of no plan": (lambda plan: first_read(plan, segment=9), "not of a view of its slot"),
    "a read too late": (lambda plan: first_read(plan, segment=2), "may read bytes 0:64 of slot 0 too early"),
    "a read left out": (lambda plan: replace(plan, reads=plan.reads[1:]), "may read"),
    "a write left out": (lambda plan: replace(plan, writes=()), "may write bytes 0:64 of slot 1 too early"),
    "a view too small": (
        lambda plan: first_read(plan, view=View.contiguous(plan.reads[0].view.buffer, 0, 8)),
        "may read",
    ),
}


def test_the_plan_to_be_broken_is_right() -> None:
    verify_plan(joined())


@pytest.mark.parametrize("fault", FAULTS)
def test_the_verifier_refuses(fault: str) -> None:
    breaks, message = FAULTS[fault]
    with pytest.raises(InternalError, match=message):
        verify_plan(breaks(joined()))
