"""The CPU device: plans as NumPy calls on a few worker threads.

Law: threads live here and nowhere else below the engine. Workers know submissions, segments and fences; nothing ever
raises out of one.

Logical streams are multiplexed: what waits is a segment, never a thread. A segment that may start lies in one queue
with the segments of all other submissions, so that no replay blocks another at the head of a line. A worker that
finishes a segment keeps the next one of that submission for itself and gives the others away only while somebody is
idle: when other replays keep all workers busy, a worker runs a plan from end to end in issue order, which saves every
hand-over (10 to 110 us each) and needs no other plan (its *narrow form*).
"""

from __future__ import annotations

import functools
import heapq
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from asyncjit.clock import Clock, MonotonicClock
from asyncjit.devices import _blas
from asyncjit.devices._cpu_run import CpuExecutable, CpuRun
from asyncjit.devices._numpy_executor import start_times
from asyncjit.devices._numpy_frame import State
from asyncjit.devices._numpy_memory import Array, array_allocator, empty_array
from asyncjit.devices._numpy_quiet import run_quietly
from asyncjit.devices.base import Capabilities, Submission
from asyncjit.errors import DeviceLostError, DeviceUnavailableError, EngineClosedError
from asyncjit.ops import DTYPES
from asyncjit.plan import Plan

__all__ = ["CpuDevice"]

_logger = logging.getLogger("asyncjit.devices.cpu")

# Below this a hop costs more than it gives: inline wins under 50 us a replay, workers above 50 to 100 us.
INLINE_S_MAX = 50e-6
# A hand-over to an idle worker: 10 to 18 us where its core is awake, 80 to 110 us where it sleeps.
HOP_S = 50e-6


#: One worker's work. A submission with the state it runs with, where there is one segment and no gate; else a run.
Ticket: TypeAlias = tuple[Submission, State] | CpuRun


