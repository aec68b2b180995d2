"""What the scheduler keeps of a replay: where it stands, what it touches, whom it waits for.

Law: records and what can be read off them; decisions are in ``scheduler``. Imports ``plan`` and below.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from asyncjit.deps import ReadSet, Region
from asyncjit.plan import Plan

__all__ = ["FINISHED", "STARTED", "Footprint", "GroupState", "Run", "State", "Touch", "gate_fronts"]

#: Outputs are new buffers, touched as a whole.
_WHOLE = 1 << 62


class State(enum.Enum):
    """Where a replay stands. The last three are final."""

    AWAITING_CAPTURE = "awaiting capture"
    CAPTURING = "capturing"
    QUEUED = "queued"
    RUNNING = "running"
    ABANDONED = "abandoned"
    DOOMED = "doomed"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"

    # Identity, in C: the table is consulted several times a replay, and Enum's own hash is Python code.
    __hash__ = object.__hash__


#: A device has it, and has not passed it.
STARTED = frozenset({State.RUNNING, State.ABANDONED, State.DOOMED})

FINISHED = frozenset({State.DONE, State.FAILED, State.DROPPED})


class Touch(NamedTuple):
    """Bytes that a plan touches: ``Region`` relative to what is bound to a slot, a position in ``Run.keys``."""

    slot: int
    start: int
    stop: int
    block: int
    stride: int


@dataclass(slots=True, eq=False)
class Footprint:
    """What a plan touches outside its frame, by the first segment that does so; outputs are not listed.

    ``groups`` holds (segment, reads, writes) in ascending order of segment. ``read_set`` stands for all state that is
    only read, whatever its number. ``fronts`` says, for plans of several streams, which segments hold back everything
    from a segment on (see ``gate_fronts``); a segment that is not in it holds back all that follows it.
    """

    groups: tuple[tuple[int, tuple[Touch, ...], tuple[Touch, ...]], ...] = ()
    read_set: ReadSet[Run] | None = None
    read_set_segment: int = 0
    fronts: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def is_pure(self) -> bool:
        """Nothing but outputs is written."""
        return not any(writes for _, _, writes in self.groups)


def gate_fronts(plan: Plan, segments: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """For each segment ``s``: those from ``s`` on, in issue order, that follow no other segment from ``s`` on.

    Bytes are listed with the first segment that touches them; on another stream a later one may touch them too without
    following it. A gate in front of the whole front holds back all of them. Costs O(segments) for each of ``segments``.
    """
    fronts = {}
    for first in set(segments):
        front = []
        streams_seen: set[int] = set()
        for segment in plan.segments[first:]:
            follows = segment.stream in streams_seen or any(wait >= first for wait in segment.waits)
            streams_seen.add(segment.stream)
            if not follows:
                front.append(segment.index)
        fronts[first] = tuple(front)
    return fronts


class GroupState:
    """What replays of one function share: room and its order.

    ``in_flight_max`` is None where room is not limited. ``exempt`` groups do not count towards the queue limit.
    """

    __slots__ = ("exempt", "in_flight_max", "name", "on_cancel", "ready", "running")

    def __init__(
        self, name: str, *, in_flight_max: int | None = 4, on_cancel: str = "shield", exempt: bool = False
    ) -> None:
        self.name = name
        self.in_flight_max = in_flight_max
        self.on_cancel = on_cancel
        self.exempt = exempt
        self.running = 0
        #: Heap of the tickets of runs that wait for room only.
        self.ready: list[int] = []

    @property
    def has_room(self) -> bool:
        return self.in_flight_max is None or self.running < self.in_flight_max


class Run:
    """One replay as the scheduler knows it. Only the scheduler writes here; ``context`` is the engine's."""

    # Defaults stand in the class: a run that is admitted at once sets few of these.
    ticket = 0
    state = State.QUEUED
    signature: Hashable = None
    device = ""
    footprint: Footprint | None = None
    #: Buffer and base offset bound to each slot that the footprint's groups name, and the buffers of the outputs.
    keys: Sequence[int] = ()
    shifts: Sequence[int] = ()
    outputs: Sequence[int] = ()
    #: Predecessors that keep it from being admitted.
    blockers = 0
    waiters = 0
    #: While it is captured: removed as soon as the capture ends, by ``cancel``; or unless somebody waits again.
    cancelled = False
    unwanted = False
    #: Its accesses stand in the tracker.
    recorded = False
    error: BaseException | None = None
    #: Tickets of all that have ever been its predecessors, for whoever watches.
    followed: tuple[int, ...] = ()

    def __init__(self, group: GroupState, context: Any = None) -> None:
        self.group = group
        self.context = context
        #: Unfinished runs that must come first, with the segment that has to wait for them.
        self.predecessors: dict[Run, int] = {}
        #: Those of them that this one reads from.
        self.needs: set[Run] = set()
        self.successors: list[Run] = []

    def bind(self, device: str, footprint: Footprint, keys: Sequence[int], shifts: Sequence[int]) -> None:
        self.device, self.footprint, self.keys, self.shifts = device, footprint, keys, shifts

    def regions(self, touches: Sequence[Touch]) -> list[Region]:
        keys, shifts = self.keys, self.shifts
        return [
            Region(keys[slot], shifts[slot] + start, shifts[slot] + stop, block, stride)
            for slot, start, stop, block, stride in touches
        ]

    def reads(self) -> list[Region]:
        """All that it reads outside its frame, but for its read set."""
        groups = () if self.footprint is None else self.footprint.groups
        return [region for _, touches, _ in groups for region in self.regions(touches)]

    def writes(self) -> list[Region]:
        """All that it writes outside its frame, outputs included."""
        return self.output_regions() + self.state_writes()

    def state_writes(self) -> list[Region]:
        """All that it writes outside its frame and its outputs."""
        groups = () if self.footprint is None else self.footprint.groups
        return [region for _, _, touches in groups for region in self.regions(touches)]

    def output_regions(self) -> list[Region]:
        return [Region(key, 0, _WHOLE) for key in self.outputs]

    def is_bound_to(self, keys: Collection[int]) -> bool:
        """Whether it reads or writes one of these buffers outside its frame, its outputs aside."""
        read_set = None if self.footprint is None else self.footprint.read_set
        return any(key in keys for key in self.keys) or (
            read_set is not None and any(key in read_set.members for key in keys)
        )

    def __repr__(self) -> str:
        return f"<run {self.ticket} of {self.group.name!r}: {self.state.value}>"
