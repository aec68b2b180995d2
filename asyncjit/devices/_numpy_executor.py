"""The NumPy executor: a plan as lists of NumPy calls on prepared views; shared by the devices that compute on the CPU.

Law: knows translated plans and memory; knows no thread, no queue, and no clock but the one it is handed. Errors of
kernels are returned, never raised.

Views of intermediates are made once a frame, views of state once a ``bind_state``, views of inputs and outputs once a
replay. A segment is a list of entries ``(function, arguments)``; a replay fills in the arguments that are an input or
an output, runs ``for function, arguments in entries: function(*arguments)``, and takes them out again.
"""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from asyncjit.clock import Clock
from asyncjit.devices._numpy_code import BoundView, PlanCode, SegmentCode, translate
from asyncjit.devices._numpy_memory import Array, ViewSpec, aligned_bytes
from asyncjit.devices.base import Memory, Submission
from asyncjit.errors import InternalError
from asyncjit.plan import Plan

__all__ = ["Bound", "Entry", "NumpyExecutable", "NumpyFrame", "State", "run_entries", "start_times"]

#: One call, ready to be made.
Entry = tuple[Callable[..., object], Sequence[Array]]

# An estimate falls at once and rises by at most this factor a replay: a pre-emption in the middle of one replay says
# nothing about the next, while work that has really grown is believed after a few.
ESTIMATE_GROWTH = 1.25

# Faulting in costs 0.4 us a KiB and a view about 1 us: together at most about 0.5 ms of a loop's time.
CHEAP_FRAME_BYTES = 1 << 20
CHEAP_FRAME_VIEWS = 100

POISON = 0xFF

#: No error, in no call.
_FINE = (None, None)


class State(NamedTuple):
    """What STATE slots are bound to at one time: the memory of each, a view of each operand, and slots still
    unbound."""

    memories: dict[int, tuple[Memory, int]]
    views: tuple[Array, ...]
    missing: tuple[int, ...]


class Bound:
    """A segment in one frame with one state: its entries, and the arguments in them that a replay fills in and takes
    out again, as (arguments, place, index of the view).

    Filled in place: 0.1 us an argument, where making the call's arguments anew takes 0.3 us.
    """

    __slots__ = ("_places", "entries", "state")

    def __init__(self, state: State, entries: list[Entry], places: list[tuple[list[Any], int, int]]) -> None:
        self.state = state
        self.entries = entries
        self._places = places

    def fill(self, views: Sequence[Array]) -> None:
        for arguments, place, index in self._places:
            arguments[place] = views[index]

    def release(self) -> None:
        """Refer to the replay's inputs and outputs no more."""
        for arguments, place, _ in self._places:
            arguments[place] = None


