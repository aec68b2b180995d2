"""The scheduler: the whole contract of order, first calls, cancellation, failure and limits; no clock, no thread.

Law: ``step(stimulus) -> list[Command]`` is the one door; a stimulus in, commands out, nothing else happens. No asyncio,
no threads, no time, no devices, no arrays. Callers serialise their calls of ``step``. Imports ``flow`` and below.

Theory of operation. Every call takes a ticket; accesses enter the ledger in ticket order, so that each run knows the
unfinished runs that must come first (its predecessors), from which segment on it must wait for them, and from which of
them it reads (its needs). A replay is a transaction: what others wait for is its end, so nobody sees a part of it. A
run is admitted when its group has room and no predecessor blocks it; predecessors always hold lower tickets, hence the
lowest ticket can always go on and nothing deadlocks. A failed run stains what it writes: whoever reads that fails,
whoever overwrites it heals it. A run that is removed before it started is taken out of the ledger as if it had never
been called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from asyncjit import refusals
from asyncjit.deps import ReadSet, Region
from asyncjit.errors import AsyncJitError, EngineBusyError, InternalError
from asyncjit.flow import Flow
from asyncjit.runs import (
    FINISHED,
    STARTED,
    TRANSITIONS,
    Admitted,
    Arrive,
    BeginCapture,
    BufferFreed,
    CancelRequested,
    Captured,
    CaptureFailed,
    CaptureTurn,
    Close,
    CloseDeadline,
    Command,
    DeviceLost,
    Reject,
    Release,
    ReleaseWaiter,
    Resolve,
    Run,
    RunDone,
    RunFailed,
    Start,
    State,
    Stimulus,
    Submit,
    WaitCancelled,
    WaitStarted,
)

__all__ = ["TRANSITIONS", "Scheduler", "SchedulerStatistics"]


@dataclass(frozen=True, slots=True)
class SchedulerStatistics:
    """Counts since the scheduler was made; ``queued``, ``in_flight`` and ``tracker_entries`` are of this moment."""

    tickets: int
    queued: int
    in_flight: int
    in_flight_peak: int
    done: int
    failed: int
    dropped: int
    inline: int
    waits: int
    tracker_entries: int


class Scheduler(Flow):
    """Run state of one engine.

    ``replays_queued_max`` and ``memory_bytes_max`` are the limits beyond which calls are rejected. ``devices_ahead``
    take work whose first segment still waits (see device capabilities).
    """

    def __init__(
        self,
        *,
        replays_queued_max: int = 10_000,
        memory_bytes_max: int | None = None,
        devices_ahead: Iterable[str] = (),
    ) -> None:
        super().__init__(devices_ahead)
        self._replays_queued_max = replays_queued_max
        self._memory_bytes_max = memory_bytes_max
        #: Runs in ticket order from the first one whose footprint is unknown; empty when none is.
        self._arrivals: deque[Run] = deque()
        #: By group and signature: the run that captures, then those that wait for it.
        self._captures: dict[Hashable, deque[Run]] = {}
        self._is_closed = False
        self._is_past_deadline = False
        self._inline = 0
        self._handlers: dict[type[Stimulus], Callable[[Any, list[Command]], None]] = {
            Arrive: self._on_arrive,
            Submit: self._on_submit,
            Captured: self._on_captured,
            CaptureFailed: self._on_capture_failed,
            RunDone: self._on_run_done,
            RunFailed: self._on_run_failed,
            WaitStarted: self._on_wait_started,
            WaitCancelled: self._on_wait_cancelled,
            CancelRequested: self._on_cancel_requested,
            DeviceLost: self._on_device_lost,
            BufferFreed: self._on_buffer_freed,
            Close: self._on_close,
            CloseDeadline: self._on_close_deadline,
        }

    # The one door, and what can be seen from outside.

    def step(self, stimulus: Stimulus) -> list[Command]:
        """Take one stimulus and return what is to be done about it, in order.

        Raises:
            InternalError: the stimulus has no rule, or the table does not allow it in the run's state.
        """
        handler = self._handlers.get(type(stimulus))
        if handler is None:
            raise InternalError(f"no rule for {stimulus!r}", story=self.story())
        commands: list[Command] = []
        handler(stimulus, commands)
        if self._ledger.is_stale:
            self._relink(commands)
        if self._groups_to_admit:
            self._admit(commands)
        return commands

    def read_set(self, regions: Iterable[Region]) -> ReadSet[Run]:
        """One entry for all state that a plan only reads."""
        return self._ledger.tracker.read_set(regions)

    def drop_read_set(self, read_set: ReadSet[Run]) -> None:
        """No run will use it any more; those that do have ended."""
        self._ledger.tracker.drop_read_set(read_set)

    def statistics(self) -> SchedulerStatistics:
        return SchedulerStatistics(
            tickets=self._tickets,
            queued=self._queued,
            in_flight=self._in_flight,
            in_flight_peak=self._in_flight_peak,
            done=self._ended[State.DONE],
            failed=self._ended[State.FAILED],
            dropped=self._ended[State.DROPPED],
            inline=self._inline,
            waits=self._waits,
            tracker_entries=self._ledger.tracker.entry_count + len(self._ledger.stains),
        )

    @property
    def is_idle(self) -> bool:
        """Nothing is queued, captured or running."""
        return not self._ledger.live and not self._in_flight

    def verify(self) -> None:
        """Check the invariants; tests call it after steps and at teardown. Not between an inline Start and its outcome.

        Raises:
            InternalError: one does not hold; the story is attached.
        """

        def check(condition: bool, message: str) -> None:
            if not condition:
                raise InternalError(message, story=self.story())

        self._verify_flow(check)
        for run in self._ledger.live.values():
            check(run.recorded or bool(self._arrivals), f"{run} is not in the ledger")
        check(not self._arrivals or self._arrivals[0].state is State.CAPTURING, "arrivals wait for nothing")

    # Arrival.

    def _on_arrive(self, stimulus: Arrive, commands: list[Command]) -> None:
        run = stimulus.run
        key = run.signature = (run.group, stimulus.signature)
        waiting = self._captures.get(key)
        error = self._refusal(run, 0, 0)
        if error is None and waiting and self._is_queue_full(run):
            error = self._queue_error(run)
        if error is not None:
            commands.append(Reject(run, error))
            return
        self._take_ticket(run)
        self._arrivals.append(run)
        if waiting is None:
            self._captures[key] = deque([run])
            self._enter_state(run, Arrive, State.CAPTURING)
            commands.append(BeginCapture(run))
        else:
            waiting.append(run)
            self._enter_state(run, Arrive, State.AWAITING_CAPTURE)
            self._count_queued(run, 1)

    def _on_submit(self, stimulus: Submit, commands: list[Command]) -> None:
        run, group = stimulus.run, stimulus.run.group
        error = self._refusal(run, stimulus.memory_bytes, stimulus.new_bytes)
        if error is not None:
            commands.append(Reject(run, error))
            return
        if self._arrivals:
            self._submit_behind_captures(run, commands)
            return
        run.ticket = self._tickets + 1
        source = None if self._ledger.is_untouched(run) else self._ledger.look(run)
        room = not group.ready and (group.in_flight_max is None or group.running < group.in_flight_max)
        if stimulus.inline and room and source is None and not run.predecessors and run.device not in self._lost:
            self._tickets += 1
            self._inline += 1
            self._count_in_flight(group)
            self._enter_state(run, Admitted, State.RUNNING)
            commands.append(Start(run, {}, True))
            return
        blockers = self._count_blockers(run)
        if (blockers or not room) and self._is_queue_full(run):
            self._ledger.unlink(run)
            run.ticket = 0
            commands.append(Reject(run, self._queue_error(run)))
            return
        self._take_ticket(run)
        self._enter_state(run, Submit, State.QUEUED)
        self._count_queued(run, 1)
        self._enter(run, source, commands)

    def _submit_behind_captures(self, run: Run, commands: list[Command]) -> None:
        if self._is_queue_full(run):
            commands.append(Reject(run, self._queue_error(run)))
            return
        self._take_ticket(run)
        self._enter_state(run, Submit, State.QUEUED)
        self._count_queued(run, 1)
        self._arrivals.append(run)

    def _refusal(self, run: Run, memory_bytes: int, new_bytes: int) -> AsyncJitError | None:
        if self._is_closed:
            return refusals.closed_at_call(run)
        limit = self._memory_bytes_max
        if limit is not None and memory_bytes + new_bytes > limit:
            return refusals.memory_full(run, memory_bytes, new_bytes, limit)
        return None

    def _is_queue_full(self, run: Run) -> bool:
        return self._queued_counted >= self._replays_queued_max and not run.group.exempt

    def _queue_error(self, run: Run) -> EngineBusyError:
        return refusals.queue_full(run, self._queued_counted, self._replays_queued_max)

    # First calls: one capture a signature at a time, tickets in arrival order.

    def _on_captured(self, stimulus: Captured, commands: list[Command]) -> None:
        run, limit = stimulus.run, self._memory_bytes_max
        self._move(run, Captured)
        self._count_queued(run, 1)
        self._next_capture(run, commands)
        if self._is_past_deadline:
            self._fail([(run, CloseDeadline, refusals.closed_before_start(run))], commands)
        elif run.cancelled or (run.unwanted and not self._is_read(run)):
            self._remove(run, refusals.cancelled(run), commands)
        elif limit is not None and stimulus.memory_bytes + stimulus.new_bytes > limit:
            self._remove(run, refusals.memory_full(run, stimulus.memory_bytes, stimulus.new_bytes, limit), commands)
        self._pump_arrivals(commands)

    def _on_capture_failed(self, stimulus: CaptureFailed, commands: list[Command]) -> None:
        run = stimulus.run
        self._move(run, CaptureFailed)
        run.error = stimulus.error
        del self._ledger.live[run.ticket]
        commands.append(Resolve(run))
        self._next_capture(run, commands)
        self._pump_arrivals(commands)

    def _next_capture(self, run: Run, commands: list[Command]) -> None:
        waiting = self._captures[run.signature]
        waiting.popleft()
        if not waiting:
            del self._captures[run.signature]
            return
        self._move(waiting[0], CaptureTurn)
        self._count_queued(waiting[0], -1)
        commands.append(BeginCapture(waiting[0]))

    def _leave_captures(self, run: Run) -> None:
        if run.state is State.AWAITING_CAPTURE:
            self._captures[run.signature].remove(run)

    def _pump_arrivals(self, commands: list[Command]) -> None:
        """Let those go on that stood behind a capture. A run that ended while it stood there is passed over."""
        while self._arrivals and self._arrivals[0].state is not State.CAPTURING:
            run = self._arrivals.popleft()
            if run.state is State.QUEUED:
                source = self._ledger.look(run)
                self._count_blockers(run)
                self._enter(run, source, commands)

    # Outcomes.

    def _on_run_done(self, stimulus: RunDone, commands: list[Command]) -> None:
        run = stimulus.run
        if run.state in FINISHED:
            self._check_late(run)
            return
        if run.state is State.DOOMED:
            assert run.error is not None
            self._fail([(run, RunDone, run.error)], commands)
            return
        self._move(run, RunDone)
        commands.append(Release(run))
        commands.append(Resolve(run))
        self._ledger.release(run)
        self._leave_flight(run.group)
        if run.successors:
            self._release_successors(run, started=True)

    def _on_run_failed(self, stimulus: RunFailed, commands: list[Command]) -> None:
        run = stimulus.run
        if run.state in FINISHED:
            self._check_late(run)
            return
        error = stimulus.error if run.error is None else run.error
        self._fail([(run, RunFailed, error)], commands)

    def _check_late(self, run: Run) -> None:
        if run.device not in self._lost:
            raise InternalError(f"a second outcome for {run}", story=self.story(run))

    # Waiting and cancelling.

    def _on_wait_started(self, stimulus: WaitStarted, commands: list[Command]) -> None:
        run = stimulus.run
        run.waiters += 1
        run.unwanted = False
        if run.state is State.ABANDONED:
            self._move(run, WaitStarted)

    def _on_wait_cancelled(self, stimulus: WaitCancelled, commands: list[Command]) -> None:
        run = stimulus.run
        unwanted = run.waiters == 1 and not stimulus.held
        if run.state in STARTED:
            assert run.footprint is not None
            if run.group.on_cancel == "shield" and not run.footprint.is_pure:
                return
            if unwanted and run.state is State.RUNNING:
                self._move(run, WaitCancelled)
        run.waiters -= 1
        commands.append(ReleaseWaiter(run))
        if run.state is State.CAPTURING:
            run.unwanted = unwanted
        elif unwanted and run.state in (State.QUEUED, State.AWAITING_CAPTURE) and not self._is_read(run):
            self._leave_captures(run)
            self._remove(run, refusals.cancelled(run), commands)

    def _on_cancel_requested(self, stimulus: CancelRequested, commands: list[Command]) -> None:
        run = stimulus.run
        if run.state is State.CAPTURING:
            run.cancelled = True
        elif run.state in (State.QUEUED, State.AWAITING_CAPTURE):
            self._leave_captures(run)
            self._remove(run, refusals.cancelled(run), commands)

    def _is_read(self, run: Run) -> bool:
        """Whether another call was given outputs of the run, so that it is wanted whoever waits."""
        outputs = frozenset(run.outputs)
        return bool(outputs) and any(other.is_bound_to(outputs) for other in (*run.successors, *self._arrivals))

    # The world.

    def _on_device_lost(self, stimulus: DeviceLost, commands: list[Command]) -> None:
        if stimulus.device in self._lost:
            return
        error = refusals.device_lost(stimulus.device, stimulus.error)
        self._lost[stimulus.device] = error
        live = self._ledger.live.values()
        self._fail(
            [(run, DeviceLost, error) for run in live if run.device == stimulus.device and run.recorded], commands
        )

    def _on_buffer_freed(self, stimulus: BufferFreed, commands: list[Command]) -> None:
        self._ledger.forget(stimulus.key)

    def _on_close(self, stimulus: Close, commands: list[Command]) -> None:
        self._is_closed = True

    def _on_close_deadline(self, stimulus: CloseDeadline, commands: list[Command]) -> None:
        self._is_closed = self._is_past_deadline = True
        waiting = [run for run in self._ledger.live.values() if run.state in (State.QUEUED, State.AWAITING_CAPTURE)]
        for run in waiting:
            self._leave_captures(run)
        self._fail([(run, CloseDeadline, refusals.closed_before_start(run)) for run in waiting], commands)
