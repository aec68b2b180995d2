"""A plan: all that replay needs, derived from a schedule once.

Law: types, the two ways to make a plan, and its verifier; no clocks, no devices. Imports ``memory`` and below. Plans as
data that can be stored are in ``plan_data``.

A plan cuts the calls of each stream into **segments**, which a device launches in one go. A stream waits for another
only at the start of a segment and only for the end of one, so a segment never holds up a call that could have started.
What a replay touches outside its frame is listed once per range of bytes (``reads``, ``writes``) together with the
segments to hold back until earlier replays are done with those bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from asyncjit.errors import InternalError
from asyncjit.graph import build_graph
from asyncjit.ir import Buffer, Cost, Schedule, verify_schedule
from asyncjit.memory import align, plan_memory, verify_bytes
from asyncjit.placement import Placement, place
from asyncjit.segments import (
    Segment,
    SlotAccess,
    segments_followed,
    slot_accesses,
    unlisted_accesses,
)

__all__ = [
    "ANY_LANE",
    "PLAN_VERSION",
    "Plan",
    "Segment",
    "SlotAccess",
    "StreamSpec",
    "lower",
    "program_order_plan",
    "segments_followed",
    "verify_plan",
]

PLAN_VERSION = 3

#: Lane of a stream that may run calls of every lane: a plan in program order keeps them all on one stream.
ANY_LANE = "any"
#: Offsets of intermediates, and the bytes of each arena.
_Layout = tuple[dict[Buffer, int], dict[str, int]]
_start = itemgetter(0)


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A logical stream of a plan: all its calls run on one device, in one lane (or ``ANY_LANE``), in order."""

    device: str
    lane: str


@dataclass(frozen=True, slots=True)
class Plan:
    schedule: Schedule
    streams: tuple[StreamSpec, ...]
    segments: tuple[Segment, ...]
    #: Bytes of the private arena of one replay, by device.
    frame_nbytes: dict[str, int]
    #: Offset of each intermediate in the arena of its device; 64-byte aligned.
    offsets: dict[Buffer, int]
    #: INPUT and STATE bytes that are read, and that are written (read-write bytes stand in both). OUTPUT slots are new
    #: buffers and stand in neither.
    reads: tuple[SlotAccess, ...]
    writes: tuple[SlotAccess, ...]
    cost: Cost
    #: Hazards between its calls, as edges; 0 where nobody looked for them (a plan in program order).
    hazards: int = 0
    version: int = PLAN_VERSION


def lower(
    schedule: Schedule,
    *,
    streams_max: int | None = 1,
    segment_calls_first: int | None = None,
    segment_growth: int = 2,
    costs: Sequence[float] | None = None,
    hop_cost: float = 0.0,
    reuse: bool = True,
) -> Plan:
    """Derive the plan: hazards, streams and waits, frame layout, segments, accesses from outside.

    ``streams_max`` counts per device, None is no limit; ``costs`` (one a call) and ``hop_cost`` share any unit of time.
    The first segment of a stream holds at most ``segment_calls_first`` calls, and each one that was full multiplies the
    limit of the next by ``segment_growth``, so that a device starts early and launches seldom. Without ``reuse`` every
    intermediate has bytes of its own. Deterministic; seconds for 10,000 calls, so call it off the event loop.
    """
    graph = build_graph(schedule)
    placement = place(graph, streams_max=streams_max, costs=costs, hop_cost=hop_cost)
    if reuse:
        planned = plan_memory(graph, placement)
        layout = (planned.offsets, planned.nbytes)
    else:
        layout = _side_by_side(schedule)
    assert segment_calls_first is None or segment_calls_first > 0
    streams = tuple(StreamSpec(head.device, head.lane) for head in (schedule.calls[c[0]] for c in placement.streams))
    segments = _segments(placement, segment_calls_first, segment_growth)
    return _plan(schedule, streams, segments, layout, sum(map(len, graph.predecessors)))


def program_order_plan(schedule: Schedule) -> Plan:
    """The plan that runs the calls one after the other, every intermediate on bytes of its own; needs no analysis.

    One stream a device, one segment a run of calls of one device. Linear in the calls, about 20 µs for a single one.
    """
    streams: list[StreamSpec] = []
    stream_of: dict[str, int] = {}
    segments: list[Segment] = []
    calls = schedule.calls
    first = 0
    while first < len(calls):
        device = calls[first].device
        after = first + 1
        while after < len(calls) and calls[after].device == device:
            after += 1
        if device not in stream_of:
            stream_of[device] = len(streams)
            streams.append(StreamSpec(device, ANY_LANE))
        index = len(segments)
        waits = (index - 1,) if index else ()
        segments.append(Segment(index, stream_of[device], tuple(range(first, after)), waits))
        first = after
    return _plan(schedule, tuple(streams), tuple(segments), _side_by_side(schedule), 0)


def _plan(
    schedule: Schedule, streams: tuple[StreamSpec, ...], segments: tuple[Segment, ...], layout: _Layout, hazards: int
) -> Plan:
    costs = [call.cost for call in schedule.calls]
    cost = costs[0] if len(costs) == 1 else Cost(sum(c.flops for c in costs), sum(c.nbytes for c in costs))
    reads, writes = slot_accesses(schedule, segments)
    return Plan(schedule, streams, segments, layout[1], layout[0], reads, writes, cost, hazards)


def _side_by_side(schedule: Schedule) -> _Layout:
    """Offsets without reuse, and the bytes of each arena."""
    offsets: dict[Buffer, int] = {}
    nbytes: dict[str, int] = {}
    for buffer in schedule.intermediates():
        offsets[buffer] = nbytes.get(buffer.device, 0)
        nbytes[buffer.device] = offsets[buffer] + align(buffer.nbytes)
    return offsets, nbytes


