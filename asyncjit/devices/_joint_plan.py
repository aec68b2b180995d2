"""A plan over several devices made runnable: the executables of its parts, and frames in arenas that parts share.

Law: what is the same for every replay; starts nothing. See ``joint``, which runs it, and ``asyncjit.parts``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from asyncjit.devices.base import Device, Executable, Frame, Memory, Submission
from asyncjit.errors import InternalError
from asyncjit.parts import Part, arena_devices, cut_plan
from asyncjit.plan import Plan
from asyncjit.streams import Fence

__all__ = ["Failure", "JointExecutable", "JointFrame"]

#: Of a part: its place in program order, the error, and the call of the whole plan that is to blame, where one is.
Failure: TypeAlias = "tuple[int, BaseException, int | None]"


class JointFrame:
    """An arena on each device that needs one, and a frame of each part in the arena of its device."""

    def __init__(self, arenas: Mapping[str, Memory], frames: Sequence[Frame], nbytes: int) -> None:
        self.arenas = arenas
        self.frames = frames
        self.nbytes = nbytes


class JointExecutable:
    """See ``devices.base.Executable``: the executables of all parts."""

    def __init__(self, plan: Plan, members: Mapping[str, Device], executor: str | None) -> None:
        self.plan = plan
        self.parts: tuple[Part, ...] = cut_plan(plan)
        self.executables: list[Executable] = [
            members[part.device].instantiate(part.plan, executor) for part in self.parts
        ]
        self.arenas = arena_devices(plan)
        #: Of each segment of the plan: its part, and its number there.
        self.place = {
            segment: (index, local)
            for index, part in enumerate(self.parts)
            for local, segment in enumerate(part.segments)
        }
        self._members = members
        symbols = plan.schedule.symbols()
        #: Of each part, which of the plan's values are those of its own symbols.
        self._values = [[symbols.index(each) for each in part.plan.schedule.symbols()] for part in self.parts]

    @property
    def estimated_s(self) -> float:
        return sum(executable.estimated_s for executable in self.executables)

    @property
    def runs_inline(self) -> bool:
        limit_s = min(member.capabilities.inline_s_max for member in self._members.values())
        return self.estimated_s < limit_s and all(executable.runs_inline for executable in self.executables)

    @property
    def frames_are_cheap(self) -> bool:
        return all(executable.frames_are_cheap for executable in self.executables)

    def create_frame(self, arena: Memory | None = None) -> JointFrame:
        if arena is not None:
            raise InternalError("a plan over several devices has an arena on each, and takes none from outside")
        nbytes = self.plan.frame_nbytes
        arenas = {device: self._members[device].allocate(nbytes[device]) for device in self.arenas}
        frames = [
            executable.create_frame(arenas.get(part.device))
            for part, executable in zip(self.parts, self.executables, strict=True)
        ]
        return JointFrame(arenas, frames, sum(nbytes[device] for device in self.arenas))

    def bind_state(self, bindings: Sequence[tuple[int, Memory, int]]) -> None:
        for executable in self.executables:
            executable.bind_state(bindings)

    def submissions(
        self, whole: Submission, report: Callable[..., None], context: Any = None, *, gated: bool = True
    ) -> list[Submission]:
        """One for each part, gated by each other and by the gates of ``whole``."""
        fences = [Fence() for _ in self.parts]
        gates: list[dict[int, list[Fence]]] = [{} for _ in self.parts]
        if gated:
            self._set_gates(gates, fences, whole)
        arenas = whole.frame.arenas
        bindings = [*whole.bindings, *((arenas[device], 0) for device in self.arenas)]
        return [
            Submission(
                executable,
                frame,
                bindings,
                gates[index],
                report,
                fences[index],
                context=(context, index),
                times=None if whole.times is None else [],
                values=[whole.values[place] for place in self._values[index]],
            )
            for index, (executable, frame) in enumerate(zip(self.executables, whole.frame.frames, strict=True))
        ]

    def _set_gates(self, gates: list[dict[int, list[Fence]]], fences: Sequence[Fence], whole: Submission) -> None:
        for index, part in enumerate(self.parts):
            for segment, before in part.waits:
                gates[index].setdefault(segment, []).append(fences[before])
        for segment, others in whole.gates.items():
            index, local = self.place[segment]
            gates[index].setdefault(local, []).extend(others)

    def failure_of(self, index: int, error: BaseException, call: int | None) -> Failure:
        """A part's failure, with the call of the whole plan."""
        calls = self.parts[index].calls
        return (calls[0], error, None) if call is None else (calls[call], error, calls[call])

    def gather_times(self, whole: Submission, submissions: Sequence[Submission]) -> None:
        if whole.times is None:
            return
        whole.times[:] = [None] * len(self.plan.schedule.calls)
        for part, submission in zip(self.parts, submissions, strict=True):
            for call, times in zip(part.calls, submission.times or (), strict=False):
                whole.times[call] = times
