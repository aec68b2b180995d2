"""Several devices as one: runs plans that span them, as submissions to each with fences in between.

Law: knows its members by their protocol only, and holds no thread and no memory but arenas. A submission here is one
submission a part (``asyncjit.parts``): all are made at once, and a part's segments have the fences of other parts
among their gates. Everything that the protocol says of one device holds for the whole: one report, when no part touches
memory any more; then the fence; after an error nothing more is begun, on any member.

A part that fails has the others skipped *before* its fence fires, since its device reports first. So what relies on it
is passed over. Of several failures the first in program order is reported, whatever the order in time.

When a member is lost, the other members still have to pass what they hold, so the run ends when they have. Parts that a
lost member will never report count as passed when all gates of the submission have fired.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from asyncjit.devices._joint_plan import Failure, JointExecutable
from asyncjit.devices.base import Capabilities, Device, Submission
from asyncjit.errors import DeviceLostError, EngineClosedError
from asyncjit.plan import Plan

__all__ = ["JointDevice"]


class _Flight:
    """One submission under way. ``lock`` guards everything that changes."""

    __slots__ = ("failures", "left", "lock", "parts", "pending", "whole")

    def __init__(self, whole: Submission) -> None:
        self.whole = whole
        self.parts: list[Submission] = []
        #: Parts that have not ended.
        self.pending: set[int] = set()
        #: Those, and gates that have not fired, and one until everything is in place.
        self.left = 1
        self.failures: list[Failure] = []
        self.lock = threading.Lock()


class JointDevice:
    """Runs plans on ``members`` together; see ``devices.base.Runner``. Callable from any thread.

    ``on_lost(member, error)`` is called when a member turns out to be lost, before the submission that showed it is
    reported; its error is a DeviceLostError then, or an EngineClosedError.
    """

    def __init__(self, name: str, members: Sequence[Device], on_lost: Callable[[str, BaseException], None]) -> None:
        self.name = name
        self.members = {member.name: member for member in members}
        each = [member.capabilities for member in members]
        self.capabilities = Capabilities(
            streams_max=max(one.streams_max for one in each),
            segment_calls_first=min(
                (one.segment_calls_first for one in each if one.segment_calls_first is not None), default=None
            ),
            # A member that gains by having work early gets it with the whole, no sooner.
            submits_ahead=False,
            inline_s_max=min(one.inline_s_max for one in each),
            hop_s=max(one.hop_s for one in each),
        )
        self._on_lost = on_lost
        self._flights: dict[Submission, _Flight] = {}

    def __repr__(self) -> str:
        return f"JointDevice({self.name!r}, in_flight={len(self._flights)})"

    def instantiate(self, plan: Plan, executor: str | None = None) -> JointExecutable:
        return JointExecutable(plan, self.members, executor)

    def run_inline(self, submission: Submission) -> tuple[BaseException | None, int | None]:
        """Part after part: that is an order of the plan."""
        executable: JointExecutable = submission.executable
        parts = executable.submissions(submission, _never, gated=False)
        try:
            for index, part in enumerate(parts):
                error, call = self._member(executable, index).run_inline(part)
                if error is not None:
                    return executable.failure_of(index, error, call)[1:]
        finally:
            executable.gather_times(submission, parts)
        return None, None

    def skip(self, submission: Submission) -> None:
        submission.skip = True
        flight = self._flights.get(submission)
        if flight is not None:
            self._skip_parts(flight)

    def submit(self, submission: Submission) -> None:
        executable: JointExecutable = submission.executable
        flight = _Flight(submission)
        flight.parts = executable.submissions(submission, self._on_part, flight)
        flight.pending = set(range(len(flight.parts)))
        gates = [fence for fences in submission.gates.values() for fence in fences]
        flight.left += len(flight.parts) + len(gates)
        self._flights[submission] = flight
        for index, part in enumerate(flight.parts):
            self._submit_part(flight, executable, index, part)
        for fence in gates:
            if not fence.add_callback(lambda: self._count_down(flight)):
                self._count_down(flight)
        self._count_down(flight)

    def leave_behind(self, member: str, error: BaseException) -> None:
        """``member`` will report nothing any more: what it holds has failed with ``error``."""
        for flight in list(self._flights.values()):
            executable: JointExecutable = flight.whole.executable
            with flight.lock:
                pending = sorted(flight.pending)
            for index in pending:
                if executable.parts[index].device == member:
                    self._give_up(flight, index, error)

    def _member(self, executable: JointExecutable, index: int) -> Device:
        return self.members[executable.parts[index].device]

    def _submit_part(self, flight: _Flight, executable: JointExecutable, index: int, part: Submission) -> None:
        member = self._member(executable, index)
        try:
            member.submit(part)
        except BaseException as error:
            if isinstance(error, DeviceLostError | EngineClosedError):
                self._on_lost(member.name, error)
            self._give_up(flight, index, error)
            return
        if flight.failures or flight.whole.skip:
            member.skip(part)

    def _on_part(self, part: Submission, error: BaseException | None, call: int | None) -> None:
        """A part's report, from any thread; its fence fires when this has returned."""
        if part.context is None:
            # It was left behind, and the replay has ended without it.
            return
        flight, index = part.context
        if self._end_part(flight, index, error, call):
            if isinstance(error, DeviceLostError):
                self._on_lost(self._member(flight.whole.executable, index).name, error)
            self._count_down(flight)

    def _end_part(self, flight: _Flight, index: int, error: BaseException | None, call: int | None) -> bool:
        """Note the end of a part; False where it was noted before. After an error, nothing that has not begun does."""
        executable: JointExecutable = flight.whole.executable
        with flight.lock:
            if index not in flight.pending:
                return False
            flight.pending.discard(index)
            if error is not None:
                flight.failures.append(executable.failure_of(index, error, call))
        if error is not None:
            self._skip_parts(flight)
        return True

    def _skip_parts(self, flight: _Flight) -> None:
        executable: JointExecutable = flight.whole.executable
        with flight.lock:
            pending = [(index, flight.parts[index]) for index in flight.pending]
        for index, part in pending:
            self._member(executable, index).skip(part)

    def _give_up(self, flight: _Flight, index: int, error: BaseException) -> None:
        """A part will not be reported. Its fence fires, so that what waits for it is passed over, when all that the
        submission had to wait for is over."""
        if not self._end_part(flight, index, error, None):
            return
        gates = [fence for fences in flight.whole.gates.values() for fence in fences]
        left = list(range(len(gates) + 1))

        def passed() -> None:
            if left.pop() == 0:
                flight.parts[index].fence.signal()
                self._count_down(flight)

        for fence in gates:
            if not fence.add_callback(passed):
                passed()
        passed()

    def _count_down(self, flight: _Flight) -> None:
        with flight.lock:
            flight.left -= 1
            if flight.left:
                return
        whole = flight.whole
        executable: JointExecutable = whole.executable
        self._flights.pop(whole, None)
        executable.gather_times(whole, flight.parts)
        parts, flight.parts = flight.parts, []
        first = min(flight.failures, key=lambda failure: failure[0], default=None)
        for part in parts:
            # A part and its flight refer to each other: no replay's arrays wait for the cyclic collector.
            part.context = None
        try:
            whole.report(whole, *(first[1:] if first else (None, None)))
        finally:
            whole.fence.signal()


def _never(submission: Submission, error: BaseException | None, call: int | None) -> None:
    """Inline runs report nothing."""
