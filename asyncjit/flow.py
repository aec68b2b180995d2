"""The flow of runs from ticket to outcome: who may start, what an end sets free, what a failure takes along.

Law: moves runs along ``TRANSITIONS`` and keeps the counts; which stimulus asks for which move is ``scheduler``'s.
Imports ``refusals``, ``ledger`` and below.

A queued run is **ready** when no predecessor blocks it, and is admitted when its group has room besides, in ticket
order within the group. A predecessor blocks as long as it has not started; when it has, only gates are left, in front
of the segments that touch what it touches. Where the first segment is gated, the run stays queued, and can still be
cancelled, unless its device gains by having it early.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush

from asyncjit import refusals
from asyncjit.errors import InternalError
from asyncjit.ledger import Check, Ledger
from asyncjit.runs import (
    FINISHED,
    STARTED,
    TRANSITIONS,
    Admitted,
    Command,
    DeviceLost,
    GroupState,
    Poisoned,
    Release,
    Removed,
    Resolve,
    Run,
    RunDone,
    Skip,
    Start,
    State,
    Stimulus,
)

__all__ = ["Flow"]

#: Transitions remembered for ``story``; about 100 bytes each.
STORY_LENGTH = 4096


class Flow:
    """The moves of runs, for the scheduler to call. ``commands`` is appended to."""

    def __init__(self, devices_ahead: Iterable[str]) -> None:
        self._devices_ahead = frozenset(devices_ahead)
        self._ledger = Ledger()
        self._groups_to_admit: list[GroupState] = []
        self._lost: dict[str, BaseException] = {}
        #: Devices that are several as one, with the names of these.
        self._joint: dict[str, frozenset[str]] = {}
        #: A ticket alone stands for a run that was made at once: admitted and done.
        self._story: deque[tuple[int, type[Stimulus], State] | int] = deque(maxlen=STORY_LENGTH)
        self._tickets = 0
        self._queued = 0
        #: Those of them that count towards the limit.
        self._queued_counted = 0
        self._in_flight = 0
        self._in_flight_peak = 0
        self._ended = {State.DONE: 0, State.FAILED: 0, State.DROPPED: 0}
        self._waits = 0
        self._gates = 0
        self._gates_avoided = 0

    def add_joint_device(self, name: str, members: Iterable[str]) -> None:
        """Runs may be on ``name``, which is all of ``members`` together, and lost as soon as one of them is.

        What it has started by then is told to skip, and ends when its outcome comes.
        """
        self._joint[name] = frozenset(members)
        for member in self._joint[name] & self._lost.keys():
            self._lost.setdefault(name, self._lost[member])

    def story(self, run: Run | None = None) -> list[tuple[int, str, State]]:
        """What happened, oldest first, as (ticket, stimulus, state after it); to one run, or to all."""
        told: list[tuple[int, type[Stimulus], State]] = []
        for entry in self._story:
            if isinstance(entry, int):
                told += [(entry, Admitted, State.RUNNING), (entry, RunDone, State.DONE)]
            else:
                told.append(entry)
        return [
            (ticket, stimulus.__name__, state)
            for ticket, stimulus, state in told
            if run is None or ticket == run.ticket
        ]

    def _verify_flow(self, check: Check) -> None:
        self._ledger.verify(check)
        live = list(self._ledger.live.values())
        check(not any(run.state in FINISHED for run in live), "a finished run is still live")
        queued = [run for run in live if run.state in (State.QUEUED, State.AWAITING_CAPTURE)]
        check(len(queued) == self._queued, f"{self._queued} runs counted as queued, {len(queued)} are")
        counted = sum(not run.group.exempt for run in queued)
        check(counted == self._queued_counted, f"{self._queued_counted} counted for the limit, {counted} are")
        started = [run for run in live if run.state in STARTED]
        check(len(started) == self._in_flight, f"{self._in_flight} runs counted as in flight, {len(started)} are")
        for run in live:
            blocking = sum(self._blocks(run, other, segment) for other, segment in run.predecessors.items())
            check(blocking == run.blockers, f"{run} counts {run.blockers} blockers, {blocking} are")
            if run.state is State.QUEUED and run.recorded and not blocking:
                check(run.ticket in run.group.ready, f"{run} is ready and does not wait for room")
                check(not run.group.has_room, f"{run} could start and was not started")

    # In.

    def _take_ticket(self, run: Run) -> None:
        self._tickets += 1
        run.ticket = self._tickets
        self._ledger.live[run.ticket] = run

    def _enter(self, run: Run, source: Run | None, commands: list[Command]) -> None:
        """The run's turn in ticket order, its links made: record its accesses, then let it wait for room."""
        if run.device in self._lost:
            self._fail([(run, DeviceLost, self._lost[run.device])], commands)
        elif source is not None:
            self._fail([(run, Poisoned, refusals.source_failed(run, source))], commands)
        else:
            self._ledger.record(run)
            if run.predecessors:
                self._follow(run)
            if not run.blockers:
                self._make_ready(run)

    def _follow(self, run: Run) -> None:
        """Take note of its predecessors: their number, and their tickets for whoever watches."""
        self._waits += len(run.predecessors)
        run.followed = tuple(sorted(other.ticket for other in run.predecessors))

    # Room.

    def _blocks(self, run: Run, other: Run, segment: int) -> bool:
        """Whether ``other`` keeps ``run`` from being admitted, and not only its later segments from running."""
        return other.state not in STARTED or (segment == 0 and run.device not in self._devices_ahead)

    def _count_blockers(self, run: Run) -> int:
        run.blockers = 0
        for other, segment in run.predecessors.items():
            run.blockers += self._blocks(run, other, segment)
        return run.blockers

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
                run = self._ledger.live.get(heappop(group.ready))
                if run is not None:
                    self._count_queued(run, -1)
                    self._start(run, commands)

    def _start(self, run: Run, commands: list[Command]) -> None:
        self._move(run, Admitted)
        self._count_in_flight(run.group)
        gates: dict[int, list[Run]] = {}
        if run.predecessors:
            assert run.footprint is not None
            fronts = run.footprint.fronts
            for other, segment in run.predecessors.items():
                for front in fronts.get(segment, (segment,)):
                    gates.setdefault(front, []).append(other)
        commands.append(Start(run, gates))
        if run.followed:
            self._gates += len(run.predecessors)
            self._gates_avoided += len(run.followed) - len(run.predecessors)
        for successor in run.successors:
            if not self._blocks(successor, run, successor.predecessors[run]):
                self._unblock(successor)

    def _unblock(self, run: Run) -> None:
        run.blockers -= 1
        assert run.blockers >= 0
        if not run.blockers:
            self._make_ready(run)

    def _release_successors(self, run: Run, *, started: bool) -> None:
        for other in run.successors:
            segment = other.predecessors.pop(run)
            other.needs.discard(run)
            if not started or (segment == 0 and other.device not in self._devices_ahead):
                self._unblock(other)
        run.successors.clear()

    def _relink(self, commands: list[Command]) -> None:
        """Work out anew who waits for whom, after a run ended before its predecessors."""
        for run, source in self._ledger.relink():
            self._fail([(run, Poisoned, refusals.source_failed(run, source))], commands)
        recorded = [run for run in self._ledger.live.values() if run.recorded]
        for run in recorded:
            run.group.ready.clear()
        for run in recorded:
            # Who was on the list stays there, ended or not.
            run.followed = tuple(sorted({*run.followed, *(other.ticket for other in run.predecessors)}))
            if not self._count_blockers(run) and run.state is State.QUEUED:
                self._make_ready(run)

    # Out.

    def _fail(self, worklist: list[tuple[Run, type[Stimulus], BaseException]], commands: list[Command]) -> None:
        """Fail runs, stain what they write, and fail those that read from them, in turn."""
        for run, stimulus, error in worklist:
            if run.state in FINISHED or (run.state is State.DOOMED and stimulus is Poisoned):
                continue
            started = run.state in STARTED
            run.error = error
            self._move(run, stimulus)
            if run.state is State.DOOMED:
                commands.append(Skip(run))
                continue
            if started:
                self._leave_flight(run.group)
                commands.append(Release(run))
            else:
                self._count_queued(run, -1)
            commands.append(Resolve(run))
            readers = [other for other in run.successors if run in other.needs]
            self._ledger.withdraw(run)
            self._ledger.stain(run, run.writes())
            self._release_successors(run, started=started)
            worklist += [(other, Poisoned, refusals.source_failed(other, run)) for other in readers]

    def _lose(self, device: str, error: BaseException, commands: list[Command]) -> None:
        """A device is gone, and with it those that it is a part of."""
        lost = {device, *(joint for joint, members in self._joint.items() if device in members)} - self._lost.keys()
        self._lost.update(dict.fromkeys(lost, error))
        worklist: list[tuple[Run, type[Stimulus], BaseException]] = []
        for run in self._ledger.live.values():
            if run.device in lost and run.recorded:
                # What has started is still to be passed by the devices that are left.
                passes = run.device in self._joint and run.state in STARTED
                worklist.append((run, Poisoned if passes else DeviceLost, error))
        self._fail(worklist, commands)

    def _remove(self, run: Run, error: BaseException, commands: list[Command]) -> None:
        """Take out a run that has not started, as if it had never been called; readers of its outputs fail."""
        self._move(run, Removed)
        run.error = error
        self._count_queued(run, -1)
        commands.append(Resolve(run))
        readers = [other for other in run.successors if run in other.needs]
        ledger = self._ledger
        ledger.withdraw(run)
        ledger.stain(run, run.output_regions())
        self._release_successors(run, started=False)
        if not ledger.is_stale:
            sources = [(other, ledger.stain_source(other)) for other in readers]
            self._fail(
                [(other, Poisoned, refusals.source_failed(other, source)) for other, source in sources if source],
                commands,
            )

    # Bookkeeping.

    def _move(self, run: Run, stimulus: type[Stimulus]) -> None:
        state = TRANSITIONS[run.state].get(stimulus)
        if state is None:
            raise InternalError(f"{stimulus.__name__} does not happen to {run}", story=self.story(run))
        run.state = state
        self._story.append((run.ticket, stimulus, state))
        if state in FINISHED:
            self._ended[state] += 1

    def _enter_state(self, run: Run, stimulus: type[Stimulus], state: State) -> None:
        """Where the table has no row: a run comes into being."""
        run.state = state
        self._story.append((run.ticket, stimulus, state))

    def _count_queued(self, run: Run, change: int) -> None:
        self._queued += change
        if not run.group.exempt:
            self._queued_counted += change

    def _count_in_flight(self, group: GroupState) -> None:
        group.running += 1
        self._in_flight += 1
        if self._in_flight > self._in_flight_peak:
            self._in_flight_peak = self._in_flight

    def _leave_flight(self, group: GroupState) -> None:
        group.running -= 1
        self._in_flight -= 1
        if group.ready:
            self._groups_to_admit.append(group)