# Segments


def _segments(placement: Placement, calls_first: int | None, growth: int) -> tuple[Segment, ...]:
    """Cut streams before calls that wait, after calls that are waited for, and where a segment is full."""
    waited_for = {call for calls in placement.waits for call in calls}
    position = {call: index for index, call in enumerate(placement.order)}
    runs: list[list[int]] = []
    for calls in placement.streams:
        limit = calls_first
        run: list[int] = []
        for call in calls:
            if not run or placement.waits[call] or run[-1] in waited_for or len(run) == limit:
                if limit is not None and len(run) == limit:
                    limit *= growth
                run = []
                runs.append(run)
            run.append(call)
    # A call that waits is the first of its run and one that is waited for the last, so in the order of their first
    # calls runs follow whatever they wait for.
    runs.sort(key=lambda run: position[run[0]])
    run_of = {call: index for index, run in enumerate(runs) for call in run}
    # The placement leaves out waits that others imply, and cuts make runs begin and end where those waits do, so none
    # is implied here either. Newest first, as a device may stop looking at the first that is not done.
    return tuple(
        Segment(
            index,
            placement.stream_of[run[0]],
            tuple(run),
            tuple(sorted((run_of[call] for call in placement.waits[run[0]]), reverse=True)),
        )
        for index, run in enumerate(runs)
    )


# Verification


def verify_plan(plan: Plan) -> None:
    """Check all that a device and the engine rely on; about as dear as building the graph again.

    Raises:
        InternalError: a call is missing, twice, or on a stream of another device or lane; a wait points forwards; two
            calls that conflict are not ordered; an intermediate has no place, or shares bytes with one that is alive
            at the same time; an access from outside is not listed at a segment early enough.
    """
    verify_schedule(plan.schedule)
    _check(plan, plan.version == PLAN_VERSION, f"version {plan.version} is not {PLAN_VERSION}")
    _verify_segments(plan)
    before = _calls_before(plan)
    edges = build_graph(plan.schedule).predecessors
    _check(plan, plan.hazards in (0, sum(map(len, edges))), f"it has not the {plan.hazards} hazards that it counts")
    for call, predecessors in enumerate(edges):
        for earlier in predecessors:
            ordered = before[call] >> earlier & 1
            _check(plan, bool(ordered), f"call {call} must follow call {earlier}, but no stream or wait orders them")
    for buffer in plan.schedule.intermediates():
        _check(plan, buffer in plan.offsets, f"buffer {buffer.serial} has no place in the frame")
    order = [call for segment in plan.segments for call in segment.calls]
    verify_bytes(plan.schedule, order, before, plan.offsets, plan.frame_nbytes)
    _verify_accesses(plan)


def _check(plan: Plan, condition: bool, message: str) -> None:
    if not condition:
        raise InternalError(f"plan of {plan.schedule.name!r}: {message}", plan=plan)


def _verify_segments(plan: Plan) -> None:
    placed: set[int] = set()
    for index, segment in enumerate(plan.segments):
        where = f"segment {index}"
        _check(plan, segment.index == index, f"{where} says that it is {segment.index}")
        _check(plan, 0 <= segment.stream < len(plan.streams), f"{where} is on stream {segment.stream}, of no plan")
        stream = plan.streams[segment.stream]
        _check(plan, len(segment.calls) > 0, f"{where} is empty")
        for call in segment.calls:
            known = 0 <= call < len(plan.schedule.calls) and call not in placed
            _check(plan, known, f"{where} runs call {call}, which does not exist or runs before")
            device, lane = plan.schedule.calls[call].device, plan.schedule.calls[call].lane
            fits = device == stream.device and stream.lane in (lane, ANY_LANE)
            _check(plan, fits, f"{where} runs call {call} of {device}, {lane} on a stream of {stream}")
            placed.add(call)
        for wait in segment.waits:
            backward = 0 <= wait < index and plan.segments[wait].stream != segment.stream
            _check(plan, backward, f"{where} waits for segment {wait}, which is no earlier one of another stream")
    _check(plan, not (missing := len(plan.schedule.calls) - len(placed)), f"{missing} calls are in no segment")


def _calls_before(plan: Plan) -> list[int]:
    """For each call, the calls that have finished when it starts, as bits: what segments and waits imply."""
    before = [0] * len(plan.schedule.calls)
    done: list[int] = []
    for segment, direct in zip(plan.segments, segments_followed(plan.segments), strict=True):
        finished = 0
        for earlier in direct:
            finished |= done[earlier]
        for call in segment.calls:
            before[call] = finished
            finished |= 1 << call
        done.append(finished)
    return before


def _verify_accesses(plan: Plan) -> None:
    slots = plan.schedule.slots
    for entry in (*plan.reads, *plan.writes):
        _check(plan, 0 <= entry.slot < len(slots), f"an access lists slot {entry.slot}, which does not exist")
        of_slot = entry.view.buffer is slots[entry.slot].buffer and 0 <= entry.segment < len(plan.segments)
        _check(plan, of_slot, f"{entry} is not of a view of its slot and a segment of the plan")
        whole = entry.operand is None or entry.operand.view == entry.view
        _check(plan, whole, f"{entry} is not of the view of its operand")
    for verb, slot, view, segment in unlisted_accesses(plan.schedule, plan.segments, plan.reads, plan.writes):
        where = f"bytes {view.offset_bytes}:{view.offset_bytes + view.nbytes} of slot {slot}"
        _check(plan, False, f"segment {segment} may {verb} {where} too early")
