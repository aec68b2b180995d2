"""A scheduler with short words for what the unit tests do to it.

Law: one line a stimulus; nothing is decided here. Byte ranges are (buffer, start, stop).
"""

from __future__ import annotations

from collections.abc import Sequence

from asyncjit.deps import Region
from asyncjit.runs import (
    Arrive,
    CancelRequested,
    Captured,
    CaptureFailed,
    Command,
    Footprint,
    GroupState,
    Run,
    RunDone,
    RunFailed,
    Start,
    Stimulus,
    Submit,
    Touch,
    WaitCancelled,
    WaitStarted,
)
from asyncjit.scheduler import Scheduler

Range = tuple[int, int, int]

A: Range = (1, 0, 8)
B: Range = (2, 0, 8)


def bound(
    run: Run,
    *,
    reads: Sequence[Range] = (),
    writes: Sequence[Range] = (),
    outputs: Sequence[int] = (),
    device: str = "cpu",
    segment: int = 0,
    footprint: Footprint | None = None,
) -> Run:
    """Bind a run that touches everything in one segment."""
    keys = list(dict.fromkeys(key for key, _, _ in (*reads, *writes)))

    def touches(ranges: Sequence[Range]) -> tuple[Touch, ...]:
        return tuple(Touch(keys.index(key), start, stop, 0, 0) for key, start, stop in ranges)

    run.bind(device, footprint or Footprint(((segment, touches(reads), touches(writes)),)), keys, [0] * len(keys))
    run.outputs = outputs
    return run


class Driver:
    """``commands`` are those of the last step."""

    def __init__(self, *, replays_queued_max: int = 100, memory_bytes_max: int | None = None) -> None:
        self.scheduler = Scheduler(
            replays_queued_max=replays_queued_max, memory_bytes_max=memory_bytes_max, devices_ahead=["gpu"]
        )
        self.group = GroupState("f", in_flight_max=None)
        self.commands: list[Command] = []

    def step(self, stimulus: Stimulus) -> list[Command]:
        self.commands = self.scheduler.step(stimulus)
        return self.commands

    def new_run(
        self,
        *,
        reads: Sequence[Range] = (),
        writes: Sequence[Range] = (),
        outputs: Sequence[int] = (),
        device: str = "cpu",
        segment: int = 0,
        weights: Sequence[Range] = (),
        group: GroupState | None = None,
    ) -> Run:
        run = bound(
            Run(group or self.group), reads=reads, writes=writes, outputs=outputs, device=device, segment=segment
        )
        if weights:
            assert run.footprint is not None
            run.footprint.read_set = self.scheduler.read_set([Region(*weight) for weight in weights])
            run.footprint.read_set_segment = segment
        return run

    def call(
        self,
        *,
        reads: Sequence[Range] = (),
        writes: Sequence[Range] = (),
        outputs: Sequence[int] = (),
        device: str = "cpu",
        segment: int = 0,
        weights: Sequence[Range] = (),
        group: GroupState | None = None,
        inline: bool = False,
    ) -> Run:
        """Submit a run with a known footprint."""
        run = self.new_run(
            reads=reads,
            writes=writes,
            outputs=outputs,
            device=device,
            segment=segment,
            weights=weights,
            group=group,
        )
        self.step(Submit(run, inline))
        return run

    def first_call(self, signature: object = "s", group: GroupState | None = None) -> Run:
        run = Run(group or self.group)
        self.step(Arrive(run, signature))
        return run

    def captured(self, run: Run, *, memory_bytes: int = 0, new_bytes: int = 0) -> list[Command]:
        """The capture of a run that is bound, or else touches nothing, has ended."""
        if run.footprint is None:
            bound(run)
        return self.step(Captured(run, memory_bytes, new_bytes))

    def capture_failed(self, run: Run, error: BaseException) -> list[Command]:
        return self.step(CaptureFailed(run, error))

    def done(self, *runs: Run) -> None:
        for run in runs:
            self.step(RunDone(run))

    def failed(self, run: Run, error: BaseException | None = None) -> list[Command]:
        return self.step(RunFailed(run, error or ValueError("broken")))

    def cancel(self, run: Run) -> list[Command]:
        return self.step(CancelRequested(run))

    def wait(self, run: Run) -> None:
        self.step(WaitStarted(run))

    def drop_wait(self, run: Run, *, held: bool = False) -> list[Command]:
        return self.step(WaitCancelled(run, held))

    def started(self) -> list[Run]:
        """Runs that the last step started."""
        return [command.run for command in self.commands if isinstance(command, Start)]


def kinds(driver: Driver) -> list[type[Command]]:
    """Of the commands of the last step."""
    return [type(command) for command in driver.commands]
