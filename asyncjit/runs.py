"""The life of one replay, as data: its states, what can happen to it, and the table that says what follows.

Law: only types and the table; the decisions are in ``scheduler``. Imports ``deps`` and below.

A **run** is the scheduler's record of one replay. A **stimulus** is what the scheduler is told, a **command** is what it
asks for. Some stimuli come from outside (a call, a completion, a cancelled wait), others the scheduler derives itself
(room was found, a dependency failed, a removal was decided); both stand in ``TRANSITIONS``, which is the whole law.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from asyncjit.deps import ReadSet, Region

__all__ = [
    "FINISHED",
    "TRANSITIONS",
    "Admitted",
    "Arrive",
    "BeginCapture",
    "BufferFreed",
    "CancelRequested",
    "CaptureFailed",
    "CaptureTurn",
    "Captured",
    "Close",
    "CloseDeadline",
    "Command",
    "DeviceLost",
    "Footprint",
    "GroupState",
    "Poisoned",
    "Reject",
    "Release",
    "ReleaseWaiter",
    "Removed",
    "Resolve",
    "Run",
    "RunDone",
    "RunFailed",
    "Skip",
    "Start",
    "State",
    "Stimulus",
    "Submit",
    "Touch",
    "WaitCancelled",
    "WaitStarted",
]


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


FINISHED = frozenset({State.DONE, State.FAILED, State.DROPPED})


class Touch(NamedTuple):
    """Bytes of a slot that a plan touches: ``Region`` without its buffer, relative to the slot, and the segment."""

    slot: int
    start: int
    stop: int
    block: int
    stride: int


@dataclass(slots=True, eq=False)
class Footprint:
    """What a plan touches outside its frame, by the first segment that does so; outputs are not listed.

    ``groups`` holds (segment, reads, writes) in ascending order of segment. ``read_set`` stands for all state that is
    only read, whatever their number.
    """

    groups: tuple[tuple[int, tuple[Touch, ...], tuple[Touch, ...]], ...] = ()
    read_set: ReadSet | None = None
    read_set_segment: int = 0

    @property
    def is_pure(self) -> bool:
        """Nothing but outputs is written."""
        return not any(writes for _, _, writes in self.groups)


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

    __slots__ = (
        "blockers",
        "cancelled",
        "context",
        "device",
        "error",
        "footprint",
        "group",
        "keys",
        "needs",
        "outputs",
        "predecessors",
        "recorded",
        "shifts",
        "signature",
        "state",
        "successors",
        "ticket",
        "waiters",
    )

    def __init__(self, group: GroupState, context: Any = None) -> None:
        self.group = group
        self.context = context
        self.ticket = 0
        self.state = State.QUEUED
        self.signature: Hashable = None
        self.device = ""
        self.footprint: Footprint | None = None
        #: Buffer and base offset bound to each slot, and the buffers of the outputs.
        self.keys: Sequence[int] = ()
        self.shifts: Sequence[int] = ()
        self.outputs: Sequence[int] = ()
        #: Unfinished runs that must come first, with the segment that has to wait for them.
        self.predecessors: dict[Run, int] = {}
        #: Those of them that this one reads from.
        self.needs: set[Run] = set()
        self.successors: list[Run] = []
        #: Predecessors that keep it from being admitted.
        self.blockers = 0
        self.waiters = 0
        self.cancelled = False
        #: Its accesses stand in the tracker.
        self.recorded = False
        self.error: BaseException | None = None

    def bind(self, device: str, footprint: Footprint, keys: Sequence[int], shifts: Sequence[int]) -> None:
        self.device, self.footprint, self.keys, self.shifts = device, footprint, keys, shifts

    def regions(self, touches: Sequence[Touch]) -> list[Region]:
        keys, shifts = self.keys, self.shifts
        return [
            Region(keys[slot], shifts[slot] + start, shifts[slot] + stop, block, stride)
            for slot, start, stop, block, stride in touches
        ]

    def __repr__(self) -> str:
        return f"<run {self.ticket} of {self.group.name!r}: {self.state.value}>"


class Stimulus:
    """Something that happened."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class Arrive(Stimulus):
    """A call whose signature is not captured takes its ticket; what it touches is not known yet."""

    run: Run
    signature: Hashable


@dataclass(slots=True, eq=False)
class Submit(Stimulus):
    """A call with a known footprint takes its ticket. ``inline``: it may run at once, on the calling thread."""

    run: Run
    inline: bool = False
    memory_bytes: int = 0
    new_bytes: int = 0


@dataclass(slots=True, eq=False)
class CaptureTurn(Stimulus):
    """Derived: the capture this run waited for has ended; now it looks, or captures, itself."""

    run: Run


