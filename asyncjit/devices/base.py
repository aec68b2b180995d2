"""The device protocol: what an engine asks of anything that runs plans.

Law: a device knows plans, memory and fences; it knows no tickets, no event loop, no arrays. It decides nothing that the
contract speaks of: order between replays comes in as *gates*, outcomes go out through ``report``.

The life of a replay on a device::

    executable = device.instantiate(plan)          once a plan; may compile; called off the event loop
    executable.bind_state(bindings)                once, and again whenever the memory of a STATE slot changes
    frame = executable.create_frame()              once a frame; one replay at a time runs in it
    device.submit(submission)                      never blocks; calls back ``submission.report`` exactly once
    device.run_inline(submission)                  or: all of it now, on this thread, no gates

``docs/decisions/0002-device-protocol.md`` walks through it for devices that do not exist yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from asyncjit.plan import Plan
from asyncjit.streams import Fence

__all__ = ["Capabilities", "Device", "Executable", "Frame", "Memory", "Runner", "Submission"]

#: What a device hands out for a buffer; opaque above the device. On the CPU a NumPy array, C-contiguous.
Memory = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What lowering and the engine need to know.

    streams_max: logical streams worth planning for. segment_calls_first: calls in the first segment of a stream,
    doubling after each; None for no limit. submits_ahead: a submission whose first segments are still gated costs
    nothing and saves a host round trip (CUDA); where False, the engine holds such a replay back, so that it can still
    be cancelled. inline_s_max: plans whose estimated time is below this may run inline; 0 forbids it. hop_s: cost of
    handing work from one stream to another, so that placement does not split off less than that.
    """

    streams_max: int
    segment_calls_first: int | None
    submits_ahead: bool
    inline_s_max: float
    hop_s: float


@runtime_checkable
class Frame(Protocol):
    """The private arena of one replay, with whatever was prepared against its addresses.

    Weakly referable. Freed when dropped, from any thread; a device whose freeing blocks hands that to a thread of its
    own. Between replays it holds no reference to the memory of INPUT and OUTPUT slots.
    """

    @property
    def nbytes(self) -> int: ...


@runtime_checkable
class Executable(Protocol):
    """A plan made runnable on one device."""

    @property
    def plan(self) -> Plan: ...

    @property
    def estimated_s(self) -> float:
        """Estimated time of one replay on one worker; may change as replays are measured."""
        ...

    @property
    def runs_inline(self) -> bool:
        """Whether the engine may run it on the calling thread (cheap, and no user code in it)."""
        ...

    @property
    def frames_are_cheap(self) -> bool:
        """Whether ``create_frame`` may be called on the event loop: it allocates little and instantiates nothing."""
        ...

    def create_frame(self, arena: Memory | None = None) -> Frame:
        """A new frame, its memory faulted in. May take long, then called off the event loop: see ``frames_are_cheap``.

        ``arena``, where given, is memory of this device for it to use, of the bytes that the plan says: frames of plans
        that are parts of one share it, so no frame may write there but what its calls write.

        Raises:
            DeviceOutOfMemoryError: there is no memory left for it.
        """
        ...

    def bind_state(self, bindings: Sequence[tuple[int, Memory, int]]) -> None:
        """Bind STATE slots: (slot, memory, byte offset at which the slot begins). Slots that are not named keep theirs.

        Submissions made afterwards run with it; those made before keep what was bound at their ``submit``. The memories
        stay alive as long as they are bound. So state costs a replay nothing, however much of it a plan reads.
        """
        ...


@dataclass(slots=True, eq=False)
class Submission:
    """One replay as a device sees it.

    ``bindings`` holds, by slot, the memory and the byte offset at which the slot begins; entries of STATE slots are
    not read (``Executable.bind_state``) and may be anything. ``gates`` maps a segment to fences of other submissions
    that must have fired before it starts. ``report(submission, error, call_index)`` is called exactly once, from any
    thread, when nothing of the submission will touch memory any more; ``fence`` is signalled after it, in every case.

    After an error, and when ``skip`` is set (by ``Device.skip`` only), segments that have not started are passed
    over: they run nothing, and yet in order and after their gates, since later submissions may wait for this fence
    alone and rely on all that this one waited for.
    """

    executable: Any
    frame: Any
    bindings: Sequence[tuple[Memory, int]]
    gates: Mapping[int, Sequence[Fence]]
    report: Callable[[Submission, BaseException | None, int | None], None]
    fence: Fence
    skip: bool = False
    #: For whoever submitted; the device does not look at it.
    context: Any = None
    #: An empty list asks for times: the device makes it as long as the schedule and puts in, for each call that ran,
    #: (start_s, end_s, thread): seconds on the device's clock, and the system's number of the thread that ran it, 0
    #: where none did. Others keep None. Without a list no time is taken.
    times: list[tuple[float, float, int] | None] | None = None
    #: The values of the symbols of the plan's schedule, in the order of ``Schedule.symbols``.
    values: Sequence[int] = ()


class Runner(Protocol):
    """What takes submissions: a device, or several as one. Callable from any thread, except where a method says
    otherwise."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def instantiate(self, plan: Plan, executor: str | None = None) -> Executable:
        """Make a plan runnable: bind kernels, compile. May take long; called off the event loop, except for tiny plans.

        ``executor`` pins one of several ways in which the device can run a plan; None leaves the choice to it.

        Raises:
            DeviceError: a kernel is not known here.
            DeviceUnavailableError: there is no such executor here.
        """
        ...

    def submit(self, submission: Submission) -> None:
        """Take the work; return at once. Errors are reported, not raised, except DeviceLostError and EngineClosedError:
        then nothing was taken, and neither ``report`` nor ``fence`` will be heard of."""
        ...

    def skip(self, submission: Submission) -> None:
        """Have what has not started yet passed over, where that is still possible. A request: returns at once, from any
        thread, and the submission completes as usual."""
        ...

    def run_inline(self, submission: Submission) -> tuple[BaseException | None, int | None]:
        """Run all of it on this thread, now. Returns the error and the index of the call that failed, or (None, None).

        Neither reports nor signals. Only where ``executable.runs_inline``; ``gates`` are empty. As no user code runs, a
        KeyboardInterrupt that comes back is the user's own Ctrl-C: fail the replay, then raise it again.
        """
        ...


@runtime_checkable
class Device(Runner, Protocol):
    """What has memory, and runs plans on it."""

    @property
    def hops(self) -> int:
        """How often work was handed over to a worker (thread, or stream of hardware) since the device was opened."""
        ...

    def allocate(self, nbytes: int) -> Memory:
        """Uninitialised memory, 64-byte aligned from 4 KiB up. Freed when the last reference is dropped, off the loop
        where freeing can block.

        Raises:
            DeviceOutOfMemoryError: there is none left.
        """
        ...

    def allocate_array(self, shape: tuple[int, ...], dtype: str) -> Memory:
        """Memory for a C-contiguous array; a device may use the hint to prepare the view that a kernel will want."""
        ...

    def array_allocator(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Memory]:
        """``allocate_array`` with its arguments, as quick as may be: every replay calls one for each of its outputs."""
        ...

    def close(self, timeout_s: float) -> bool:
        """Stop taking work, finish what was taken, join threads. True when nothing is left within ``timeout_s``.

        Blocking: called off the event loop. May be called again, which waits again.
        """
        ...
