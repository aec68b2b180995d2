"""A world for the scheduler: programs, an executor that obeys gates, and a serial run to judge by.

Law: everything around ``Scheduler.step`` and nothing of it. The executor does what devices promise and no more: a
segment runs when its stream, its waits and its gates allow it, in any order that a chooser picks; a fence fires before
its report is heard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from asyncjit.errors import DeviceLostError
from asyncjit.runs import (
    FINISHED,
    Arrive,
    BeginCapture,
    CancelRequested,
    Captured,
    CaptureFailed,
    Close,
    CloseDeadline,
    Command,
    DeviceLost,
    GroupState,
    Reject,
    Release,
    Resolve,
    Run,
    RunDone,
    RunFailed,
    Skip,
    Start,
    State,
    Stimulus,
    Submit,
    WaitCancelled,
    WaitStarted,
)
from asyncjit.scheduler import Scheduler
from asyncjit.testing.worlds.program import (
    CPU,
    GPU,
    OUTPUTS_FROM,
    Call,
    content_of,
    execute,
    footprint_of,
    output,
)
from asyncjit.testing.worlds.serial import CaptureFailureError, KernelFailureError, Serial


@dataclass(eq=False)
class Task:
    """A started run on its device."""

    gates: Mapping[int, Sequence[Run]]
    left: list[int]
    digests: dict[int, bytes] = field(default_factory=dict)
    is_spoilt: bool = False
    fails_now: bool = False
    error: BaseException | None = None


class World:
    """Plays one program. ``actions()`` says what can happen next, ``do`` makes it happen and checks the invariants."""

    def __init__(
        self, calls: Sequence[Call], groups: Sequence[GroupState], *, disturbances: int = 0, **limits: int
    ) -> None:
        self.calls = calls
        self.groups = groups
        self.disturbances_left = disturbances
        self.scheduler = Scheduler(devices_ahead=[GPU], **limits)
        self.memory: dict[int, bytearray] = {}
        self.runs: list[Run | None] = []
        self.tasks: dict[Run, Task] = {}
        self.fired: set[Run] = set()
        self.stopped: dict[Run, list[Run]] = {}
        self.inbox: deque[RunDone | RunFailed] = deque()
        self.capturing: list[Run] = []
        self.captured: set[str] = set()
        self.digests: dict[Run, dict[int, bytes]] = {}
        self.resolved: set[Run] = set()
        self.released: set[Run] = set()
        self.lost: set[str] = set()
        self.failed: set[Run] = set()
        self.is_past_deadline = False
        #: Whether invariants are checked after every step, and not only when it is judged.
        self.verifies = True

    # What can happen.

    def actions(self) -> list[tuple[str, int, int]]:
        """Ordinary actions: the program's next call, segments that may run, reports, ends of captures."""
        found: list[tuple[str, int, int]] = []
        if len(self.runs) < len(self.calls) and self._next_is_callable():
            found.append(("call", len(self.runs), 0))
        for run, task in self.tasks.items():
            found += [("part", self.runs.index(run), part) for part in task.left if self._may_run(run, task, part)]
        if self.inbox:
            found.append(("report", 0, 0))
        found += [("capture", self.runs.index(run), 0) for run in self.capturing]
        return found

    def disturbances(self) -> list[tuple[str, int, int]]:
        """What may happen besides: calls are cancelled or lose their waiter, segments fail."""
        if not self.disturbances_left:
            return []
        open_ = [i for i, run in enumerate(self.runs) if run is not None and run.state not in FINISHED]
        found = [(kind, i, 0) for i in open_ for kind in ("cancel", "drop wait")]
        return found + [("fail", i, part) for kind, i, part in self.actions() if kind == "part"]

    def _next_is_callable(self) -> bool:
        unknown = (State.AWAITING_CAPTURE, State.CAPTURING)
        sources = [self.runs[source] for source in self.calls[len(self.runs)].sources()]
        return not any(run is not None and run.state in unknown for run in sources)

    def _may_run(self, run: Run, task: Task, part: int) -> bool:
        call = self._call(run)
        before = all(index not in task.left for index in call.before(part))
        return before and all(self._has_fired(gate) for gate in task.gates.get(part, ()))

    def _has_fired(self, run: Run) -> bool:
        """Its fence; that of a run that was stopped by a loss fires after those that it waited for itself."""
        return run in self.fired or (run in self.stopped and all(map(self._has_fired, self.stopped[run])))

    def _call(self, run: Run) -> Call:
        return self.calls[self.runs.index(run)]

    # Making it happen.

    def do(self, action: tuple[str, int, int]) -> None:
        kind, index, part = action
        run = self.runs[index] if index < len(self.runs) else None
        if kind == "call":
            self._submit(index)
        elif kind == "report":
            self.step(self.inbox.popleft())
        elif kind == "lose":
            self.lose((CPU, GPU)[index])
        elif kind == "close":
            self.step(Close())
        elif kind == "deadline":
            self.is_past_deadline = True
            self.step(CloseDeadline())
        elif run is not None:
            handlers: Mapping[str, Callable[[Run], None]] = {
                "part": lambda run: self._run_part(run, part),
                "fail": lambda run: self._fail_part(run, part),
                "capture": self._end_capture,
                "capture fails": self._fail_capture,
                "cancel": self._cancel,
                "drop wait": self._drop_wait,
                "rejoin": self._rejoin,
            }
            handlers[kind](run)

    def step(self, stimulus: Stimulus, *, verify: bool = True) -> list[Command]:
        commands = self.scheduler.step(stimulus)
        for command in commands:
            self._carry_out(command)
        if verify and self.verifies:
            self.scheduler.verify()
        return commands

    def _carry_out(self, command: Command) -> None:
        match command:
            case Start(run, gates, inline):
                assert run not in self.tasks
                given = {gate for runs in gates.values() for gate in runs}
                assert all(gate in self.tasks or gate in self.fired or gate in self.stopped for gate in given)
                assert not (inline and gates)
                self.tasks[run] = Task(gates, list(range(len(self._call(run).parts))))
                self.digests[run] = self.tasks[run].digests
            case Skip(run):
                if run in self.tasks:
                    self.tasks[run].is_spoilt = True
            case Release(run):
                assert run not in self.released
                self.released.add(run)
                task = self.tasks.pop(run, None)
                if task is not None:
                    assert isinstance(run.error, DeviceLostError)
                    self.stopped[run] = [gate for runs in task.gates.values() for gate in runs]
            case Resolve(run):
                assert run not in self.resolved
                assert run.state in FINISHED
                self.resolved.add(run)
            case BeginCapture(run):
                self.capturing.append(run)

    def _submit(self, index: int) -> None:
        call = self.calls[index]
        run = Run(self.groups[call.group])
        self.runs.append(run)
        sources = [self.runs[source] for source in call.sources()]
        if any(source is None or source.footprint is None for source in sources):
            self.runs[index] = None
            return
        if call.signature is not None and call.signature not in self.captured:
            commands = self.step(Arrive(run, call.signature))
        else:
            self._bind(run)
            commands = self.step(Submit(run, call.is_inline), verify=False)
            if run in self.tasks and isinstance(commands[0], Start) and commands[0].inline:
                self._run_inline(run)
            if self.verifies:
                self.scheduler.verify()
        if any(isinstance(command, Reject) for command in commands):
            assert len(commands) == 1
            assert run.ticket == 0
            self.runs[index] = None

    def _bind(self, run: Run) -> None:
        call = self._call(run)
        footprint, keys = footprint_of(call, self.scheduler)
        run.bind(call.device, footprint, keys, [0] * len(keys))
        if call.has_output:
            run.outputs = [OUTPUTS_FROM + self.runs.index(run)]

    def _run_inline(self, run: Run) -> None:
        while run in self.tasks:
            task = self.tasks[run]
            self._run_part(run, next(part for part in task.left if self._may_run(run, task, part)))
        commands = self.step(self.inbox.pop(), verify=False)
        # What succeeds inline leaves nothing to release, and nobody to wake.
        assert len(commands) == (0 if run.state is State.DONE else 2)
        self.resolved.add(run)

    def _run_part(self, run: Run, part: int) -> None:
        task, call = self.tasks[run], self._call(run)
        if (part == call.fails_at or task.fails_now) and not task.is_spoilt:
            task.error, task.is_spoilt = KernelFailureError(), True
            self.failed.add(run)
        task.digests[part] = execute(call, self.runs.index(run), part, self.memory, task.digests, spoilt=task.is_spoilt)
        task.left.remove(part)
        if not task.left:
            if call.has_output:
                self.memory[OUTPUTS_FROM + self.runs.index(run)] = output(task.digests, spoilt=task.is_spoilt)
            del self.tasks[run]
            self.fired.add(run)
            self.inbox.append(RunDone(run) if task.error is None else RunFailed(run, task.error))

    def _fail_part(self, run: Run, part: int) -> None:
        self.disturbances_left -= 1
        self.tasks[run].fails_now = True
        self._run_part(run, part)

    def _end_capture(self, run: Run) -> None:
        self.capturing.remove(run)
        signature = self._call(run).signature
        assert signature is not None
        self.captured.add(signature)
        self._bind(run)
        self.step(Captured(run))

    def _fail_capture(self, run: Run) -> None:
        if run in self.capturing:
            self.capturing.remove(run)
            self.step(CaptureFailed(run, CaptureFailureError()))

    def _cancel(self, run: Run) -> None:
        self.disturbances_left -= 1
        self.step(CancelRequested(run))

    def _drop_wait(self, run: Run) -> None:
        self.disturbances_left -= 1
        self.step(WaitStarted(run))
        self.step(WaitCancelled(run, held=False))

    def _rejoin(self, run: Run) -> None:
        self.step(WaitStarted(run))

    def lose(self, device: str) -> None:
        """The device stops where it is. Reports that are on their way still come in."""
        self.lost.add(device)
        self.step(DeviceLost(device, RuntimeError("unplugged")))

    # Judging it.

    def judge(self) -> None:
        """Everything has ended, and as in the serial run of what was not dropped, in ticket order."""
        if self.verifies:
            self.scheduler.verify()
        runs = sorted((run for run in self.runs if run is not None), key=lambda run: run.ticket)
        assert all(run.state in FINISHED for run in runs), self.scheduler.story()
        assert self.resolved == set(runs)
        assert self.scheduler.is_idle
        assert all(group.running == 0 for group in self.groups)
        assert self.scheduler._ledger.tracker.entry_count == 0
        serial = Serial(failed=self.failed, lost=self.lost, is_past_deadline=self.is_past_deadline)
        for run in runs:
            serial.play(run, self._call(run), self.runs.index(run), self.digests.get(run, {}))
        for key, content in self.memory.items():
            for at, byte in enumerate(content):
                if (key, at) not in serial.void:
                    assert byte == content_of(serial.memory, key)[at], f"byte {at} of buffer {key}"
