"""The NumPy executor: a plan as lists of NumPy calls on prepared views; shared by the devices that compute on the CPU.

Law: knows translated plans and memory; knows no thread, no queue, and no clock but the one it is handed. Errors of
kernels are returned, never raised.

A segment is a list of entries (see ``_numpy_frame``); it runs as ``for function, arguments in entries:
function(*arguments)``.
"""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Callable, Sequence

from asyncjit.clock import Clock
from asyncjit.devices._numpy_code import BoundView, PlanCode, translate
from asyncjit.devices._numpy_frame import Entry, NumpyFrame, State
from asyncjit.devices._numpy_memory import aligned_bytes
from asyncjit.devices.base import Memory, Submission
from asyncjit.errors import InternalError
from asyncjit.plan import Plan

__all__ = ["NumpyExecutable", "run_entries", "start_times"]

# An estimate falls at once and rises by at most this factor a replay: a pre-emption in the middle of one replay says
# nothing about the next, while work that has really grown is believed after a few.
ESTIMATE_GROWTH = 1.25

# Faulting in costs 0.4 us a KiB and a view about 1 us: together at most about 0.5 ms of a loop's time.
CHEAP_FRAME_BYTES = 1 << 20
CHEAP_FRAME_VIEWS = 100

#: No error, in no call.
_FINE = (None, None)


def run_entries(entries: Sequence[Entry]) -> tuple[BaseException, int] | None:
    """Make the calls in order; the error of the first that raises, and its position. Whatever it is: a worker outlives
    its kernels."""
    # The iterator knows how far it is, so that the loop need not count.
    steps = iter(entries)
    try:
        for function, arguments in steps:
            function(*arguments)
    except BaseException as error:
        forget_frame(error)
        return error, len(entries) - operator.length_hint(steps) - 1
    return None


def run_entries_timed(
    entries: Sequence[Entry], calls: tuple[int, ...], times: list[tuple[float, float, int] | None], clock: Clock
) -> tuple[BaseException, int] | None:
    """The same, and put times and thread of each call that ran into ``times``, by its index in ``calls``."""
    position, thread = 0, threading.get_native_id()
    try:
        for position, (function, arguments) in enumerate(entries):
            start_s = clock.now_s()
            function(*arguments)
            times[calls[position]] = (start_s, clock.now_s(), thread)
    except BaseException as error:
        forget_frame(error)
        return error, position
    return None


