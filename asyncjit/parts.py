"""A plan over several devices, cut into plans of one device each.

Law: a pure function of a plan; knows no devices but by name. Imports ``plan`` and below.

Devices know plans of their own only, and fences between submissions. So a plan that spans devices becomes **parts**:
each is a plan on one device, and a segment of one waits for the *end* of another where a segment of the whole plan
waits for one that went there. For that no two parts may wait for each other, in however many steps. Each segment has a
**level**, which is at least that of every segment that it follows directly, and above it where that one is on another
device, or is waited for from another device. Segments of one device and one level that follow each other are one part.
Waits between parts then go up in level, so they make no circle; and what another device waits for is the last of its
part in its stream, so little else is waited for with it.

Intermediates keep their places. All parts of a device share one arena, whose layout is the whole plan's. Each part has
one further INPUT slot an arena, after the slots of the schedule: a copy reads from another device's through it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from asyncjit.ir import Buffer, Call, Copy, Cost, Operand, Schedule, Slot, SlotKind, View, new_buffer
from asyncjit.plan import Plan, Segment, segments_followed

__all__ = ["Part", "arena_devices", "cut_plan"]


@dataclass(frozen=True, slots=True)
class Part:
    """What one device does of a plan at a stretch.

    ``plan`` is made of ``calls`` and ``segments`` of the whole plan, which are listed in the order in which they stand
    in it. ``waits`` has (segment of this plan, part that must have ended before it).
    """

    device: str
    plan: Plan
    calls: tuple[int, ...]
    segments: tuple[int, ...]
    waits: tuple[tuple[int, int], ...]


def arena_devices(plan: Plan) -> tuple[str, ...]:
    """The devices on which a replay needs an arena, in the order of their slots in the parts."""
    return tuple(sorted(device for device, nbytes in plan.frame_nbytes.items() if nbytes))


def cut_plan(plan: Plan) -> tuple[Part, ...]:
    """The parts of ``plan``, in an order in which each waits for earlier ones only. Linear in the plan."""
    followed = segments_followed(plan.segments)
    part_of, members = _parts(plan, followed)
    arenas = {device: new_buffer(device, plan.frame_nbytes[device]) for device in arena_devices(plan)}
    slots = plan.schedule.slots + tuple(Slot(SlotKind.INPUT, arena, "arena") for arena in arenas.values())
    parts = []
    for index, segments in enumerate(members):
        position = {segment: place for place, segment in enumerate(segments)}
        waits = {(position[s], part_of[before]): None for s in segments for before in followed[s]}
        waits = {wait: None for wait in waits if wait[1] != index}
        parts.append(_project(plan, segments, position, slots, arenas, tuple(waits)))
    return tuple(parts)


# Which segments go together


def _parts(plan: Plan, followed: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """The part of each segment, and the segments of each part in their order."""
    device_of = [plan.streams[segment.stream].device for segment in plan.segments]
    exported = {e for s, before in enumerate(followed) for e in before if device_of[e] != device_of[s]}
    level: list[int] = []
    leader = list(range(len(plan.segments)))

    def find(segment: int) -> int:
        while leader[segment] != segment:
            leader[segment] = segment = leader[leader[segment]]
        return segment

    for segment, before in enumerate(followed):
        level.append(max((level[earlier] + (earlier in exported) for earlier in before), default=0))
        for earlier in before:
            if device_of[earlier] == device_of[segment] and level[earlier] == level[segment]:
                first, second = sorted((find(earlier), find(segment)))
                leader[second] = first
    leaders = sorted({find(segment) for segment in leader}, key=lambda segment: (level[segment], segment))
    number = {segment: index for index, segment in enumerate(leaders)}
    part_of = [number[find(segment)] for segment in range(len(leader))]
    members: list[list[int]] = [[] for _ in leaders]
    for segment, part in enumerate(part_of):
        members[part].append(segment)
    return part_of, members


# One part as a plan


def _project(
    plan: Plan,
    segments: Sequence[int],
    position: Mapping[int, int],
    slots: tuple[Slot, ...],
    arenas: Mapping[str, Buffer],
    waits: tuple[tuple[int, int], ...],
) -> Part:
    chosen = [plan.segments[segment] for segment in segments]
    calls = tuple(sorted(call for segment in chosen for call in segment.calls))
    renumbered = {call: index for index, call in enumerate(calls)}
    streams = {stream: index for index, stream in enumerate(dict.fromkeys(segment.stream for segment in chosen))}
    device = plan.streams[chosen[0].stream].device
    projected = [_on_arenas(plan, plan.schedule.calls[call], device, arenas) for call in calls]
    schedule = Schedule(tuple(projected), slots, plan.schedule.name)
    cost = sum((call.cost for call in projected), Cost())
    part = replace(
        plan,
        schedule=schedule,
        streams=tuple(plan.streams[stream] for stream in streams),
        segments=tuple(
            Segment(
                index,
                streams[segment.stream],
                tuple(renumbered[call] for call in segment.calls),
                tuple(position[wait] for wait in segment.waits if wait in position),
            )
            for index, segment in enumerate(chosen)
        ),
        frame_nbytes={device: plan.frame_nbytes.get(device, 0)},
        offsets={buffer: plan.offsets.get(buffer, 0) for buffer in schedule.intermediates()},
        reads=(),
        writes=(),
        cost=cost,
        hazards=0,
    )
    return Part(device, part, calls, tuple(segments), waits)


def _on_arenas(plan: Plan, call: Call | Copy, device: str, arenas: Mapping[str, Buffer]) -> Call | Copy:
    """The call with every intermediate of another device as bytes of that device's arena. Only copies have such."""
    if isinstance(call, Call):
        return call
    source = call.source_operand
    buffer = source.view.buffer
    if buffer.device == device or plan.schedule.slot_of(buffer) is not None:
        return call
    if not buffer.nbytes:
        # Nothing is read, so any place will do; the device may have no arena.
        return replace(call, source_operand=_moved(source, call.target.view.buffer, 0))
    return replace(call, source_operand=_moved(source, arenas[buffer.device], plan.offsets[buffer]))


def _moved(operand: Operand, buffer: Buffer, by_bytes: int) -> Operand:
    view: View = replace(operand.view, buffer=buffer, offset_bytes=operand.view.offset_bytes + by_bytes)
    return replace(operand, view=view, offset_bytes=operand.offset_bytes + by_bytes)
