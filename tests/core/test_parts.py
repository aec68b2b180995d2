"""Plans over several devices, cut into parts: any order that parts and their waits allow gives the right results."""

from __future__ import annotations

import pytest

from asyncjit.ir import Buffer, Call, Copy, Schedule, Slot, SlotKind, new_buffer
from asyncjit.parts import Part, arena_devices, cut_plan
from asyncjit.plan import Plan, lower, program_order_plan
from tests.core.byte_machine import call_of, random_schedule, run_in_program_order, run_interleaved, whole

SEEDS = range(40)


def plans_of(schedule: Schedule) -> list[Plan]:
    return [program_order_plan(schedule), *(lower(schedule, streams_max=count) for count in (1, 2, None))]


def run(plan: Plan, parts: tuple[Part, ...], seed: int) -> list[bytes]:
    """Slots after one order of the calls that the parts allow, each call as its part has it."""
    calls: list[Call | Copy] = list(plan.schedule.calls)
    streams: list[list[int]] = []
    waits: list[tuple[int, ...]] = [()] * len(calls)
    for part in parts:
        own: list[list[int]] = [[] for _ in part.plan.streams]
        for position, call in enumerate(part.calls):
            calls[call] = part.plan.schedule.calls[position]
        for segment in part.plan.segments:
            before = [part.plan.segments[wait].calls[-1] for wait in segment.waits]
            others = {earlier for local, earlier in part.waits if local == segment.index}
            waits[part.calls[segment.calls[0]]] = (
                *(part.calls[call] for call in before),
                *(call for earlier in others for call in parts[earlier].calls),
            )
            own[segment.stream] += (part.calls[call] for call in segment.calls)
        streams += own
    slots = parts[0].plan.schedule.slots
    arenas = dict.fromkeys((slot.buffer for slot in slots[len(plan.schedule.slots) :]), 0)
    whole_schedule = Schedule(tuple(calls), slots, "parts")
    found = run_interleaved(whole_schedule, streams, waits, plan.offsets | arenas, plan.frame_nbytes, seed)
    return found[: len(plan.schedule.slots)]


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_any_order_that_the_parts_allow_gives_the_results_of_program_order(devices: int) -> None:
    for seed in SEEDS:
        schedule = random_schedule(seed, devices=devices)
        expected = run_in_program_order(schedule)
        for plan in plans_of(schedule):
            assert run(plan, cut_plan(plan), seed) == expected


def test_every_part_is_on_one_device_and_waits_for_earlier_parts_only() -> None:
    for seed in SEEDS:
        for plan in plans_of(random_schedule(seed, devices=3)):
            parts = cut_plan(plan)
            assert sorted(segment for part in parts for segment in part.segments) == list(range(len(plan.segments)))
            assert sorted(call for part in parts for call in part.calls) == list(range(len(plan.schedule.calls)))
            for index, part in enumerate(parts):
                assert {stream.device for stream in part.plan.streams} == {part.device}
                assert {call.device for call in part.plan.schedule.calls} == {part.device}
                assert all(earlier < index for _, earlier in part.waits)


def test_a_plan_of_one_device_is_one_part() -> None:
    plan = lower(random_schedule(3), streams_max=4)
    (part,) = cut_plan(plan)
    assert part.waits == ()
    assert part.plan.segments == plan.segments
    assert part.plan.schedule.calls == plan.schedule.calls
    assert part.plan.offsets == plan.offsets


def chain_with_copies(length: int) -> tuple[Plan, dict[int, int]]:
    """Calls one after the other on ``d0``, the result of each copied to ``d1``; the part of each call."""
    buffers = [new_buffer("d0", 8) for _ in range(length)]
    outputs = [new_buffer("d1", 8) for _ in range(length)]
    calls: list[Call | Copy] = []
    previous: Buffer | None = None
    for buffer, output in zip(buffers, outputs, strict=True):
        calls += [call_of([whole(previous)] if previous else [], [whole(buffer)]), Copy(whole(output), whole(buffer))]
        previous = buffer
    slots = tuple(Slot(SlotKind.OUTPUT, output) for output in outputs)
    plan = lower(Schedule(tuple(calls), slots, "chain"), streams_max=4)
    return plan, {call: index for index, part in enumerate(cut_plan(plan)) for call in part.calls}


def test_a_copy_waits_for_what_it_copies_and_not_for_what_follows_there() -> None:
    plan, part_of = chain_with_copies(4)
    parts = cut_plan(plan)
    for step in range(4):
        producer, copy = part_of[2 * step], part_of[2 * step + 1]
        waits = {earlier for _, earlier in parts[copy].waits}
        assert producer in waits
        assert parts[producer].calls == (2 * step,)
        assert waits <= {part_of[2 * before] for before in range(step + 1)} | {part_of[2 * s + 1] for s in range(step)}


def test_work_that_nobody_else_waits_for_is_not_waited_for() -> None:
    """Two streams of one device with nothing between them: a copy from the one is not held up by the other."""
    fast, slow, output, kept = new_buffer("d0", 8), new_buffer("d0", 8), new_buffer("d1", 8), new_buffer("d0", 8)
    calls = (
        call_of([], [whole(fast)]),
        call_of([], [whole(slow)]),
        call_of([whole(slow)], [whole(kept)]),
        Copy(whole(output), whole(fast)),
    )
    slots = (Slot(SlotKind.OUTPUT, output), Slot(SlotKind.OUTPUT, kept))
    parts = cut_plan(lower(Schedule(calls, slots, "two streams"), streams_max=None))
    (copying,) = (part for part in parts if 3 in part.calls)
    assert [parts[earlier].calls for _, earlier in copying.waits] == [(0,)]


def test_a_copy_reads_the_arena_of_the_other_device_and_slots_stay_where_they_are() -> None:
    source, target = new_buffer("d0", 100), new_buffer("d1", 100)
    given, result = new_buffer("d1", 100), new_buffer("d1", 100)
    calls = (
        call_of([], [whole(source)]),
        Copy(whole(target), whole(source)),
        call_of([whole(target), whole(given)], [whole(result)]),
    )
    plan = lower(Schedule(calls, (Slot(SlotKind.INPUT, given), Slot(SlotKind.OUTPUT, result)), "one copy"))
    assert arena_devices(plan) == ("d0", "d1")
    parts = cut_plan(plan)
    slots = parts[0].plan.schedule.slots
    assert slots[:2] == plan.schedule.slots
    assert [(slot.kind, slot.buffer.device, slot.buffer.nbytes) for slot in slots[2:]] == [
        (SlotKind.INPUT, "d0", 128),
        (SlotKind.INPUT, "d1", 128),
    ]
    (copy,) = (call for part in parts for call in part.plan.schedule.calls if isinstance(call, Copy))
    assert copy.source_operand.view.buffer is slots[2].buffer
    assert copy.target.view.buffer is target


def test_nothing_is_copied_from_a_device_that_needs_no_arena() -> None:
    source, target, output = new_buffer("d0", 0), new_buffer("d1", 0), new_buffer("d1", 8)
    calls = (
        call_of([], [whole(source)]),
        Copy(whole(target), whole(source)),
        call_of([whole(target)], [whole(output)]),
    )
    plan = lower(Schedule(calls, (Slot(SlotKind.OUTPUT, output),), "empty"))
    assert arena_devices(plan) == ()
    assert {part.device for part in cut_plan(plan)} == {"d0", "d1"}
