"""Segments of a plan, and what they touch outside the frame.

Law: which segment follows which, and which bytes of inputs and state each touches first. Imports ``regions`` and below.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from asyncjit.ir import Access, Operand, Schedule, SlotKind, View
from asyncjit.regions import Region, outside_accesses, region_of

__all__ = [
    "Segment",
    "SlotAccess",
    "ranges_of",
    "segments_before",
    "segments_followed",
    "slot_accesses",
    "unlisted_accesses",
]


#: Ranges of one buffer that are told apart. A model that reads a thousand slices of one array is better off with one
#: range around them than with a thousand comparisons for every write.
RANGES_MAX = 16


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
    #: What is touched there, where that is symbolic: ``view`` is then the range around all that it may be.
    operand: Operand | None = None


def segments_followed(segments: Sequence[Segment]) -> list[tuple[int, ...]]:
    """For each segment, those it follows directly: its waits, and last the one before it on its stream."""
    last: dict[int, int] = {}
    direct = []
    for segment in segments:
        previous = last.get(segment.stream)
        direct.append(segment.waits if previous is None else (*segment.waits, previous))
        last[segment.stream] = segment.index
    return direct


def segments_before(segments: Sequence[Segment]) -> list[int]:
    """For each segment, those that have finished when it starts, as bits."""
    before: list[int] = []
    for direct in segments_followed(segments):
        mask = 0
        for earlier in direct:
            mask |= before[earlier] | 1 << earlier
        before.append(mask)
    return before


class _Touched:
    """The bytes of one slot that a plan reads, or writes, with the segments that do so first.

    ``covers`` holds, for each stream, contiguous entries none of which lies inside another, by offset: so the only one
    that can contain a view is the last that starts no later.
    """

    __slots__ = ("covers", "entries", "segments_of")

    def __init__(self) -> None:
        self.entries: list[tuple[View, int, Operand | None]] = []
        self.segments_of: dict[tuple[View, object], int] = {}
        self.covers: dict[int, list[tuple[int, int, int]]] = {}

    def add(self, view: View, operand: Operand | None, segment: Segment, before: int) -> None:
        """Note an access; segments come in their order, and ``before`` is those that precede this one.

        A symbolic ``operand`` touches a part of its view, another one at each replay, so it covers nothing.
        """
        settled = before | 1 << segment.index
        key = (view, None if operand is None else operand.layout)
        seen = self.segments_of.get(key, 0)
        if seen & settled or self._is_covered(view, settled):
            return
        self.segments_of[key] = seen | 1 << segment.index
        self.entries.append((view, segment.index, operand))
        if view.is_contiguous and operand is None:
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


def _start(cover: tuple[int, int, int]) -> int:
    return cover[0]


def slot_accesses(
    schedule: Schedule, segments: Sequence[Segment]
) -> tuple[tuple[SlotAccess, ...], tuple[SlotAccess, ...]]:
    """What a plan reads and writes of INPUT and STATE slots, each range with the first segments that touch it."""
    before = segments_before(segments)
    reads: dict[int, _Touched] = {}
    writes: dict[int, _Touched] = {}
    for segment in segments:
        outside = list(_outside_accesses(schedule, segment))
        if len(outside) > 1:
            # The largest first, so that what lies inside it needs no entry.
            outside.sort(key=lambda one: (-one[1].nbytes, one[1].count))
        for slot, view, access, operand in outside:
            for touched, does in ((reads, access.reads), (writes, access.writes)):
                if does:
                    touched.setdefault(slot, _Touched()).add(view, operand, segment, before[segment.index])
    return _listed(reads), _listed(writes)


def _outside_accesses(schedule: Schedule, segment: Segment) -> Iterator[tuple[int, View, Access, Operand | None]]:
    """The accesses of a segment to INPUT and STATE slots, with the operand where it is symbolic."""
    for index in segment.calls:
        call = schedule.calls[index]
        for operand, (view, access) in zip(call.operands, outside_accesses(call), strict=True):
            slot = schedule.slot_of(view.buffer)
            if slot is not None and view.nbytes and schedule.slots[slot].kind is not SlotKind.OUTPUT:
                yield slot, view, access, operand if operand.is_symbolic else None


def _listed(touched: dict[int, _Touched]) -> tuple[SlotAccess, ...]:
    return tuple(SlotAccess(slot, *entry) for slot in sorted(touched) for entry in touched[slot].entries)


def unlisted_accesses(
    schedule: Schedule, segments: Sequence[Segment], reads: Sequence[SlotAccess], writes: Sequence[SlotAccess]
) -> Iterator[tuple[str, int, View, int]]:
    """The accesses, as (verb, slot, view, segment), that no entry lists at their own segment or an earlier one."""
    before = segments_before(segments)
    for listed, verb in ((reads, "read"), (writes, "write")):
        exact: dict[tuple[int, View, object], int] = {}
        for entry in listed:
            key = (entry.slot, entry.view, None if entry.operand is None else entry.operand.layout)
            exact[key] = exact.get(key, 0) | 1 << entry.segment
        for segment in segments:
            settled = before[segment.index] | 1 << segment.index
            for slot, view, access, operand in _outside_accesses(schedule, segment):
                layout = None if operand is None else operand.layout
                if (access.reads if verb == "read" else access.writes) and not (
                    exact.get((slot, view, layout), 0) & settled
                    or any(
                        at & settled and other_slot == slot and symbolic is None and _contains(other, view)
                        for (other_slot, other, symbolic), at in exact.items()
                    )
                ):
                    yield verb, slot, view, segment.index


def _contains(outer: View, inner: View) -> bool:
    end = inner.offset_bytes + inner.nbytes
    starts_no_later = outer.is_contiguous and outer.offset_bytes <= inner.offset_bytes
    return starts_no_later and end <= outer.offset_bytes + outer.nbytes


def ranges_of(accesses: Iterable[SlotAccess], keys: Mapping[int, int]) -> list[Region]:
    """The byte ranges of the accesses to slots in ``keys`` (slot -> key of its buffer), each once. Where one buffer has
    more than ``RANGES_MAX``, it is the one range around them."""
    found: dict[int, dict[Region, None]] = {}
    for access in accesses:
        if access.slot in keys:
            key = keys[access.slot]
            found.setdefault(key, {})[region_of(access.view, key)] = None
    listed: list[Region] = []
    for key, ranges in found.items():
        if len(ranges) > RANGES_MAX:
            ranges = {Region(key, min(each.start for each in ranges), max(each.stop for each in ranges)): None}
        listed += ranges
    return listed
