"""The scheduler: the whole contract of order, first calls, cancellation, failure and limits; no clock, no thread.

Law: ``step(stimulus) -> list[Command]`` is the one door; a stimulus in, commands out, nothing else happens. No asyncio,
no threads, no time, no devices, no arrays. Callers serialise their calls of ``step``. Imports ``arrival`` and below.

Theory of operation. Every call takes a ticket; accesses enter the ledger in ticket order, so that each run knows the
unfinished runs that must come first (its predecessors), from which segment on it must wait for them, and from which of
them it reads (its needs). A replay is a transaction: what others wait for is its end, so nobody sees a part of it. A
run is admitted when its group has room and no predecessor blocks it; predecessors always hold lower tickets, hence the
lowest ticket can always go on and nothing deadlocks. A failed run stains what it writes: whoever reads that fails,
whoever overwrites it heals it. A run that is removed before it started is taken out of the ledger as if it had never
been called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from asyncjit import refusals
from asyncjit.arrival import Arrival
from asyncjit.deps import ReadSet, Region
from asyncjit.errors import DependencyError, InternalError
from asyncjit.runs import (
    FINISHED,
    STARTED,
    TRANSITIONS,
    Arrive,
    BufferFreed,
    CancelRequested,
    Captured,
    CaptureFailed,
    Close,
    CloseDeadline,
    Command,
    DeviceLost,
    Release,
    ReleaseWaiter,
    Resolve,
    Run,
    RunDone,
    RunFailed,
    State,
    Stimulus,
    Submit,
    WaitCancelled,
    WaitStarted,
)

__all__ = ["TRANSITIONS", "Scheduler", "SchedulerStatistics"]

_DONE = State.DONE


@dataclass(frozen=True, slots=True)
class SchedulerStatistics:
    """Counts since the scheduler was made; ``queued``, ``in_flight`` and ``tracker_entries`` are of this moment.

    ``waits``: pairs of a run and an earlier one that it had to follow. ``gates``: those where the earlier one had not
    ended when the later one started, so that the device has to wait; ``gates_avoided``: those where it had.
    """

    tickets: int
    queued: int
    in_flight: int
    in_flight_peak: int
    done: int
    failed: int
    dropped: int
    inline: int
    waits: int
    gates: int
    gates_avoided: int
    tracker_entries: int


class Scheduler(Arrival):
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
        super().__init__(
            replays_queued_max=replays_queued_max, memory_bytes_max=memory_bytes_max, devices_ahead=devices_ahead
        )
        self._done_at_once = 0
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

    @property
    def is_quiet(self) -> bool:
        """Nothing is under way, wrong or limited, so that an inline run would be admitted whatever it touches."""
        ledger = self._ledger
        return not (ledger.live or ledger.stains.by_key or self._captures or self._is_restricted)

    @property
    def is_certain(self) -> bool:
        """What each run writes is known: none that has its ticket is still being recorded, or waits for that."""
        return not self._arrivals

    @property
    def latest_ticket(self) -> int:
        return self._tickets

    def step_at_once(self, run: Run) -> None:
        """Take note of an inline run that was made, and did well, while ``is_quiet``.

        The same as ``step(Submit(run, inline=True))`` and then ``step(RunDone(run))``, whose commands would be to start
        it and nothing: the commonest pair of steps by far, at a tenth of the cost. The caller has let no other step
        come in between. A run that failed takes the two steps.
        """
        self._tickets = run.ticket = ticket = self._tickets + 1
        self._inline += 1
        self._done_at_once += 1
        run.state = _DONE
        self._story.append(ticket)

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
            in_flight_peak=max(self._in_flight_peak, min(self._done_at_once, 1)),
            done=self._ended[State.DONE] + self._done_at_once,
            failed=self._ended[State.FAILED],
            dropped=self._ended[State.DROPPED],
            inline=self._inline,
            waits=self._waits,
            gates=self._gates,
            gates_avoided=self._gates_avoided,
            tracker_entries=self._ledger.tracker.entry_count + len(self._ledger.stains),
        )

    @property
    def is_idle(self) -> bool:
        """Nothing is queued, captured or running."""
        return not self._ledger.live and not self._in_flight and not self._captures

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

    def failure_read_by(self, run: Run) -> DependencyError | None:
        """What ``run`` would fail with if it came next and nothing else was under way; it takes no ticket. For reads of
        an engine that takes no runs any more."""
        run.ticket = self._tickets + 1
        source = self._ledger.stain_source(run)
        return None if source is None else refusals.source_failed(run, source)

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
        if run.recorded or self._ledger.stains.by_key:
            self._ledger.release(run)
        self._leave_flight(run.group)
        if not run.recorded:
            # It ran inline: no frame was given to it, and nobody could begin to wait.
            return
        commands.append(Release(run))
        commands.append(Resolve(run))
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

    # The world.

    def _on_device_lost(self, stimulus: DeviceLost, commands: list[Command]) -> None:
        if stimulus.device in self._lost:
            return
        self._lose(stimulus.device, refusals.device_lost(stimulus.device, stimulus.error), commands)
        self._is_restricted = True

    def _on_buffer_freed(self, stimulus: BufferFreed, commands: list[Command]) -> None:
        self._ledger.forget(stimulus.key)

    def _on_close(self, stimulus: Close, commands: list[Command]) -> None:
        self._is_closed = self._is_restricted = True

    def _on_close_deadline(self, stimulus: CloseDeadline, commands: list[Command]) -> None:
        self._is_closed = self._is_restricted = self._is_past_deadline = True
        waiting = [run for run in self._ledger.live.values() if run.state in (State.QUEUED, State.AWAITING_CAPTURE)]
        for run in waiting:
            self._leave_captures(run)
        self._fail([(run, CloseDeadline, refusals.closed_before_start(run)) for run in waiting], commands)
