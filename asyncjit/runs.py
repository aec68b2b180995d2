"""The life of one replay, as data: what can happen to it, what follows, and the table that says so.

Law: only types and the table; the decisions are in ``scheduler``. Imports ``records`` and below.

A **run** is the scheduler's record of one replay. A **stimulus** is what the scheduler is told, a **command** what it
asks for. Some stimuli come from outside (a call, a completion, a cancelled wait), others the scheduler derives itself
(room was found, a dependency failed, a removal was decided); both stand in ``TRANSITIONS``, which is the whole law.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from asyncjit.records import FINISHED, STARTED, Footprint, GroupState, Run, State, Touch, gate_fronts

__all__ = [
    "FINISHED",
    "STARTED",
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
    "gate_fronts",
]


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
    """A call with a known footprint takes its ticket. ``inline``: it may run at once, on the calling thread.

    ``memory_bytes`` are in use before it, ``new_bytes`` come with it.
    """

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
    """Derived: a run that this one reads from failed or was cancelled, or one of several devices that it runs on was
    lost."""

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
    """Nobody can reach the buffer any more; all runs that are bound to it are resolved."""

    key: int


@dataclass(slots=True, eq=False)
class Close(Stimulus):
    """No more calls: those that come later are rejected. What was taken is finished."""


@dataclass(slots=True, eq=False)
class CloseDeadline(Stimulus):
    """Draining took too long: what has not started is failed."""


class Command:
    """Something to do."""

    __slots__ = ()

    run: Run


@dataclass(slots=True, eq=False)
class BeginCapture(Command):
    """Record the function for this run and answer with Captured or CaptureFailed."""

    run: Run


@dataclass(slots=True, eq=False)
class Start(Command):
    """Give the run to its device. ``gates``: segment -> runs whose fences it has to wait for.

    ``inline``: run it now, on this thread; the next stimulus is its RunDone, which then asks for nothing, or RunFailed.
    A gate holds back its segment; ``Footprint.fronts`` has made sure that this is enough.
    """

    run: Run
    gates: Mapping[int, Sequence[Run]] = field(default_factory=dict)
    inline: bool = False


@dataclass(slots=True, eq=False)
class Skip(Command):
    """The run is doomed: its device may pass over what has not started."""

    run: Run


@dataclass(slots=True, eq=False)
class Resolve(Command):
    """The outcome is settled: wake all waiters. A run that was never started gives its bindings back here."""

    run: Run


@dataclass(slots=True, eq=False)
class Release(Command):
    """The device has passed the run: its frame and bindings may be used again.

    Where the device was lost before it passed the run, the run's fence fires no sooner than those of all its gates:
    runs that have started rely on it for what it waited for.
    """

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
