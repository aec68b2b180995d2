"""The conductor: stimuli in, commands out, between the scheduler and the devices.

Law: decisions are the scheduler's. One lock guards it. Finalisers and completions never wait for that lock: they
append to the inbox, and whoever wins a non-blocking try drains it and looks again after letting go, so progress never
depends on a loop being alive and nothing is left behind. Waiters are woken after the lock is given back.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncjit.background import Background
from asyncjit.clock import Clock
from asyncjit.devices.base import Device, Frame, Submission
from asyncjit.errors import AsyncJitError, DeviceLostError, KernelError
from asyncjit.instruments import Instruments
from asyncjit.program import Group, Loaded, Program, bind_slots
from asyncjit.replay import Replay
from asyncjit.runs import (
    BeginCapture,
    BufferFreed,
    Command,
    DeviceLost,
    Release,
    Resolve,
    Run,
    RunDone,
    RunFailed,
    Skip,
    Start,
    State,
    Stimulus,
)
from asyncjit.scheduler import Scheduler
from asyncjit.storage import Storage
from asyncjit.streams import Fence

__all__ = ["Conductor"]

#: The fence of every replay that ran inline.
_FIRED = Fence(done=True)


@dataclass(slots=True, eq=False)
class DropReadSet(Stimulus):
    """A program is gone, and with it the tracker's entry for the state it reads. From a finaliser, so by the inbox."""

    read_set: Any


