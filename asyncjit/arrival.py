"""Arrival: tickets, the limits, and first calls, which take their ticket before anybody knows what they touch.

Law: what happens until a run is in the ledger, or is turned away; from there on it is ``flow``'s. Imports ``flow`` and
below.

One capture a signature at a time: the first call of a signature captures, the others wait and look again when it has
ended; if it fails, or nobody wants it, the next captures. A call that captures takes its ticket when the capture has
ended: until then it has not returned, so nobody can tell, and no other thread is held up by the recording. Only when a
second call of the signature arrives meanwhile do tickets have to stand in order of arrival: then both take theirs, and
whatever arrives behind them is held until their footprints are known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

from asyncjit import refusals
from asyncjit.errors import AsyncJitError, EngineBusyError
from asyncjit.flow import Flow
from asyncjit.runs import (
    Admitted,
    Arrive,
    BeginCapture,
    Captured,
    CaptureFailed,
    CaptureTurn,
    CloseDeadline,
    Command,
    Reject,
    Resolve,
    Run,
    Start,
    State,
    Submit,
)

__all__ = ["Arrival"]


class Arrival(Flow):
    """The stimuli of arrival, for the scheduler to dispatch. ``commands`` is appended to."""

    def __init__(self, *, replays_queued_max: int, memory_bytes_max: int | None, devices_ahead: Iterable[str]) -> None:
        super().__init__(devices_ahead)
        self._replays_queued_max = replays_queued_max
        self._memory_bytes_max = memory_bytes_max
        #: Runs in ticket order from the first one whose footprint is unknown; empty when none is.
        self._arrivals: deque[Run] = deque()
        #: By group and signature: the run that captures, then those that wait for it.
        self._captures: dict[Hashable, deque[Run]] = {}
        self._is_closed = False
        #: Not every call is admitted: a limit of memory, a device lost, or closed.
        self._is_restricted = memory_bytes_max is not None
        self._is_past_deadline = False
        self._inline = 0

    # Calls.

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
        if waiting is None:
            self._captures[key] = deque([run])
            self._enter_state(run, Arrive, State.CAPTURING)
            commands.append(BeginCapture(run))
            return
        # Now that somebody stands behind it, the one that captures needs its place.
        self._take_place(waiting[0])
        self._take_place(run)
        waiting.append(run)
        self._enter_state(run, Arrive, State.AWAITING_CAPTURE)
        self._count_queued(run, 1)

    def _take_place(self, run: Run) -> None:
        """A ticket, before anybody knows what the run touches: whatever comes later is held until that is known."""
        if not run.ticket:
            self._take_ticket(run)
            self._arrivals.append(run)

    def _on_submit(self, stimulus: Submit, commands: list[Command]) -> None:
        run, group, ledger = stimulus.run, stimulus.run.group, self._ledger
        if self._is_closed or self._memory_bytes_max is not None:
            error = self._refusal(run, stimulus.memory_bytes, stimulus.new_bytes)
            if error is not None:
                commands.append(Reject(run, error))
                return
        if self._arrivals:
            self._submit_behind_captures(run, commands)
            return
        run.ticket = ticket = self._tickets + 1
        source = None if ledger.is_blank or ledger.is_untouched(run) else ledger.look(run)
        room = not group.ready and (group.in_flight_max is None or group.running < group.in_flight_max)
        if stimulus.inline and room and source is None and not run.predecessors and run.device not in self._lost:
            self._tickets = ticket
            self._inline += 1
            self._count_in_flight(group)
            self._enter_state(run, Admitted, State.RUNNING)
            commands.append(Start(run, {}, True))
            return
        blockers = self._count_blockers(run) if run.predecessors else 0
        if (blockers or not room) and self._is_queue_full(run):
            ledger.unlink(run)
            run.ticket = 0
            commands.append(Reject(run, self._queue_error(run)))
            return
        self._take_ticket(run)
        self._enter_state(run, Submit, State.QUEUED)
        if room and not blockers and source is None and run.device not in self._lost:
            # Straight through: neither counted as queued nor put among those that wait for room.
            ledger.record(run)
            if run.predecessors:
                self._follow(run)
            self._start(run, commands)
            return
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
        self._take_place(run)
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
        self._ledger.live.pop(run.ticket, None)
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

    def stands_behind(self, capturing: Run, run: Run) -> bool:
        """Whether ``run`` is held until the recording for ``capturing`` has ended."""
        return 0 < capturing.ticket < run.ticket and run in self._arrivals

    def _is_read(self, run: Run) -> bool:
        """Whether another call was given outputs of the run, so that it is wanted whoever waits."""
        outputs = frozenset(run.outputs)
        return bool(outputs) and any(other.is_bound_to(outputs) for other in (*run.successors, *self._arrivals))