class NumpyFrame:
    """The arena of one replay, faulted in, with the views of all intermediates."""

    __slots__ = ("__weakref__", "_arena", "_bound", "_segments", "_views", "nbytes")

    def __init__(self, segments: Sequence[SegmentCode], specs: Sequence[ViewSpec], arena: Array) -> None:
        # Cold pages cost 1.6 us each, in the first replay if not here.
        arena.fill(0)
        self.nbytes = arena.nbytes
        self._arena = arena
        self._segments = segments
        self._views = [spec.view(arena, 0) for spec in specs]
        self._bound: list[Bound | None] = [None] * len(segments)

    def poison(self) -> None:
        """Overwrite the arena, so that whoever reads what no call wrote gets NaN, -1 or nonsense."""
        self._arena.fill(POISON)

    def forget_state(self) -> None:
        """Drop the views of state that are kept for the next replay. One that runs right now has its own references."""
        for index, segment in enumerate(self._segments):
            if segment.stateful:
                self._bound[index] = None

    def bind(self, segment: int, bindings: Sequence[tuple[Memory, int]], state: State) -> Bound:
        """A segment filled in for one replay; ``release`` it when it has run. One thread at a time for each segment.

        Raises:
            InternalError: a STATE slot was never bound.
        """
        code = self._segments[segment]
        bound = self._bound[segment]
        if bound is None or (bound.state is not state and code.stateful):
            self._bound[segment] = bound = self._prepare(code, state)
        if code.bound:
            views = []
            for slot, natural, dtype, shape, spec in code.bound:
                memory, base = bindings[slot]
                if not natural or base or memory.dtype is not dtype or memory.shape != shape:
                    memory = spec.view(memory, base)
                views.append(memory)
            bound.fill(views)
        return bound

    def _prepare(self, code: SegmentCode, state: State) -> Bound:
        if state.missing:
            raise InternalError(
                f"STATE slots {list(state.missing)} were never bound; call bind_state before the first submission",
                story=(),
            )
        entries: list[Entry] = []
        places: list[tuple[list[Any], int, int]] = []
        for call in code.codes:
            arguments: list[Any] = [None] * (len(call.from_arena) + len(call.from_state) + len(call.from_bindings))
            for place, index in call.from_arena:
                arguments[place] = self._views[index]
            for place, index in call.from_state:
                arguments[place] = state.views[index]
            places += ((arguments, place, index) for place, index in call.from_bindings)
            entries.append((call.function, arguments if call.from_bindings else tuple(arguments)))
        return Bound(state, entries, places)


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
    entries: Sequence[Entry], calls: tuple[int, ...], times: list[tuple[float, float]], clock: Clock
) -> tuple[BaseException, int] | None:
    """The same, and put the times of each call that ran into ``times``, by its index in ``calls``."""
    position = 0
    try:
        for position, (function, arguments) in enumerate(entries):
            start_s = clock.now_s()
            function(*arguments)
            times[calls[position]] = (start_s, clock.now_s())
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

    def create_frame(self) -> NumpyFrame:
        frame = NumpyFrame(self._code.segments, self._code.arena, aligned_bytes(self._arena_nbytes, self._device))
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
        estimated_s = self._estimated_s
        if elapsed_s < estimated_s or (alone and not self._measured):
            self._estimated_s = elapsed_s
        elif alone:
            self._estimated_s = min(elapsed_s, estimated_s * ESTIMATE_GROWTH)
        self._measured = self._measured or alone

    def run_segment(
        self, index: int, submission: Submission, state: State, clock: Clock
    ) -> tuple[BaseException, int | None] | None:
        """Bind a segment and run it; None when all went well, else the error and the index of the call, where one is to
        blame. Raises nothing."""
        try:
            bound = submission.frame.bind(index, submission.bindings, state)
        except Exception as error:
            forget_frame(error)
            return error, None
        calls = self._code.segments[index].calls
        entries, times = bound.entries, submission.times
        failure = run_entries(entries) if times is None else run_entries_timed(entries, calls, times, clock)
        bound.release()
        return None if failure is None else (failure[0], calls[failure[1]])

    def run_all(
        self, submission: Submission, clock: Clock, state: State | None = None, alone: bool = True
    ) -> tuple[BaseException | None, int | None]:
        """Run every segment in issue order on this thread: the narrow form of the plan. Raises nothing.

        ``state``: what to run with, by default what is bound now. ``alone``: see ``observe``.
        """
        if submission.times is not None:
            start_times(submission)
        elif self._lone is not None:
            return self._run_lone(*self._lone, submission.bindings, clock, alone)
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
        bindings: Sequence[tuple[Memory, int]],
        clock: Clock,
        alone: bool,
    ) -> tuple[BaseException | None, int | None]:
        """A plan of one call on inputs and outputs alone, as eager operations are: no entries, no frame."""
        start_s = clock.now_s()
        views = []
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


def _lone_call(code: PlanCode) -> tuple[Callable[..., object], tuple[BoundView, ...]] | None:
    """The function and its arguments in order, where the plan is one call that touches neither arena nor state."""
    if len(code.segments) != 1 or len(code.segments[0].codes) != 1:
        return None
    segment = code.segments[0]
    call = segment.codes[0]
    if call.from_arena or call.from_state:
        return None
    return call.function, tuple(segment.bound[index] for _, index in sorted(call.from_bindings))


def start_times(submission: Submission) -> None:
    """Make the list of times as long as the schedule, where times are wanted."""
    if submission.times is not None:
        submission.times[:] = [(0.0, 0.0)] * len(submission.executable.plan.schedule.calls)