class Conductor:
    """Carries out the scheduler's commands. The engine adds what users call."""

    def __init__(self, devices: dict[str, Device], scheduler: Scheduler, clock: Clock) -> None:
        self._devices = devices
        self._scheduler = scheduler
        self.clock = clock
        self.instruments = Instruments()
        self._lock = threading.Lock()
        self._inbox: deque[Stimulus] = deque()
        self._freed: deque[int] = deque()
        self._bytes = 0
        #: Grows when state moves in memory, so that executables bind it anew.
        self._state_epoch = 0
        self._background = Background("asyncjit-engine")
        #: Fires when nothing is queued or running any more; made when somebody closes the engine.
        self._idle: Fence | None = None

    # The inbox.

    def feed(self, stimulus: Stimulus) -> None:
        """Tell the scheduler, from any thread and from finalisers; never waits for the lock."""
        self._inbox.append(stimulus)
        self._drain()

    def _drain(self) -> None:
        while self._inbox:
            if not self._lock.acquire(blocking=False):
                return
            try:
                resolved = self._process_inbox()
            finally:
                self._lock.release()
            settle(resolved)

    def _step(self, stimulus: Stimulus) -> list[Command]:
        """Tell the scheduler at once, after all that is in the inbox, and carry out what it asks for."""
        with self._lock:
            resolved = self._process_inbox()
            commands = self._scheduler.step(stimulus)
            resolved += self._carry_out(commands)
        settle(resolved)
        self._drain()
        return commands

    def _process_inbox(self) -> list[Replay[Any]]:
        resolved: list[Replay[Any]] = []
        inbox = self._inbox
        while inbox:
            stimulus = inbox.popleft()
            if isinstance(stimulus, DropReadSet):
                self._scheduler.drop_read_set(stimulus.read_set)
            else:
                resolved += self._carry_out(self._scheduler.step(stimulus))
        idle = self._idle
        if idle is not None and not idle.done and self._scheduler.is_idle:
            idle.signal()
        return resolved

    # Commands.

    def _carry_out(self, commands: Sequence[Command]) -> list[Replay[Any]]:
        """Carry out commands under the lock; returns the replays to wake once it is given back."""
        resolved: list[Replay[Any]] = []
        for command in commands:
            match command:
                case Start():
                    self._start(command)
                case Release(run):
                    self._release(run.context)
                case Resolve(run):
                    self._conclude(run.context)
                    resolved.append(run.context)
                case Skip(run):
                    self._devices[run.device].skip(run.context.submission)
                case BeginCapture(run):
                    self._begin_capture(run.context)
        return resolved

    def _begin_capture(self, replay: Replay[Any]) -> None:
        raise NotImplementedError

    def _start(self, command: Start) -> None:
        replay: Replay[Any] = command.run.context
        loaded: Loaded = replay.loaded
        self._bind_state(replay.program, loaded)
        gates = {segment: [run.context.submission.fence for run in runs] for segment, runs in command.gates.items()}
        bindings = bind_slots(replay.program, replay.inputs, replay.outputs)
        submission = self._submission(loaded, bindings, gates, replay)
        replay.submission = submission
        if self.instruments.active:
            self.instruments.replay_started(replay)
        submission.frame = loaded.take_frame(command.run.group)
        if submission.frame is None and not loaded.executable.frames_are_cheap:
            self._background.submit(lambda: self._launch(submission, loaded))
        else:
            self._launch(submission, loaded)

    def _submission(self, loaded: Loaded, bindings: Any, gates: Any, replay: Replay[Any] | None) -> Submission:
        times: list[tuple[float, float]] | None = [] if self.instruments.takes_times else None
        return Submission(
            loaded.executable, None, bindings, gates, self._on_report, Fence(), context=replay, times=times
        )

    def _launch(self, submission: Submission, loaded: Loaded) -> None:
        run: Run = submission.context._run
        submission.context.started_s = self.clock.now_s()
        try:
            if submission.frame is None:
                submission.frame = self._new_frame(loaded)
            self._devices[run.device].submit(submission)
        except BaseException as error:
            lost = isinstance(error, AsyncJitError) and not isinstance(error, MemoryError)
            self._inbox.append(DeviceLost(run.device, error) if lost else RunFailed(run, error))
            submission.fence.signal()
            self._background.submit(self._drain)

    def _new_frame(self, loaded: Loaded) -> Frame:
        frame = loaded.executable.create_frame()
        loaded.frames_made += 1
        self._bytes += frame.nbytes
        return frame

    def _bind_state(self, program: Program, loaded: Loaded) -> None:
        if loaded.state_epoch != self._state_epoch:
            loaded.state_epoch = self._state_epoch
            loaded.executable.bind_state([(slot, storage.memory, 0) for slot, storage in program.state.items()])

    def _run_inline(self, replay: Replay[Any], run: Run, loaded: Loaded) -> float:
        """Run it on this thread, under the lock: nothing can come between, so nothing had to be recorded.

        Returns the seconds it took.
        """
        program: Program = replay.program
        for storage in replay.written:
            self._before_write(storage)
            storage.awaited = False
        self._bind_state(program, loaded)
        submission = self._submission(loaded, bind_slots(program, replay.inputs, replay.outputs), {}, replay)
        frame = submission.frame = loaded.take_frame(run.group) or self._new_frame(loaded)
        start = replay.started_s = self.clock.now_s()
        error, call_index = self._devices[program.device].run_inline(submission)
        end = replay.done_s = self.clock.now_s()
        self._return_frame(loaded, frame, run.group)
        replay.inputs = ()
        if error is None:
            self._scheduler.step(RunDone(run))
        else:
            self._scheduler.step(RunFailed(run, kernel_error(program, error, call_index)))
            self._note_failure(replay)
        replay._settled = _FIRED
        return end - start

    # Outcomes.

    def _on_report(self, submission: Submission, error: BaseException | None, call_index: int | None) -> None:
        """From a device thread: append, and drain unless somebody is at it."""
        replay: Replay[Any] = submission.context
        run = replay._run
        if error is None:
            self.feed(RunDone(run))
        elif isinstance(error, DeviceLostError):
            self.feed(DeviceLost(run.device, error))
        else:
            self.feed(RunFailed(run, kernel_error(replay.program, error, call_index)))

    def _release(self, replay: Replay[Any]) -> None:
        """The device has passed it: frame and bindings are free."""
        submission: Submission = replay.submission
        replay.submission = None
        replay.inputs = ()
        if isinstance(replay._run.error, DeviceLostError):
            # The device will not do it any more, and others may be waiting.
            submission.fence.signal()
        elif submission.frame is not None:
            self._return_frame(replay.loaded, submission.frame, replay._run.group)

    def _return_frame(self, loaded: Loaded, frame: Frame, group: Group) -> None:
        dropped = loaded.return_frame(frame, group)
        if dropped is not None:
            self._bytes -= dropped.nbytes

    def _conclude(self, replay: Replay[Any]) -> None:
        """The outcome is known: arrays that it writes are not pending on it any more."""
        replay.done_s = self.clock.now_s()
        for storage in (*replay.outputs, *replay.written):
            if storage.writer is replay:
                storage.writer = None
        state = replay._run.state
        if state is not State.DONE:
            self._note_failure(replay)
        replay.prepare = None
        replay.loaded = None
        instruments = self.instruments
        if instruments.active:
            if state is State.DONE:
                instruments.replay_done(replay)
            elif state is State.DROPPED:
                instruments.replay_cancelled(replay)
            else:
                assert replay._run.error is not None
                instruments.replay_failed(replay, replay._run.error)

    def _note_failure(self, replay: Replay[Any]) -> None:
        for storage in replay.outputs:
            storage.failure = replay._run.error
            storage.poisoned = True
        if replay._run.state is State.FAILED:
            for storage in replay.written:
                storage.poisoned = True

    # Storage.

    def note_freed(self, storage: Storage) -> None:
        """Called by finalisers, at any point of any thread: appends and returns."""
        self._freed.append(storage.nbytes)
        if storage.poisoned:
            self._inbox.append(BufferFreed(storage.serial))

    def _measured_bytes(self) -> int:
        freed = self._freed
        while freed:
            try:
                self._bytes -= freed.popleft()
            except IndexError:
                break
        return self._bytes

    def _before_write(self, storage: Storage) -> None:
        """State from now on. Whoever holds a view keeps the old memory: no value that was read ever changes."""
        storage.is_state = True
        if storage.exported:
            storage.exported = False
            memory = self._devices[storage.device].allocate(storage.nbytes)
            source = np.ndarray((storage.nbytes,), np.uint8, buffer=storage.memory)
            np.copyto(np.ndarray((storage.nbytes,), np.uint8, buffer=memory), source)
            storage.memory = memory
            self._state_epoch += 1


def settle(resolved: Sequence[Replay[Any]]) -> None:
    """Wake the waiters, outside the lock."""
    for replay in resolved:
        replay.settle()


def kernel_error(program: Program, error: BaseException, call_index: int | None) -> BaseException:
    """What a failed call means to the user: which call of which function, with the cause chained."""
    if call_index is None or isinstance(error, AsyncJitError):
        return error
    call = program.schedule.calls[call_index]
    shapes = [f"{operand.dtype}{list(operand.shape)}" for operand in call.operands]
    where = f" (recorded at {call.source})" if call.source else ""
    failure = KernelError(
        f"call {call_index} of {program.name!r}, kernel {call.name!r} on {', '.join(shapes)}{where}, failed: "
        f"{type(error).__name__}: {error}; what this replay writes is invalid until it is overwritten",
        kernel=call.name,
        call_index=call_index,
        shapes=shapes,
        function=program.name,
    )
    failure.__cause__ = error
    return failure
