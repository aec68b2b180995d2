"""The device protocol: what an engine asks of anything that runs plans.

Law: a device knows plans, memory and fences; it knows no tickets, no event loop, no arrays. It decides nothing that the
contract speaks of: order between replays comes in as *gates*, outcomes go out through ``report``.

The life of a replay on a device::

    executable = device.instantiate(plan)          once a plan; may compile; called on a worker thread
    frame = executable.create_frame()              once a frame; one replay at a time runs in it
    device.submit(submission)                      never blocks; calls back ``submission.report`` exactly once
    device.run_inline(submission)                  or: all of it now, on this thread, no gates
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from asyncjit.plan import Plan
from asyncjit.streams import Fence

__all__ = ["Capabilities", "Device", "Executable", "Frame", "Memory", "Submission"]

#: What a device hands out for a buffer; opaque above the device. On the CPU a NumPy array.
Memory = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What lowering and the engine need to know.

    streams_max: logical streams worth planning for. segment_calls_first: calls in the first segment of a stream, doubling
    after each; None for no limit. submits_ahead: a submission whose first segments are still gated costs nothing and saves
    a host round trip (CUDA); where False, the engine holds such a replay back, so that it can still be cancelled.
    inline_s_max: plans whose estimated time is below this may run inline; 0 forbids it. hop_s: cost of handing work from
    one stream to another, so that placement does not split off less than that.
    """

    streams_max: int
    segment_calls_first: int | None
    submits_ahead: bool
    inline_s_max: float
    hop_s: float


@runtime_checkable
class Frame(Protocol):
    """The private arena of one replay, with whatever was prepared against its addresses. Freed when dropped."""

    @property
    def nbytes(self) -> int: ...


@runtime_checkable
class Executable(Protocol):
    """A plan made runnable on one device."""

    @property
    def plan(self) -> Plan: ...

    @property
    def estimated_s(self) -> float:
        """Estimated time of one replay on one worker."""
        ...

    @property
    def runs_inline(self) -> bool:
        """Whether the engine may run it on the calling thread (cheap, and no user code in it)."""
        ...

    def create_frame(self) -> Frame: ...


@dataclass(slots=True, eq=False)
class Submission:
    """One replay as a device sees it.

    ``bindings`` holds the memory of each slot with the byte offset at which the slot begins. ``gates`` maps a segment to
    fences of other submissions that must have fired before it starts. ``report(submission, error, call_index)`` is called
    exactly once, from any thread, when nothing of the submission will touch memory any more; ``fence`` is signalled after
    it. ``skip`` may be set by the engine at any time: segments that have not started are then passed over in order, and the
    submission completes as usual.
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
    #: (start_s, end_s) of each call that ran, by index, when the device was asked to take times; else None.
    times: list[tuple[float, float]] | None = None


@runtime_checkable
class Device(Protocol):
    """Callable from any thread, except where a method says otherwise."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

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

    def instantiate(self, plan: Plan) -> Executable:
        """Make a plan runnable: bind kernels, compile. May take long; called off the event loop.

        Raises:
            DeviceError: a kernel is not known here.
        """
        ...

    def submit(self, submission: Submission) -> None:
        """Take the work; return at once. Errors are reported, not raised, except DeviceLostError and EngineClosedError."""
        ...

    def run_inline(self, submission: Submission) -> tuple[BaseException | None, int | None]:
        """Run all of it on this thread, now. Returns the error and the index of the call that failed, or (None, None).

        Neither reports nor signals. Only where ``executable.runs_inline``; ``gates`` are empty.
        """
        ...

    def close(self, timeout_s: float) -> bool:
        """Stop taking work, finish what was taken, join threads. True when nothing is left within ``timeout_s``."""
        ...
