"""A plan: all that replay needs, derived from a schedule once.

Law: types, the two ways to make a plan, and its verifier; no clocks, no devices. Imports ``memory`` and below. Plans as
data that can be stored are in ``plan_data``.

A plan cuts the calls of each stream into **segments**, which a device launches in one go. A stream waits for another
only at the start of a segment and only for the end of one, so a segment never holds up a call that could have started.
What a replay touches outside its frame is listed once per range of bytes (``reads``, ``writes``) together with the
segments to hold back until earlier replays are done with those bytes.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from asyncjit.errors import InternalError
from asyncjit.graph import build_graph
from asyncjit.ir import Access, Buffer, Cost, Schedule, SlotKind, View, verify_schedule
from asyncjit.memory import align, plan_memory, verify_bytes
from asyncjit.placement import Placement, place
from asyncjit.regions import outside_accesses

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

PLAN_VERSION = 2

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
class Segment:
    """A run of calls of one stream that a device launches in one go.

    ``calls`` are indices into the schedule, in the order in which they run. ``waits`` are indices of segments
    of *other* streams that must have finished before the first call; earlier segments of the same stream are
    implied. Segments are listed in an issue order that is topological: every wait points backwards.
    """

    index: int
    stream: int
    calls: tuple[int, ...]
    waits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SlotAccess:
    """Bytes of a slot that the plan touches from outside its frame, and a segment that does so first.

    Every segment that touches the bytes is the one of such an entry or runs after it, so work that is held back at the
    segments listed never meets an unfinished earlier replay. Where segments that nothing orders touch the same bytes
    first, each has its entry.
    """

    slot: int
    view: View
    segment: int


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
    reads, writes = _slot_accesses(schedule, segments)
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


def segments_followed(segments: Sequence[Segment]) -> list[tuple[int, ...]]:
    """For each segment, those it follows directly: its waits, and last the one before it on its stream."""
    last: dict[int, int] = {}
    direct = []
    for segment in segments:
        previous = last.get(segment.stream)
        direct.append(segment.waits if previous is None else (*segment.waits, previous))
        last[segment.stream] = segment.index
    return direct


def _segments_before(segments: Sequence[Segment]) -> list[int]:
    """For each segment, those that have finished when it starts, as bits."""
    before: list[int] = []
    for direct in segments_followed(segments):
        mask = 0
        for earlier in direct:
            mask |= before[earlier] | 1 << earlier
        before.append(mask)
    return before


# Accesses from outside


class _Touched:
    """The bytes of one slot that a plan reads, or writes, with the segments that do so first.

    ``covers`` holds, for each stream, contiguous entries none of which lies inside another, by offset: so the only one
    that can contain a view is the last that starts no later.
    """

    __slots__ = ("covers", "entries", "segments_of")

    def __init__(self) -> None:
        self.entries: list[tuple[View, int]] = []
        self.segments_of: dict[View, int] = {}
        self.covers: dict[int, list[tuple[int, int, int]]] = {}

    def add(self, view: View, segment: Segment, before: int) -> None:
        """Note an access; segments come in their order, and ``before`` is those that precede this one."""
        settled = before | 1 << segment.index
        seen = self.segments_of.get(view, 0)
        if seen & settled or self._is_covered(view, settled):
            return
        self.segments_of[view] = seen | 1 << segment.index
        self.entries.append((view, segment.index))
        if view.is_contiguous:
            self._cover(view.offset_bytes, view.offset_bytes + view.nbytes, segment)

    def _is_covered(self, view: View, settled: int) -> bool:
        end = view.offset_bytes + view.nbytes
        for covers in self.covers.values():
            at = bisect_right(covers, view.offset_bytes, key=_start) - 1
            if at >= 0 and covers[at][1] >= end and settled >> covers[at][2] & 1:
                return True
        return False

    def _cover(self, start: int, end: int, segment: Segment) -> None:
        covers = self.covers.setdefault(segment.stream, [])
        inside = bisect_right(covers, start - 1, key=_start)
        after = inside
        while after < len(covers) and covers[after][1] <= end:
            after += 1
        del covers[inside:after]
        insort(covers, (start, end, segment.index))


def _slot_accesses(
    schedule: Schedule, segments: Sequence[Segment]
) -> tuple[tuple[SlotAccess, ...], tuple[SlotAccess, ...]]:
    """What a plan reads and writes of INPUT and STATE slots, each range with the first segments that touch it."""
    before = _segments_before(segments)
    reads: dict[int, _Touched] = {}
    writes: dict[int, _Touched] = {}
    for segment in segments:
        outside = list(_outside_accesses(schedule, segment))
        if len(outside) > 1:
            # The largest first, so that what lies inside it needs no entry.
            outside.sort(key=lambda one: (-one[1].nbytes, one[1].count))
        for slot, view, access in outside:
            for touched, does in ((reads, access.reads), (writes, access.writes)):
                if does:
                    touched.setdefault(slot, _Touched()).add(view, segment, before[segment.index])
    return _listed(reads), _listed(writes)


def _outside_accesses(schedule: Schedule, segment: Segment) -> Iterator[tuple[int, View, Access]]:
    """The accesses of a segment to INPUT and STATE slots."""
    for view, access in (each for call in segment.calls for each in outside_accesses(schedule.calls[call])):
        slot = schedule.slot_of(view.buffer)
        if slot is not None and view.nbytes and schedule.slots[slot].kind is not SlotKind.OUTPUT:
            yield slot, view, access


def _listed(touched: dict[int, _Touched]) -> tuple[SlotAccess, ...]:
    return tuple(SlotAccess(slot, view, index) for slot in sorted(touched) for view, index in touched[slot].entries)


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
    before = _segments_before(plan.segments)
    for listed, verb in ((plan.reads, "read"), (plan.writes, "write")):
        exact: dict[tuple[int, View], int] = {}
        for entry in listed:
            slots = plan.schedule.slots
            _check(plan, 0 <= entry.slot < len(slots), f"an access lists slot {entry.slot}, which does not exist")
            of_slot = entry.view.buffer is slots[entry.slot].buffer and 0 <= entry.segment < len(plan.segments)
            _check(plan, of_slot, f"{entry} is not of a view of its slot and a segment of the plan")
            key = (entry.slot, entry.view)
            exact[key] = exact.get(key, 0) | 1 << entry.segment
        for segment in plan.segments:
            settled = before[segment.index] | 1 << segment.index
            for slot, view, access in _outside_accesses(plan.schedule, segment):
                if access.reads if verb == "read" else access.writes:
                    covered = exact.get((slot, view), 0) & settled or any(
                        at & settled and other_slot == slot and _contains(other, view)
                        for (other_slot, other), at in exact.items()
                    )
                    where = f"bytes {view.offset_bytes}:{view.offset_bytes + view.nbytes} of slot {slot}"
                    _check(plan, bool(covered), f"segment {segment.index} may {verb} {where} too early")


def _contains(outer: View, inner: View) -> bool:
    end = inner.offset_bytes + inner.nbytes
    starts_no_later = outer.is_contiguous and outer.offset_bytes <= inner.offset_bytes
    return starts_no_later and end <= outer.offset_bytes + outer.nbytes
