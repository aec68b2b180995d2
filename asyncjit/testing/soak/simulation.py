"""An engine whose every part is driven from outside: simulated devices, its helper thread, and a scheduler that checks.

Law: the production engine and scheduler, nothing of them replaced but the helper thread; what happens next is decided
in ``play``.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from asyncjit import ports
from asyncjit.background import Background
from asyncjit.clock import Clock
from asyncjit.devices.sim import CallFault, Fault, LossFault, MemoryFault, SimDevice
from asyncjit.errors import InternalError
from asyncjit.ir import Call, Copy
from asyncjit.replay import Replay
from asyncjit.runs import STARTED, Close, Command, Start, Stimulus
from asyncjit.scheduler import Scheduler
from asyncjit.testing.soak.program import DeviceOptions, Program
from asyncjit.testing.soak.records import InjectedError
from asyncjit.testing.soak.stage import Recording

__all__ = ["CheckedScheduler", "SimulatedEngine", "loops_paced_by", "open_device"]


@contextmanager
def loops_paced_by(clock: Clock) -> Iterator[None]:
    """Event loops look at this clock, and not at the machine's, for how long a turn has been: so a seed does the same
    however busy the machine is."""
    scope = vars(ports)
    before, scope["perf_counter"] = scope["perf_counter"], clock.now_s
    try:
        yield
    finally:
        scope["perf_counter"] = before


class CheckedScheduler(Scheduler):
    """Checks its invariants after every step, and with other means that no group is given more room than it has.

    What does not hold goes to ``violations``: raised in the middle of a report, it would be lost on the device.
    """

    verifies = True
    violations: tuple[BaseException, ...] = ()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        #: The engine is being closed.
        self.closing = threading.Event()

    def step(self, stimulus: Stimulus) -> list[Command]:
        """As ``Scheduler.step``. What that raises is a violation too."""
        if type(stimulus) is Close:
            self.closing.set()
        try:
            commands = super().step(stimulus)
            starts = [command for command in commands if type(command) is Start]
            if self.verifies and not (starts and starts[0].inline):
                self.verify()
                for start in starts:
                    self._check_room(start)
        except Exception as error:
            self.violations += (error,)
            raise
        return commands

    def _check_room(self, start: Start) -> None:
        group = start.run.group
        running = sum(run.group is group and run.state in STARTED for run in self._ledger.live.values())
        if group.in_flight_max is not None and running > group.in_flight_max:
            raise InternalError(
                f"{running} replays of {group.name!r} run, {group.in_flight_max} may", story=self.story()
            )


class _Jobs(Background):
    """What the helper thread would do, one job at a time, when somebody says so."""

    def __init__(self) -> None:
        super().__init__("asyncjit-simulated")
        self.jobs: deque[Callable[[], object]] = deque()

    def submit(self, job: Callable[[], object]) -> bool:
        self.jobs.append(job)
        return True

    def close(self, timeout_s: float) -> bool:
        while self.jobs:
            self.jobs.popleft()()
        return super().close(timeout_s)


class SimulatedEngine(Recording):
    """An engine on simulated devices that does nothing by itself."""

    def __init__(self, program: Program, *, verifies: bool = True) -> None:
        self.simulated = [open_device(f"sim{index}", options) for index, options in enumerate(program.devices)]
        super().__init__(
            self.simulated,
            replays_queued_max=program.replays_queued_max,
            memory_bytes_max=program.memory_bytes_max,
            clock=self.simulated[0].clock,
        )
        self._scheduler: CheckedScheduler = CheckedScheduler(
            replays_queued_max=program.replays_queued_max,
            memory_bytes_max=program.memory_bytes_max,
            devices_ahead=[device.name for device in self.simulated if device.capabilities.submits_ahead],
        )
        self._scheduler.verifies = verifies
        self._background = self.helper = _Jobs()
        #: Where it is set, whoever makes a replay sees to it that all happens that has to: for threads that block.
        self.pump: Callable[[], bool] | None = None

    def submit(self, *arguments: Any) -> Replay[Any]:
        """As ``Engine.submit``."""
        return self._pumped(super().submit(*arguments))

    def submit_first(self, *arguments: Any) -> Replay[Any]:
        """As ``Engine.submit_first``."""
        return self._pumped(super().submit_first(*arguments))

    def _pumped(self, replay: Replay[Any]) -> Replay[Any]:
        if self.pump is not None:
            while not replay.done():
                # The thread would wait for ever.
                assert self.pump(), f"{replay} does not end, and nothing is left to do: {self.story()[-40:]}"
        return replay

    @property
    def busy(self) -> list[SimDevice]:
        """Devices that have something to do."""
        return [device for device in self.simulated if device._timeline.next_s is not None]


def open_device(name: str, options: DeviceOptions) -> SimDevice:
    """The simulated device that a program asks for."""
    durations = random.Random(options.seed)

    def duration(call: Call | Copy) -> float:
        return float(1 + durations.randrange(options.slow_calls))

    faults: list[Fault] = [CallFault(run, call, InjectedError()) for run, call in options.broken_calls]
    faults += [MemoryFault(number) for number in options.full_allocations]
    if options.lost_at_s is not None:
        faults.append(LossFault(options.lost_at_s))
    return SimDevice(
        name,
        seed=options.seed,
        streams_max=options.streams_max,
        workers=options.workers,
        hop_s=options.hop_s,
        submits_ahead=options.submits_ahead,
        inline_s_max=options.inline_s_max,
        duration=duration,
        faults=faults,
    )