def forget_frame(error: BaseException) -> None:
    """Cut the frame of whoever caught ``error`` off its traceback: its locals hold the arrays of a replay, which an
    error that somebody keeps would keep alive."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


class NumpyExecutable:
    """A plan as NumPy calls; see ``devices.base.Executable``. Callable from any thread."""

    def __init__(self, plan: Plan, device: str, inline_s_max: float) -> None:
        self.plan = plan
        self._device = device
        self._inline_s_max = inline_s_max
        self._code = translate(plan)
        self._lone = _lone_call(self._code)
        self._segments_range = range(len(self._code.segments))
        self._arena_nbytes = plan.frame_nbytes.get(device, 0)
        self._lock = threading.Lock()
        self._frames: list[weakref.ref[NumpyFrame]] = []
        self._estimated_s = self._code.estimated_s
        self._measured = False
        #: What submissions made now run with; replaced, never changed.
        self.state = self._state_of({})

    @property
    def estimated_s(self) -> float:
        return self._estimated_s

    @property
    def runs_inline(self) -> bool:
        return self._estimated_s < self._inline_s_max and not self._code.runs_user_code

    @property
    def frames_are_cheap(self) -> bool:
        return self._arena_nbytes <= CHEAP_FRAME_BYTES and len(self._code.arena) <= CHEAP_FRAME_VIEWS

    def create_frame(self, arena: Memory | None = None) -> NumpyFrame:
        memory = aligned_bytes(self._arena_nbytes, self._device) if arena is None else arena
        frame = NumpyFrame(self._code.segments, self._code.arena, memory, arena is not None)
        if self._code.state:
            with self._lock:
                self._frames = [reference for reference in self._frames if reference() is not None]
                self._frames.append(weakref.ref(frame))
        return frame

    def bind_state(self, bindings: Sequence[tuple[int, Memory, int]]) -> None:
        with self._lock:
            memories = self.state.memories | {slot: (memory, offset) for slot, memory, offset in bindings}
            self.state = self._state_of(memories)
            for reference in self._frames:
                frame = reference()
                if frame is not None:
                    frame.forget_state()

    def _state_of(self, memories: dict[int, tuple[Memory, int]]) -> State:
        specs = self._code.state
        missing = tuple(sorted({slot for slot, _ in specs if slot not in memories}))
        return State(memories, () if missing else tuple(spec.view(*memories[slot]) for slot, spec in specs), missing)

    def observe(self, elapsed_s: float, alone: bool) -> None:
        """Learn from one replay that ran on one thread in one go. ``alone``: on the calling thread; on a worker the
        time includes waits for the GIL, so that there it can only show that the plan is faster than thought."""
        if elapsed_s < self._estimated_s or (alone and not self._measured):
            self._estimated_s = elapsed_s
        elif alone:
            self._estimated_s = min(elapsed_s, self._estimated_s * ESTIMATE_GROWTH)
        self._measured = self._measured or alone

    def run_segment(
        self, index: int, submission: Submission, state: State, clock: Clock
    ) -> tuple[BaseException, int | None] | None:
        """Bind a segment and run it; None when all went well, else the error and the index of the call, where one is to
        blame. Raises nothing."""
        try:
            bound = submission.frame.bind(index, submission.bindings, state, submission.values)
        except Exception as error:
            forget_frame(error)
            return _misfit(index, error), None
        calls = self._code.segments[index].calls
        entries, times = bound.entries, submission.times
        failure = run_entries(entries) if times is None else run_entries_timed(entries, calls, times, clock)
        bound.release()
        return None if failure is None else (failure[0], calls[failure[1]])

    def run_all(
        self, submission: Submission, clock: Clock, state: State | None = None, alone: bool = True
    ) -> tuple[BaseException | None, int | None]:
        """Run every segment in issue order on this thread, the narrow form of the plan, with ``state`` or what is bound
        now. Raises nothing. ``alone``: see ``observe``."""
        if submission.times is not None:
            start_times(submission)
        elif self._lone is not None:
            return self._run_lone(*self._lone, submission, clock, alone)
        state = state or self.state
        start_s = clock.now_s()
        for index in self._segments_range:
            failure = self.run_segment(index, submission, state, clock)
            if failure is not None:
                return failure
        self.observe(clock.now_s() - start_s, alone)
        return _FINE

    def _run_lone(
        self,
        function: Callable[..., object],
        arguments: Sequence[BoundView],
        submission: Submission,
        clock: Clock,
        alone: bool,
    ) -> tuple[BaseException | None, int | None]:
        """A plan of one call on inputs and outputs alone, as eager operations are: no entries, no frame."""
        bindings, start_s, views = submission.bindings, clock.now_s(), []
        try:
            for slot, natural, dtype, shape, spec in arguments:
                memory, base = bindings[slot]
                if not natural or base or memory.dtype is not dtype or memory.shape != shape:
                    memory = spec.view(memory, base)
                views.append(memory)
            function(*views)
        except BaseException as error:
            forget_frame(error)
            return error, 0
        self.observe(clock.now_s() - start_s, alone)
        return _FINE


def _misfit(segment: int, error: Exception) -> Exception:
    """Why views could not be made, which NumPy says in these ways where memory is too small for them."""
    if not isinstance(error, TypeError | ValueError | OverflowError):
        return error
    failure = InternalError(f"segment {segment} does not fit the memory that it was bound to: {error}", story=())
    failure.__cause__ = error
    return failure


def _lone_call(code: PlanCode) -> tuple[Callable[..., object], tuple[BoundView, ...]] | None:
    """The function and its arguments in order, where the plan is one call that touches neither arena nor state."""
    if len(code.segments) != 1 or len(code.segments[0].codes) != 1:
        return None
    segment = code.segments[0]
    call = segment.codes[0]
    if call.from_arena or call.from_state or call.from_late:
        return None
    return call.function, tuple(segment.bound[index] for _, index in sorted(call.from_bindings))


def start_times(submission: Submission) -> None:
    """Make the list of times as long as the schedule, where times are wanted."""
    if submission.times is not None:
        submission.times[:] = [None] * len(submission.executable.plan.schedule.calls)
