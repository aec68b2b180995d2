"""The scheduler: the whole contract of order, first calls, cancellation, failure and limits, without a clock or a thread.

Law: ``step(stimulus) -> list[Command]`` is the one door; a stimulus in, commands out, nothing else happens. No asyncio, no
threads, no time, no devices, no arrays. Callers serialise their calls of ``step``.

Theory of operation. Every call takes a ticket; accesses enter one hazard tracker in ticket order, so that each run knows
the unfinished runs that must come first (its predecessors), from which segment on it must wait for them, and from which of
them it reads (its needs). A replay is a transaction: what others wait for is its end, so nobody sees a part of it. A run is
admitted when its group has room and no predecessor blocks it; predecessors always hold lower tickets, hence the lowest
ticket can always go on and nothing deadlocks. A failed run leaves its writes in the tracker: whoever reads them fails, whoever
overwrites them heals them. A run that is removed before it started is taken out of the tracker as if it had never been
called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from asyncjit.deps import DepsTracker, ReadSet, Region
from asyncjit.errors import (
    AsyncJitError,
    DependencyError,
    DeviceLostError,
    EngineBusyError,
    EngineClosedError,
    InternalError,
    ReplayCancelledError,
)
from asyncjit.runs import (
    FINISHED,
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
    Footprint,
    GroupState,
    Poisoned,
    Reject,
    Release,
    ReleaseWaiter,
    Removed,
    Resolve,
    Run,
    RunDone,
    RunFailed,
    Skip,
    Start,
    State,
    Stimulus,
    Submit,
    Touch,
    WaitCancelled,
    WaitStarted,
)

__all__ = ["TRANSITIONS", "Scheduler", "SchedulerStatistics"]

#: Transitions remembered for ``story``; about 100 bytes each.
STORY_LENGTH = 4096

#: Outputs are new buffers, touched as a whole.
_WHOLE = 1 << 62

_UNKNOWN = (State.AWAITING_CAPTURE, State.CAPTURING)
_STARTED = (State.RUNNING, State.ABANDONED, State.DOOMED)


@dataclass(frozen=True, slots=True)
class SchedulerStatistics:
    """Counts since the scheduler was made; ``queued`` and ``in_flight`` are of this moment."""

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


class Scheduler:
    """Run state of one engine. ``devices_ahead`` take work whose first segment still waits (see device capabilities)."""

    def __init__(
        self,
        *,
        replays_queued_max: int = 10_000,
        memory_bytes_max: int | None = None,
        devices_ahead: Iterable[str] = (),
    ) -> None:
        self._replays_queued_max = replays_queued_max
        self._memory_bytes_max = memory_bytes_max
        self._devices_ahead = frozenset(devices_ahead)
        self._tracker: DepsTracker[Run] = DepsTracker()
        #: What failed runs wrote and nobody has overwritten since; the tracker holds the same unless a live run covers it.
        self._poison: DepsTracker[Run] = DepsTracker()
        #: Unfinished runs that were not run inline, in ticket order.
        self._live: dict[int, Run] = {}
        #: Runs in ticket order from the first one whose footprint is unknown; empty when none is.
        self._arrivals: deque[Run] = deque()
        self._captures: dict[Hashable, deque[Run]] = {}
        self._groups_to_admit: list[GroupState] = []
        self._lost: dict[str, BaseException] = {}
        self._closed = False
        self._story: deque[tuple[int, str, State]] = deque(maxlen=STORY_LENGTH)
        self._tickets = 0
        self._queued = 0
        self._queued_counted = 0
        self._in_flight = 0
        self._in_flight_peak = 0
        self._ended = {State.DONE: 0, State.FAILED: 0, State.DROPPED: 0}
        self._inline = 0
        self._waits = 0
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
        if self._groups_to_admit:
            self._admit(commands)
        return commands

    def read_set(self, regions: Iterable[Region]) -> ReadSet:
        """One tracker entry for all state that a plan only reads."""
        return self._tracker.read_set(regions)

    def drop_read_set(self, read_set: ReadSet) -> None:
        self._tracker.drop_read_set(read_set)

    def story(self, run: Run | None = None) -> list[tuple[int, str, State]]:
        """What happened, oldest first, as (ticket, stimulus, state after it); to one run, or to all."""
        return [entry for entry in self._story if run is None or entry[0] == run.ticket]

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
            tracker_entries=self._tracker.entry_count,
        )

    @property
    def is_idle(self) -> bool:
        """Nothing is queued, captured or running."""
        return not self._live and not self._in_flight

    def verify(self) -> None:
        """Check the invariants; tests call it after steps and at teardown.

        Raises:
            InternalError: one does not hold; the story is attached.
        """

        def check(condition: bool, message: str) -> None:
            if not condition:
                raise InternalError(message, story=self.story())

        live = list(self._live.values())
        check([run.ticket for run in live] == sorted(self._live), "live runs are not in ticket order")
        check(not any(run.state in FINISHED for run in live), "a finished run is still live")
        queued = [run for run in live if run.state in (State.QUEUED, State.AWAITING_CAPTURE)]
        check(len(queued) == self._queued, f"{self._queued} runs counted as queued, {len(queued)} are")
        started = [run for run in live if run.state in _STARTED]
        check(len(started) == self._in_flight, f"{self._in_flight} runs counted as in flight, {len(started)} are")
        for run in live:
            check(run.needs <= run.predecessors.keys(), f"{run} needs a run that is not its predecessor")
            for other, segment in run.predecessors.items():
                check(other.ticket < run.ticket, f"{run} waits for the later {other}")
                check(run in other.successors, f"{other} does not know its successor {run}")
                check(other.state not in FINISHED, f"{run} still waits for {other}")
                held = run.state is State.QUEUED and self._blocks(run, other, segment)
                check(not held or run.blockers > 0, f"{run} is not held back by {other}")
            if run.state is State.QUEUED and run.recorded:
                blocking = sum(self._blocks(run, other, segment) for other, segment in run.predecessors.items())
                check(blocking == run.blockers, f"{run} counts {run.blockers} blockers, {blocking} are")
                check(run.blockers > 0 or not run.group.has_room, f"{run} could start and was not started")
            check(run.recorded or bool(self._arrivals), f"{run} is not in the tracker")
        check(not self._arrivals or self._arrivals[0].state in _UNKNOWN, "arrivals wait for nothing")

    # Arrival.

    def _on_arrive(self, stimulus: Arrive, commands: list[Command]) -> None:
        run = stimulus.run
        key = run.signature = (id(run.group), stimulus.signature)
        captures = self._captures.get(key)
        error = self._refusal(run, 0, 0)
        if error is None and captures and self._queue_is_full(run):
            error = self._queue_error(run)
        if error is not None:
            commands.append(Reject(run, error))
            return
        self._take_ticket(run)
        self._arrivals.append(run)
        if captures is None:
            self._captures[key] = deque([run])
            self._enter_state(run, Arrive, State.CAPTURING)
            commands.append(BeginCapture(run))
        else:
            captures.append(run)
            self._enter_state(run, Arrive, State.AWAITING_CAPTURE)
            self._count_queued(run, 1)

    def _on_submit(self, stimulus: Submit, commands: list[Command]) -> None:
        run, group = stimulus.run, stimulus.run.group
        error = self._refusal(run, stimulus.memory_bytes, stimulus.new_bytes)
        if error is not None:
            commands.append(Reject(run, error))
            return
        if self._arrivals:
            if self._queue_is_full(run):
                commands.append(Reject(run, self._queue_error(run)))
                return
            self._take_ticket(run)
            self._enter_state(run, Submit, State.QUEUED)
            self._count_queued(run, 1)
            self._arrivals.append(run)
            return
        free = self._is_untouched(run)
        poison = None if free else self._look(run)
        room = group.has_room and not group.ready
        if stimulus.inline and room and not run.predecessors and poison is None:
            self._tickets += 1
            run.ticket = self._tickets
            self._inline += 1
            self._count_in_flight(group, 1)
            self._enter_state(run, Admitted, State.RUNNING)
            commands.append(Start(run, {}, True))
            return
        if (run.blockers or not room) and self._queue_is_full(run):
            self._unlink(run)
            commands.append(Reject(run, self._queue_error(run)))
            return
        self._take_ticket(run)
        self._enter_state(run, Submit, State.QUEUED)
        self._count_queued(run, 1)
        self._enter(run, poison, commands)

    def _refusal(self, run: Run, memory_bytes: int, new_bytes: int) -> AsyncJitError | None:
        if self._closed:
            return EngineClosedError(
                f"{run.group.name!r} was called after the engine was closed; open a new engine for new calls"
            )
        limit = self._memory_bytes_max
        if limit is not None and memory_bytes + new_bytes > limit:
            return EngineBusyError(
                f"{run.group.name!r} needs {new_bytes:,} bytes more, but {memory_bytes:,} of memory_bytes_max={limit:,} are in "
                "use; drop results that are no longer needed, await replays in flight, or raise the limit",
                limit="memory_bytes_max",
                given=memory_bytes + new_bytes,
                expected=limit,
            )
        return None

    def _queue_is_full(self, run: Run) -> bool:
        return self._queued_counted >= self._replays_queued_max and not run.group.exempt

    def _queue_error(self, run: Run) -> EngineBusyError:
        return EngineBusyError(
            f"{run.group.name!r} was called while {self._queued_counted:,} replays are queued "
            f"(replays_queued_max={self._replays_queued_max:,}); await some of them before calling again",
            limit="replays_queued_max",
            given=self._queued_counted,
            expected=self._replays_queued_max,
        )

    def _take_ticket(self, run: Run) -> None:
        self._tickets += 1
        run.ticket = self._tickets
        self._live[run.ticket] = run

    # First calls: one capture a signature at a time, tickets in arrival order.

    def _on_captured(self, stimulus: Captured, commands: list[Command]) -> None:
        run = stimulus.run
        self._move(run, Captured)
        self._count_queued(run, 1)
        self._next_capture(run, commands)
        error = self._refusal(run, stimulus.memory_bytes, stimulus.new_bytes)
        if run.cancelled:
            self._remove(run, commands)
        elif error is not None:
            self._remove(run, commands, error)
        self._pump_arrivals(commands)

    def _on_capture_failed(self, stimulus: CaptureFailed, commands: list[Command]) -> None:
        run = stimulus.run
        self._move(run, CaptureFailed)
        run.error = stimulus.error
        del self._live[run.ticket]
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

    def _pump_arrivals(self, commands: list[Command]) -> None:
        while self._arrivals and self._arrivals[0].state not in _UNKNOWN:
            run = self._arrivals.popleft()
            if run.state is State.QUEUED:
                self._enter(run, self._look(run), commands)

    # Hazards.

    def _is_untouched(self, run: Run) -> bool:
        """No buffer of the run has an entry: the usual case of a small replay, three set operations."""
        footprint = run.footprint
        assert footprint is not None
        if not self._tracker.tracked.isdisjoint(run.keys):
            return False
        return footprint.read_set is None or not self._tracker.read_set_hazards(footprint.read_set)

    def _look(self, run: Run) -> Run | None:
        """Link the run to its unfinished predecessors; return a failed run that it reads from, if there is one."""
        footprint, tracker = run.footprint, self._tracker
        assert footprint is not None
        poison = None
        found = run.predecessors
        if footprint.read_set is not None:
            for other in tracker.read_set_hazards(footprint.read_set):
                if other.state in FINISHED:
                    poison = other
                else:
                    found[other] = footprint.read_set_segment
                    run.needs.add(other)
        for segment, reads, writes in footprint.groups:
            hazards = tracker.hazards(run.regions(reads), run.regions(writes))
            for other in hazards.raw:
                if other.state in FINISHED:
                    poison = other
                else:
                    run.needs.add(other)
                    found[other] = min(segment, found.get(other, segment))
            for other in (*hazards.war, *hazards.waw):
                if other.state not in FINISHED:
                    found[other] = min(segment, found.get(other, segment))
        for other, segment in found.items():
            other.successors.append(run)
            run.blockers += self._blocks(run, other, segment)
        return poison

    def _blocks(self, run: Run, other: Run, segment: int) -> bool:
        """Whether ``other`` keeps ``run`` from being admitted, and not only its later segments from running."""
        if other.state not in _STARTED:
            return True
        return segment == 0 and run.device not in self._devices_ahead

    def _enter(self, run: Run, poison: Run | None, commands: list[Command]) -> None:
        """The run's turn in ticket order: record its accesses, then let it wait for room."""
        footprint = run.footprint
        assert footprint is not None
        if run.device in self._lost:
            self._fail(run, DeviceLost, self._lost[run.device], commands)
            return
        if poison is not None:
            self._fail(run, Poisoned, self._dependency_error(run, poison), commands)
            return
        self._record(run, footprint)
        self._waits += len(run.predecessors)
        if not run.blockers:
            self._make_ready(run)

    def _record(self, run: Run, footprint: Footprint) -> None:
        if footprint.read_set is not None:
            self._tracker.record_read_set(footprint.read_set, run, run.ticket)
        reads = [region for _, touches, _ in footprint.groups for region in run.regions(touches)]
        self._tracker.record(reads, self._writes(run), run, run.ticket)
        run.recorded = True

    def _writes(self, run: Run) -> list[Region]:
        """All that the run writes outside its frame, outputs included."""
        groups = () if run.footprint is None else run.footprint.groups
        touches: list[Touch] = [touch for _, _, writes in groups for touch in writes]
        return run.regions(touches) + [Region(key, 0, _WHOLE, 0, 0) for key in run.outputs]

    def _unlink(self, run: Run) -> None:
        for other in run.predecessors:
            other.successors.remove(run)
        run.predecessors.clear()
        run.needs.clear()
        run.blockers = 0

    # Room.

    def _make_ready(self, run: Run) -> None:
        group = run.group
        heappush(group.ready, run.ticket)
        if group.has_room:
            self._groups_to_admit.append(group)

    def _admit(self, commands: list[Command]) -> None:
        """Start what may start: in ticket order within a group; groups do not compete for room."""
        while self._groups_to_admit:
            group = self._groups_to_admit.pop()
            while group.ready and group.has_room:
                run = self._live.get(heappop(group.ready))
                if run is not None and run.state is State.QUEUED and not run.blockers:
                    self._start(run, commands)

    def _start(self, run: Run, commands: list[Command]) -> None:
        self._move(run, Admitted)
        self._count_queued(run, -1)
        self._count_in_flight(run.group, 1)
        gates: dict[int, list[Run]] = {}
        for other, segment in run.predecessors.items():
            gates.setdefault(segment, []).append(other)
        commands.append(Start(run, gates))
        for successor in run.successors:
            if not self._blocks(successor, run, successor.predecessors[run]):
                self._unblock(successor)

    def _unblock(self, run: Run) -> None:
        run.blockers -= 1
        assert run.blockers >= 0
        if not run.blockers and run.state is State.QUEUED:
            self._make_ready(run)

    # Outcomes.

    def _on_run_done(self, stimulus: RunDone, commands: list[Command]) -> None:
        run = stimulus.run
        if run.state in FINISHED:
            self._check_late(run)
            return
        if run.state is State.DOOMED:
            assert run.error is not None
            self._fail(run, RunDone, run.error, commands)
            return
        self._move(run, RunDone)
        commands.append(Release(run))
        commands.append(Resolve(run))
        if run.recorded:
            self._tracker.release(run.ticket)
            del self._live[run.ticket]
        if self._poison.entry_count:
            writes = self._writes(run)
            self._poison.clear(writes)
            if not run.recorded:
                self._tracker.clear(writes)
        self._leave_flight(run)
        if run.successors:
            self._release_successors(run, started=True)

    def _on_run_failed(self, stimulus: RunFailed, commands: list[Command]) -> None:
        run = stimulus.run
        if run.state in FINISHED:
            self._check_late(run)
            return
        self._fail(run, RunFailed, run.error if run.state is State.DOOMED else stimulus.error, commands)

    def _check_late(self, run: Run) -> None:
        if run.device not in self._lost:
            raise InternalError(f"a second outcome for {run}", story=self.story(run))

    def _fail(self, run: Run, stimulus: type[Stimulus], error: BaseException | None, commands: list[Command]) -> None:
        """Fail the run, poison what it writes, and fail those that read from it, in turn."""
        worklist: list[tuple[Run, type[Stimulus], BaseException | None]] = [(run, stimulus, error)]
        while worklist:
            run, stimulus, error = worklist.pop()
            if run.state in FINISHED or run.state is State.DOOMED and stimulus is Poisoned:
                continue
            started = run.state in _STARTED
            run.error = error
            self._move(run, stimulus)
            if run.state is State.DOOMED:
                commands.append(Skip(run))
                continue
            if started:
                self._leave_flight(run)
                commands.append(Release(run))
            else:
                self._count_queued(run, -1)
            self._live.pop(run.ticket, None)
            self._poison_writes(run)
            commands.append(Resolve(run))
            readers = [other for other in run.successors if run in other.needs]
            self._release_successors(run, started=started)
            self._unlink(run)
            worklist.extend((other, Poisoned, self._dependency_error(other, run)) for other in readers)

    def _poison_writes(self, run: Run) -> None:
        writes = self._writes(run)
        if run.recorded:
            self._tracker.release_reads(run.ticket)
        else:
            self._tracker.record([], writes, run, run.ticket)
        self._poison.record([], writes, run, run.ticket)

    def _dependency_error(self, run: Run, source: Run) -> DependencyError:
        root = source.error
        error = DependencyError(
            f"replay {run.ticket or 'new'} of {run.group.name!r} reads what replay {source.ticket} of {source.group.name!r} should have "
            f"written, but that one {'was cancelled' if source.state is State.DROPPED else 'failed'}: {root}; "
            "call it again, or overwrite what it left",
            function=run.group.name,
            source=source.group.name,
            source_ticket=source.ticket,
        )
        error.__cause__ = root
        return error

    def _release_successors(self, run: Run, *, started: bool) -> None:
        for other in run.successors:
            segment = other.predecessors.pop(run)
            other.needs.discard(run)
            blocked = not started or (segment == 0 and other.device not in self._devices_ahead)
            if blocked and other.state is State.QUEUED:
                self._unblock(other)
        run.successors.clear()

    # Waiting and cancelling.

    def _on_wait_started(self, stimulus: WaitStarted, commands: list[Command]) -> None:
        run = stimulus.run
        run.waiters += 1
        if run.state is State.ABANDONED:
            self._move(run, WaitStarted)

    def _on_wait_cancelled(self, stimulus: WaitCancelled, commands: list[Command]) -> None:
        run = stimulus.run
        unwanted = run.waiters == 1 and not stimulus.held
        if run.state in _STARTED:
            pure = run.footprint is not None and run.footprint.is_pure
            if not pure and run.group.on_cancel == "shield":
                return
            if pure and unwanted and run.state is State.RUNNING:
                self._move(run, WaitCancelled)
        elif run.state is State.CAPTURING:
            run.cancelled = run.cancelled or unwanted
        elif unwanted and run.state not in FINISHED:
            self._remove(run, commands)
        run.waiters -= 1
        commands.append(ReleaseWaiter(run))

    def _on_cancel_requested(self, stimulus: CancelRequested, commands: list[Command]) -> None:
        run = stimulus.run
        if run.state is State.CAPTURING:
            run.cancelled = True
        elif run.state not in FINISHED and run.state not in _STARTED:
            self._remove(run, commands)

    def _remove(self, run: Run, commands: list[Command], error: BaseException | None = None) -> None:
        """Take out a run that has not started, as if it had never been called; readers of its outputs fail."""
        awaiting = run.state is State.AWAITING_CAPTURE
        self._move(run, Removed)
        run.error = error or ReplayCancelledError(
            f"replay {run.ticket} of {run.group.name!r} was cancelled before it started; call the function again",
            ticket=run.ticket,
        )
        self._count_queued(run, -1)
        del self._live[run.ticket]
        commands.append(Resolve(run))
        if awaiting:
            self._captures[run.signature].remove(run)
        if not run.recorded:
            self._pump_arrivals(commands)
        else:
            self._withdraw(run)
        if run.outputs:
            outputs = [Region(key, 0, _WHOLE, 0, 0) for key in run.outputs]
            self._tracker.record([], outputs, run, run.ticket)
            self._poison.record([], outputs, run, run.ticket)
        readers = [other for other in self._live.values() if self._reads_outputs(other, run)]
        for other in readers:
            self._fail(other, Poisoned, self._dependency_error(other, run), commands)

    def _withdraw(self, run: Run) -> None:
        """Undo the run's entries. State that it wrote belongs to the run before it again."""
        footprint = run.footprint
        assert footprint is not None
        self._tracker.release(run.ticket)
        self._release_successors(run, started=False)
        self._unlink(run)
        if not footprint.is_pure:
            self._relink()

    def _reads_outputs(self, run: Run, source: Run) -> bool:
        if not source.outputs or not run.recorded or run.footprint is None:
            return False
        reads = {run.keys[touch.slot] for _, touches, _ in run.footprint.groups for touch in touches}
        return not reads.isdisjoint(source.outputs)

    def _relink(self) -> None:
        """Enter all live runs anew, in ticket order: O(live), only after a run that writes state was removed.

        Runs that have started keep the gates they were given, which can only be too many.
        """
        runs = [run for run in self._live.values() if run.recorded]
        for run in runs:
            self._tracker.release(run.ticket)
            run.predecessors.clear()
            run.needs.clear()
            run.successors.clear()
            run.blockers = 0
        for source, regions in self._poison.written():
            self._tracker.record([], regions, source, source.ticket)
        for run in runs:
            assert run.footprint is not None
            self._look(run)
            self._record(run, run.footprint)
            if run.state is not State.QUEUED:
                run.blockers = 0
            elif not run.blockers:
                self._make_ready(run)

    # The world.

    def _on_device_lost(self, stimulus: DeviceLost, commands: list[Command]) -> None:
        if stimulus.device in self._lost:
            return
        error = DeviceLostError(
            f"device {stimulus.device!r} was lost: {stimulus.error}; what was on it is gone, other devices stay usable",
            device=stimulus.device,
        )
        error.__cause__ = stimulus.error
        self._lost[stimulus.device] = error
        for run in list(self._live.values()):
            if run.device == stimulus.device and run.state not in FINISHED and run.recorded:
                self._fail(run, DeviceLost, error, commands)

    def _on_buffer_freed(self, stimulus: BufferFreed, commands: list[Command]) -> None:
        self._tracker.forget(stimulus.key)
        self._poison.forget(stimulus.key)

    def _on_close(self, stimulus: Close, commands: list[Command]) -> None:
        self._closed = True

    def _on_close_deadline(self, stimulus: CloseDeadline, commands: list[Command]) -> None:
        self._closed = True
        for run in list(self._live.values()):
            if run.state is State.QUEUED or run.state is State.AWAITING_CAPTURE:
                error = EngineClosedError(
                    f"replay {run.ticket} of {run.group.name!r} had not started when the engine was closed",
                    ticket=run.ticket,
                )
                if run.state is State.AWAITING_CAPTURE:
                    self._captures[run.signature].remove(run)
                self._fail(run, CloseDeadline, error, commands)
        self._pump_arrivals(commands)

    # Bookkeeping.

    def _move(self, run: Run, stimulus: type[Stimulus]) -> None:
        state = TRANSITIONS[run.state].get(stimulus)
        if state is None:
            raise InternalError(f"{stimulus.__name__} does not happen to {run}", story=self.story(run))
        self._enter_state(run, stimulus, state)

    def _enter_state(self, run: Run, stimulus: type[Stimulus], state: State) -> None:
        run.state = state
        self._story.append((run.ticket, stimulus.__name__, state))
        if state in self._ended:
            self._ended[state] += 1

    def _count_queued(self, run: Run, change: int) -> None:
        self._queued += change
        if not run.group.exempt:
            self._queued_counted += change

    def _count_in_flight(self, group: GroupState, change: int) -> None:
        group.running += change
        self._in_flight += change
        self._in_flight_peak = max(self._in_flight_peak, self._in_flight)

    def _leave_flight(self, run: Run) -> None:
        self._count_in_flight(run.group, -1)
        if run.group.ready:
            self._groups_to_admit.append(run.group)
