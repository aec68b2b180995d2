"""A plan: all that replay needs, derived from a schedule once.

(The types stand; ``lower``, ``program_order_plan``, ``verify_plan`` and serialisation are to be written.)
"""

from __future__ import annotations

from dataclasses import dataclass

from asyncjit.ir import Buffer, Cost, Schedule, View

PLAN_VERSION = 1


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A logical stream of a plan: all its calls run on one device, in one lane, in order."""

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
    """Bytes of a slot that the plan touches from outside its frame, and the first segment that does so."""

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
    version: int = PLAN_VERSION