@dataclass(slots=True, eq=False)
class Captured(Stimulus):
    """The function was recorded (or found recorded) for this run, which is now bound to a footprint."""

    run: Run
    memory_bytes: int = 0
    new_bytes: int = 0


@dataclass(slots=True, eq=False)
class CaptureFailed(Stimulus):
    run: Run
    error: BaseException


@dataclass(slots=True, eq=False)
class Admitted(Stimulus):
    """Derived: there is room, and all that must come first is done or on its way."""

    run: Run


@dataclass(slots=True, eq=False)
class RunDone(Stimulus):
    """The device has passed the run."""

    run: Run


@dataclass(slots=True, eq=False)
class RunFailed(Stimulus):
    """A call failed; the device touches nothing of the run any more."""

    run: Run
    error: BaseException


@dataclass(slots=True, eq=False)
class Poisoned(Stimulus):
    """Derived: a run that this one reads from failed or was cancelled."""

    run: Run
    error: BaseException


@dataclass(slots=True, eq=False)
class Removed(Stimulus):
    """Derived: taken out whole before it started."""

    run: Run


@dataclass(slots=True, eq=False)
class WaitStarted(Stimulus):
    run: Run


@dataclass(slots=True, eq=False)
class WaitCancelled(Stimulus):
    """A waiter was cancelled. ``held``: somebody has the outputs, so the work is wanted whoever waits."""

    run: Run
    held: bool


@dataclass(slots=True, eq=False)
class CancelRequested(Stimulus):
    """``replay.cancel()``."""

    run: Run


@dataclass(slots=True, eq=False)
class DeviceLost(Stimulus):
    device: str
    error: BaseException


@dataclass(slots=True, eq=False)
class BufferFreed(Stimulus):
    """Nobody can reach the buffer any more."""

    key: int


@dataclass(slots=True, eq=False)
class Close(Stimulus):
    """No more calls; what was taken is finished. ``error(run)`` is given to calls that come later."""


@dataclass(slots=True, eq=False)
class CloseDeadline(Stimulus):
    """Draining took too long: what has not started is failed."""


class Command:
    """Something to do."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class BeginCapture(Command):
    """Record the function for this run and answer with Captured or CaptureFailed."""

    run: Run


@dataclass(slots=True, eq=False)
class Start(Command):
    """Give the run to its device. ``gates``: segment -> runs whose fences it has to wait for. ``inline``: run it now."""

    run: Run
    gates: Mapping[int, Sequence[Run]] = field(default_factory=dict)
    inline: bool = False


@dataclass(slots=True, eq=False)
class Skip(Command):
    """The run is doomed: its device may pass over what has not started."""

    run: Run


@dataclass(slots=True, eq=False)
class Resolve(Command):
    """The outcome is settled: wake all waiters."""

    run: Run


@dataclass(slots=True, eq=False)
class Release(Command):
    """The device has passed the run: its frame and bindings may be used again."""

    run: Run


@dataclass(slots=True, eq=False)
class ReleaseWaiter(Command):
    """The cancelled waiter goes at once; without this command it stays until the run is resolved."""

    run: Run


@dataclass(slots=True, eq=False)
class Reject(Command):
    """The call is refused and leaves no trace."""

    run: Run
    error: BaseException


TRANSITIONS: Mapping[State, Mapping[type[Stimulus], State]] = {
    State.AWAITING_CAPTURE: {
        CaptureTurn: State.CAPTURING,
        Removed: State.DROPPED,
        DeviceLost: State.FAILED,
        CloseDeadline: State.FAILED,
    },
    State.CAPTURING: {
        Captured: State.QUEUED,
        CaptureFailed: State.FAILED,
    },
    State.QUEUED: {
        Admitted: State.RUNNING,
        Poisoned: State.FAILED,
        Removed: State.DROPPED,
        DeviceLost: State.FAILED,
        CloseDeadline: State.FAILED,
    },
    State.RUNNING: {
        RunDone: State.DONE,
        RunFailed: State.FAILED,
        Poisoned: State.DOOMED,
        WaitCancelled: State.ABANDONED,
        DeviceLost: State.FAILED,
    },
    State.ABANDONED: {
        WaitStarted: State.RUNNING,
        RunDone: State.DONE,
        RunFailed: State.FAILED,
        Poisoned: State.DOOMED,
        DeviceLost: State.FAILED,
    },
    State.DOOMED: {
        RunDone: State.FAILED,
        RunFailed: State.FAILED,
        DeviceLost: State.FAILED,
    },
    State.DONE: {},
    State.FAILED: {},
    State.DROPPED: {},
}