class CpuDevice:
    """Runs plans on ``workers`` daemon threads (default: as many as the process has cores), started when first needed.

    Segments of different submissions, and independent segments of one, run at the same time. BLAS libraries are
    limited to cores / workers threads, for the whole process, from the first plan to ``close``. NumPy's
    floating-point warnings are off in the workers and inline. Plans estimated below ``inline_s_max`` may run on the
    calling thread; with 0 none does. Times are on ``clock``. Callable from any thread; not
    after a fork.
    """

    def __init__(
        self,
        name: str = "cpu",
        *,
        workers: int | None = None,
        inline_s_max: float = INLINE_S_MAX,
        clock: Clock | None = None,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"device {name!r} needs at least one worker, got workers={workers}")
        self.name = name
        self.workers = workers or _blas.cores()
        self.capabilities = Capabilities(
            streams_max=self.workers,
            segment_calls_first=None,
            submits_ahead=False,
            inline_s_max=inline_s_max,
            hop_s=HOP_S,
        )
        self._clock: Clock = clock or MonotonicClock()
        self._queue: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._hops = [0] * self.workers  # tickets that each worker took; it alone counts them
        self._lock = threading.Lock()
        # Lists as counters: append, pop and len are atomic, with and without the GIL, and cost no lock.
        self._idle: list[None] = []
        self._taken: list[None] = []
        self._closed = False
        self._reserved = False
        self._drained = threading.Event()
        self._dismissed = 0

    def __repr__(self) -> str:
        return f"CpuDevice({self.name!r}, workers={self.workers}, in_flight={len(self._taken)})"

    @property
    def hops(self) -> int:
        return sum(self._hops)

    def allocate(self, nbytes: int) -> Array:
        return empty_array((nbytes,), np.dtype(np.uint8), self.name)

    def allocate_array(self, shape: tuple[int, ...], dtype: str) -> Array:
        return empty_array(shape, DTYPES.get(dtype) or np.dtype(dtype), self.name)

    def array_allocator(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Array]:
        return array_allocator(shape, DTYPES.get(dtype) or np.dtype(dtype), self.name)

    def instantiate(self, plan: Plan, executor: str | None = None) -> CpuExecutable:
        if executor not in (None, "numpy"):
            raise DeviceUnavailableError(
                f"device {self.name!r} has no executor {executor!r}; it has 'numpy'",
                device=self.name,
                executor=executor,
            )
        if not self._reserved:
            # Before the first plan, not the first worker: plans that run inline call BLAS too.
            self._reserved = True
            _blas.try_limit(_blas.reserve, self, self.workers, name=self.name)
        return CpuExecutable(plan, self.name, self.capabilities.inline_s_max)

    def run_inline(self, submission: Submission) -> tuple[BaseException | None, int | None]:
        executable: CpuExecutable = submission.executable
        return run_quietly(executable.run_all, submission, self._clock)

    def skip(self, submission: Submission) -> None:
        submission.skip = True

    def submit(self, submission: Submission) -> None:
        self._taken.append(None)
        try:
            if self._closed:
                raise EngineClosedError(f"device {self.name!r} was closed and takes no more work", device=self.name)
            if not self._threads:
                self._add_worker()
        except BaseException:
            self._give_back()
            raise
        executable: CpuExecutable = submission.executable
        if submission.gates or len(executable.order.successors) > 1:
            start_times(submission)
            self._start(CpuRun(submission, executable), submission)
        else:
            self._put((submission, executable.state))

    def _start(self, run: CpuRun, submission: Submission) -> None:
        """Set the gates and queue what may start at once."""
        gates, order, countdown = submission.gates, run.executable.order, run.countdown
        for segment, fences in gates.items():
            # One more than the fences: until all callbacks are in place, none of them may be the last.
            countdown.hold(segment, len(fences) + 1)
        for segment in order.roots:
            if segment not in gates:
                self._put_segment(run, segment)
        for segment, fences in gates.items():
            opened = 1
            for fence in fences:
                opened += not fence.add_callback(functools.partial(self._open, run, segment))
            self._open(run, segment, opened)

    def _open(self, run: CpuRun, segment: int, count: int = 1) -> None:
        """``count`` gates of the segment have opened. Called by whoever signals a fence, on any thread."""
        with run.lock:
            last = run.countdown.release(segment, count)
        if last:
            self._put_segment(run, segment)

    def _put_segment(self, run: CpuRun, segment: int) -> None:
        with run.lock:
            heapq.heappush(run.ready, segment)
        self._put(run)

    def _put(self, ticket: Ticket) -> None:
        self._queue.put(ticket)
        if len(self._threads) < self.workers:
            self._match_workers()

    def _match_workers(self) -> None:
        """Have a worker for whatever is queued, as far as there may be."""
        if len(self._threads) < self.workers and len(self._idle) < self._queue.qsize():
            try:
                self._add_worker()
            except DeviceLostError:
                _logger.warning("device %r goes on with %d workers", self.name, len(self._threads), exc_info=True)

    def _add_worker(self) -> None:
        with self._lock:
            if len(self._threads) == self.workers or self._closed:
                return
            name = f"asyncjit-{self.name}-{len(self._threads)}"
            thread = threading.Thread(target=self._work, args=(len(self._threads),), name=name, daemon=True)
            # It counts as idle from now on, so that nobody starts a second one for the same ticket.
            self._idle.append(None)
            try:
                thread.start()
            except RuntimeError as error:
                self._idle.pop()
                raise DeviceLostError(
                    f"device {self.name!r} cannot start the thread {name!r}: the system's limit of threads is reached, "
                    "or the interpreter is shutting down",
                    device=self.name,
                ) from error
            self._threads.append(thread)

    def _work(self, number: int) -> None:
        """The life of a worker."""
        np.seterr(all="ignore")
        _blas.try_limit(_blas.join, self, name=self.name)
        while True:
            ticket = self._queue.get()
            self._idle.pop()
            if ticket is None:
                return
            self._hops[number] += 1
            # Somebody may have queued work between the two lines above and taken this worker for an idle one.
            if len(self._threads) < self.workers:
                self._match_workers()
            if isinstance(ticket, CpuRun):
                self._serve(ticket)
            else:
                self._run_whole(*ticket)
            # Hold nothing while idle: it would keep the last replay's arrays alive.
            ticket = None
            self._idle.append(None)

    def _serve(self, run: CpuRun) -> None:
        """Run segments of this run, lowest first, as long as one may start."""
        countdown, submission = run.countdown, run.submission
        if submission is None:
            return
        while (segment := run.take()) is not None:
            self._run_segment(run, submission, segment)
            with run.lock:
                released = countdown.finish(segment)
                for successor, _ in released:
                    heapq.heappush(run.ready, successor)
                finished = countdown.left == 0
            if finished:
                failure, run.submission, run.failure = run.failure, None, None
                self._complete(submission, *(failure or (None, None)))
                return
            # This worker takes one of them itself.
            for _ in released[1:]:
                self._put(run)

    def _run_whole(self, submission: Submission, state: State) -> None:
        """The plan has one segment, or none, and nothing to wait for."""
        if submission.skip:
            self._complete(submission, None, None)
            return
        executable: CpuExecutable = submission.executable
        self._complete(submission, *executable.run_all(submission, self._clock, state, False))

    def _run_segment(self, run: CpuRun, submission: Submission, segment: int) -> bool:
        """Run it, or pass over it; whether it ran to its end."""
        if submission.skip or run.failure is not None:
            return False
        failure = run.executable.run_segment(segment, submission, run.state, self._clock)
        if failure is not None:
            run.failure = failure
        return failure is None

    def _complete(self, submission: Submission, error: BaseException | None, call_index: int | None) -> None:
        try:
            submission.report(submission, error, call_index)
        except BaseException:
            _logger.exception("the report of a submission raised on device %r; its replay may never end", self.name)
        try:
            submission.fence.signal()
        except BaseException:
            _logger.exception("a callback of a fence raised on device %r", self.name)
        self._give_back()

    def _give_back(self) -> None:
        self._taken.pop()
        if self._closed and not self._taken:
            self._drained.set()

    def close(self, timeout_s: float) -> bool:
        """See ``Device.close``. What cannot be finished in time keeps its threads, which are daemons; BLAS gets its
        threads back in any case."""
        deadline_s = time.monotonic() + timeout_s
        with self._lock:
            self._closed = True
        if not self._taken:
            self._drained.set()
        drained = self._drained.wait(timeout_s)
        _blas.release(self)
        if not drained:
            return False
        with self._lock:
            # None tells one worker to go.
            for _ in range(len(self._threads) - self._dismissed):
                self._queue.put(None)
            self._dismissed = len(self._threads)
        others = [thread for thread in self._threads if thread is not threading.current_thread()]
        for thread in others:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        return not any(thread.is_alive() for thread in others)
