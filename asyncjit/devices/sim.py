"""The simulated device: real results, virtual time, an order that a seed decides, and faults on demand.

Law: one thread, no waiting, no clock of the machine, no randomness but the seed's. Nothing happens except in ``step``.

A call computes when it *completes*, not when it starts, and everything that may happen at the same virtual time happens
in an order drawn from the seed. So a hazard without an edge gives a wrong result under some seed, as it would on
hardware, and under that seed always. Memory and frames are filled with 0xFF first: what no call wrote shows.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable, Sequence

import numpy as np

from asyncjit.clock import VirtualClock
from asyncjit.devices._faults import CallFault, Fault, Faults, LossFault, MemoryFault
from asyncjit.devices._numpy_executor import NumpyExecutable, run_entries, start_times
from asyncjit.devices._numpy_frame import POISON, Bound, NumpyFrame
from asyncjit.devices._numpy_memory import Array, empty_array
from asyncjit.devices._numpy_quiet import run_quietly
from asyncjit.devices._segments import Countdown, SegmentOrder
from asyncjit.devices._timeline import Timeline, TraceEntry
from asyncjit.devices.base import Capabilities, Memory, Submission
from asyncjit.errors import DeviceUnavailableError, EngineClosedError
from asyncjit.ir import Call, Copy
from asyncjit.plan import Plan

__all__ = ["CallFault", "Fault", "LossFault", "MemoryFault", "SimDevice", "TraceEntry"]

_logger = logging.getLogger("asyncjit.devices.sim")


class SimExecutable(NumpyExecutable):
    def __init__(self, plan: Plan, device: SimDevice, inline_s_max: float, allocate: Callable[[int], None]) -> None:
        super().__init__(plan, device.name, inline_s_max)
        self.order = SegmentOrder(plan)
        self.durations_s = [device.duration(call) for call in plan.schedule.calls]
        self._estimated_s = sum(self.durations_s)
        self._allocate = allocate

    def observe(self, elapsed_s: float, alone: bool) -> None:
        """Virtual durations are known; there is nothing to learn."""

    def create_frame(self, arena: Memory | None = None) -> NumpyFrame:
        if arena is None:
            self._allocate(self._arena_nbytes)
        return super().create_frame(arena)


class _Run:
    __slots__ = ("countdown", "executable", "failure", "gates_left", "number", "state", "submission")

    def __init__(self, submission: Submission, executable: SimExecutable, number: int) -> None:
        self.submission = submission
        self.executable = executable
        self.number = number
        self.state = executable.state
        self.countdown = Countdown(executable.order)
        self.gates_left = 0
        self.failure: tuple[BaseException, int | None] | None = None


class SimDevice:
    """A device for tests. Driven by ``step`` or ``run_until_idle``, or by itself through ``defer``.

    seed: decides every order that is open. streams_max: what it claims in ``capabilities``. workers: segments that run
    at the same time at most; None for no limit. hop_s: virtual seconds from the end of a segment to the release of one
    on another stream that waits for it. duration: virtual seconds of a call (default: 1). defer: called with a function
    whenever there is something to do; it must have that called soon, on the same thread and not at once
    (``loop.call_soon``). call_at: instead, called with a virtual time and a function, which it must have called
    then; ``clock`` is others' to move (``asyncjit.testing.VirtualTime``). inline_s_max: 0 forbids inline replays, which
    take no virtual time. poison: fill memory and frames with 0xFF. ``trace`` lists what happened. Thread: one.
    """

    def __init__(
        self,
        name: str = "sim",
        *,
        seed: int = 0,
        streams_max: int = 4,
        workers: int | None = None,
        hop_s: float = 0.0,
        duration: Callable[[Call | Copy], float] = lambda call: 1.0,
        defer: Callable[[Callable[[], None]], object] | None = None,
        call_at: Callable[[float, Callable[[], None]], object] | None = None,
        faults: Sequence[Fault] = (),
        inline_s_max: float = 0.0,
        submits_ahead: bool = False,
        poison: bool = True,
        clock: VirtualClock | None = None,
    ) -> None:
        self.name = name
        self.duration = duration
        self.clock = clock or VirtualClock()
        self.trace: list[TraceEntry] = []
        self.capabilities = Capabilities(
            streams_max=streams_max,
            segment_calls_first=None,
            submits_ahead=submits_ahead,
            inline_s_max=inline_s_max,
            hop_s=hop_s,
        )
        self._workers = workers
        self._poison = poison
        self._faults = Faults(name, faults)
        self._lost = False
        self._closed = False
        self._numbers = itertools.count()
        self._timeline = Timeline(self.clock, seed, self.step, defer, call_at)
        self._waiting: list[tuple[_Run, int]] = []
        self._running = self.hops = 0
        self._live: dict[int, _Run] = {}

    @property
    def now_s(self) -> float:
        return self.clock.now_s()

    def allocate(self, nbytes: int) -> Array:
        return self.allocate_array((nbytes,), "uint8")

    def allocate_array(self, shape: tuple[int, ...], dtype: str) -> Array:
        array = empty_array(shape, np.dtype(dtype), self.name)
        self._faults.count_allocation(array.nbytes)
        if self._poison:
            np.ndarray((array.nbytes,), np.uint8, array).fill(POISON)
        return array

    def array_allocator(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Array]:
        return functools.partial(self.allocate_array, shape, dtype)

    def instantiate(self, plan: Plan, executor: str | None = None) -> SimExecutable:
        if executor not in (None, "numpy"):
            raise DeviceUnavailableError(
                f"device {self.name!r} has no executor {executor!r}; it has 'numpy'",
                device=self.name,
                executor=executor,
            )
        return SimExecutable(plan, self, self.capabilities.inline_s_max, self._faults.count_allocation)

    def run_inline(self, submission: Submission) -> tuple[BaseException | None, int | None]:
        executable: SimExecutable = submission.executable
        self._prepare(submission)
        self._note("inline", next(self._numbers))
        return run_quietly(executable.run_all, submission, self.clock)

    def skip(self, submission: Submission) -> None:
        submission.skip = True

    def submit(self, submission: Submission) -> None:
        if self._closed:
            raise EngineClosedError(f"device {self.name!r} was closed and takes no more work", device=self.name)
        if self._lost or self.now_s >= self._faults.lost_at_s:
            raise self._faults.loss()
        self._prepare(submission)
        run = _Run(submission, submission.executable, next(self._numbers))
        self._live[run.number] = run
        self._note("submitted", run.number)
        for segment, fences in submission.gates.items():
            run.countdown.hold(segment, len(fences))
            run.gates_left += len(fences)
        for segment in [root for root in run.executable.order.roots if root not in submission.gates]:
            self._timeline.add(0.0, functools.partial(self._ready, run, segment))
        for segment, fences in submission.gates.items():
            for fence in fences:
                opened = functools.partial(self._open, run, segment)
                if not fence.add_callback(opened):
                    opened()
        if run.countdown.left == 0:
            self._timeline.add(0.0, functools.partial(self._complete, run))

    def close(self, timeout_s: float) -> bool:
        """Takes no work any more and runs what it has taken, now; False when something waits for a gate for ever."""
        self._closed = True
        self.run_until_idle()
        return not self._live

    def step(self) -> bool:
        """Let the next thing happen; False when there is none."""
        next_s = self._timeline.next_s
        if next_s is None:
            return False
        if next_s >= self._faults.lost_at_s and not self._lost:
            self._lose()
        else:
            self._timeline.pop()()
        return True

    def run_until_idle(self) -> None:
        """Let everything happen that can happen without the outside."""
        while self.step():
            pass

    def _note(self, kind: str, submission: int, segment: int = -1, call: int = -1) -> None:
        self.trace.append(TraceEntry(self.now_s, kind, submission, segment, call))

    def _prepare(self, submission: Submission) -> None:
        start_times(submission)
        if self._poison:
            submission.frame.poison()

    def _open(self, run: _Run, segment: int) -> None:
        """A gate of the segment has opened."""
        run.gates_left -= 1
        if not self._lost:
            self._release(run, segment)
        elif run.gates_left == 0:
            self._complete(run)

    def _release(self, run: _Run, segment: int) -> None:
        if run.countdown.release(segment):
            self._timeline.add(0.0, functools.partial(self._ready, run, segment))

    def _ready(self, run: _Run, segment: int) -> None:
        self._waiting.append((run, segment))
        self._start_segments()

    def _start_segments(self) -> None:
        while self._waiting and (self._workers is None or self._running < self._workers):
            self._running += 1
            run, segment = self._waiting.pop(self._timeline.random.randrange(len(self._waiting)))
            if run.submission.skip or run.failure is not None:
                self._note("segment skipped", run.number, segment)
                self._end_segment(run, segment)
            else:
                self.hops += 1
                self._note("segment started", run.number, segment)
                self._bind(run, segment)

    def _bind(self, run: _Run, segment: int) -> None:
        try:
            bound = run.submission.frame.bind(segment, run.submission.bindings, run.state, run.submission.values)
        except Exception as error:
            run.failure = run.failure or (error, None)
            self._end_segment(run, segment)
        else:
            self._begin_call(run, segment, bound, 0)

    def _begin_call(self, run: _Run, segment: int, bound: Bound, position: int) -> None:
        if position == len(bound.entries):
            bound.release()
            self._note("segment done", run.number, segment)
            self._end_segment(run, segment)
            return
        duration_s = run.executable.durations_s[run.executable.plan.segments[segment].calls[position]]
        self._timeline.add(duration_s, functools.partial(self._end_call, run, segment, bound, position))

    def _end_call(self, run: _Run, segment: int, bound: Bound, position: int) -> None:
        call = run.executable.plan.segments[segment].calls[position]
        error = self._faults.of_call(run.number, call)
        if error is None:
            error, _ = run_quietly(run_entries, bound.entries[position : position + 1]) or (None, 0)
        if error is not None:
            bound.release()
            self._note("call failed", run.number, segment, call)
            run.failure = run.failure or (error, call)
            self._end_segment(run, segment)
            return
        self._note("call done", run.number, segment, call)
        if run.submission.times is not None:
            run.submission.times[call] = (self.now_s - run.executable.durations_s[call], self.now_s, 0)
        self._begin_call(run, segment, bound, position + 1)

    def _end_segment(self, run: _Run, segment: int) -> None:
        self._running -= 1
        run.countdown.left -= 1
        for successor, same_stream in run.executable.order.successors[segment]:
            if same_stream or self.capabilities.hop_s == 0.0:
                self._release(run, successor)
            else:
                self._timeline.add(self.capabilities.hop_s, functools.partial(self._release, run, successor))
        if run.countdown.left == 0:
            self._complete(run)
        if self._waiting:
            self._timeline.add(0.0, self._start_segments)

    def _complete(self, run: _Run) -> None:
        del self._live[run.number]
        self._note("reported", run.number)
        try:
            run.submission.report(run.submission, *(run.failure or (self._faults.loss() if self._lost else None, None)))
        except Exception:
            _logger.exception("the report of submission %d raised on device %r", run.number, self.name)
        finally:
            run.submission.fence.signal()

    def _lose(self) -> None:
        """Nothing that was to happen happens any more; who still waits for gates ends after them, the others now."""
        self.clock.advance_to(max(self.now_s, self._faults.lost_at_s))
        self._lost = True
        self._note("lost", -1)
        self._timeline.clear()
        self._waiting.clear()
        for run in list(self._live.values()):
            # The end of another may have opened its last gate meanwhile, and so have ended it.
            if run.gates_left == 0 and run.number in self._live:
                self._complete(run)
