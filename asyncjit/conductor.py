"""The conductor: stimuli in, commands out, between the scheduler and the devices.

Law: decisions are the scheduler's; how word reaches it stands in ``inbox``. All of this runs under the lock, but for
reports and finalisers, which leave word.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from asyncjit.background import Background
from asyncjit.clock import Clock
from asyncjit.devices.base import Device, Frame, Runner, Submission
from asyncjit.errors import DeviceLostError, EngineClosedError
from asyncjit.failures import kept, kernel_error
from asyncjit.inbox import Inbox, Reading
from asyncjit.instruments import Instruments
from asyncjit.program import Group, Inputs, Loaded, Program, bind_run, bind_slots
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
    Submit,
)
from asyncjit.scheduler import Scheduler
from asyncjit.storage import Storage
from asyncjit.streams import Fence
from asyncjit.watches import Watches

__all__ = ["Conductor"]


class Conductor(Inbox):
    """Carries out the scheduler's commands. The engine adds what users call."""

    def __init__(self, devices: dict[str, Device], scheduler: Scheduler, clock: Clock) -> None:
        super().__init__(scheduler)
        self._devices = devices
        #: These, and several of them as one.
        self._runners: dict[str, Runner] = dict(devices)
        self.clock = clock
        self.instruments = Instruments()
        #: Bytes that came (positive) and went; finalisers append too. Summed up in ``_bytes``, under the lock.
        self._sizes: deque[int] = deque()
        self._bytes = 0
        #: One entry a frame that is alive. A list as a counter: append and pop are atomic.
        self._frames: list[None] = []
        #: Of plans handed to devices: waits between their streams, and hazards that needed none.
        self._plan_waits = self._plan_waits_avoided = 0
        #: Grows when state moves in memory, so that executables bind it anew.
        self._state_epoch = 0
        self._background = Background("asyncjit-engine")
        self._watches = Watches()

    # Commands.

    def _carry_out(self, commands: Sequence[Command]) -> None:
        """Under the lock."""
        for command in commands:
            kind, run = type(command), command.run
            context = run.context
            if type(context) is Reading:
                if kind is Start or kind is Resolve:
                    context.settled.signal()
            elif kind is Start:
                self._start(context, command)  # type: ignore[arg-type]
            elif kind is Release:
                self._release(context)
            elif kind is Resolve:
                self._conclude(context)
            elif kind is Skip:
                self._runners[run.device].skip(context.submission)
            elif kind is BeginCapture:
                self._begin_capture(context)

    @abstractmethod
    def _begin_capture(self, replay: Replay[Any]) -> None:
        """Have the function recorded for this replay; the caller's."""

    def _start(self, replay: Replay[Any], command: Start) -> None:
        gates: Mapping[int, Sequence[Fence]] = {}
        if command.gates:
            gates = {
                segment: [other.context.submission.fence for other in runs] for segment, runs in command.gates.items()
            }
        loaded: Loaded = replay.loaded
        submission = replay.submission = self._submission(loaded, gates, replay)
        submission.frame = loaded.take_frame(replay._run.group)  # type: ignore[arg-type]
        in_background = submission.frame is None and not loaded.executable.frames_are_cheap
        if not (in_background and self._background.submit(lambda: self._launch_later(submission, replay, loaded))):
            self._launch(submission, replay, loaded)

    def _submission(self, loaded: Loaded, gates: Any, replay: Replay[Any] | None) -> Submission:
        times: list[tuple[float, float, int] | None] | None = [] if self.instruments.takes_times else None
        values, report = replay.values if replay is not None else (), self._on_report
        return Submission(loaded.executable, None, (), gates, report, Fence(), False, replay, times, values)

    def _launch_later(self, submission: Submission, replay: Replay[Any], loaded: Loaded) -> None:
        try:
            submission.frame = self._new_frame(loaded)
        except BaseException as error:
            self._give_up(submission, RunFailed(replay._run, kept(error)))
            return
        with self._lock:
            self._process_inbox()
            if replay.submission is submission:
                self._launch(submission, replay, loaded)

    def _launch(self, submission: Submission, replay: Replay[Any], loaded: Loaded) -> None:
        """Give it to its device, under the lock. What goes wrong is its failure: others go on."""
        run: Run = replay._run
        replay.started_s = self.clock.now_s()
        if self.instruments.active:
            self._tell(self.instruments.replay_started, replay)
        try:
            if submission.frame is None:
                submission.frame = self._new_frame(loaded)
            if loaded.state_epoch != self._state_epoch:
                self._bind_state(replay.program, loaded)
            submission.bindings = bind_slots(replay.program, replay.inputs, replay.outputs)
            self._runners[run.device].submit(submission)
            self._plan_waits += loaded.waits
            self._plan_waits_avoided += loaded.waits_avoided
        except BaseException as error:
            lost = isinstance(error, DeviceLostError | EngineClosedError) and run.device in self._devices
            self._give_up(submission, DeviceLost(run.device, kept(error)) if lost else RunFailed(run, kept(error)))

    def _new_frame(self, loaded: Loaded) -> Frame:
        """It is counted, and so are its bytes, until the last reference to it is dropped, wherever that is."""
        frame = loaded.executable.create_frame()
        self._sizes.append(frame.nbytes)
        self._frames.append(None)
        weakref.finalize(frame, _forget_frame, self._sizes, self._frames, frame.nbytes).atexit = False
        return frame

    def _bind_state(self, program: Program, loaded: Loaded) -> None:
        """For who has found ``loaded.state_epoch`` out of date."""
        loaded.executable.bind_state([(slot, storage.memory, 0) for slot, storage in program.state.items()])
        loaded.state_epoch = self._state_epoch

    def _run_at_once(
        self, program: Program, loaded: Loaded, inputs: Inputs, group: Group, assemble: Any, values: Sequence[int]
    ) -> Replay[Any]:
        """Run it on this thread, under the lock, while the scheduler is quiet: see ``Scheduler.step_at_once``."""
        replay: Replay[Any] = Replay(self)  # type: ignore[arg-type]
        replay.program, replay._assemble = program, assemble
        if program.writes:
            replay.written = [*(inputs[slot][0] for slot in program.written_inputs), *program.written_state]
            for storage in replay.written:
                self._before_write(storage)
                storage.awaited = False
        runner = self._runners[program.device]
        bindings = [(storage.memory, offset) for storage, offset in inputs]
        bindings += program.state_bindings
        outputs = replay.outputs = []
        for allocate, nbytes, device in program.allocators_at(values) if values else program.allocators:
            memory = allocate()
            self._bytes += nbytes
            outputs.append(Storage(self, device, nbytes, memory))  # type: ignore[arg-type]
            bindings.append((memory, 0))
        if loaded.state_epoch != self._state_epoch:
            self._bind_state(program, loaded)
        submission = loaded.inline
        assert submission is not None
        submission.bindings, submission.values = bindings, values
        replay.submitted_s = replay.started_s = self.clock.now_s()
        error, call_index = runner.run_inline(submission)
        replay.done_s = self.clock.now_s()
        submission.bindings = ()
        run = replay._run = Run(group)
        if error is None:
            self._scheduler.step_at_once(run)
            if replay.written:
                _mark_written(replay)
                if self._watches.by_key:
                    bind_run(run, program, loaded, inputs, values)
                    self._watches.note(run)
        else:
            run.outputs = [storage.serial for storage in outputs]
            bind_run(run, program, loaded, inputs, values)
            self._scheduler.step(Submit(run, True))
            self._watches.note(run)
            self._scheduler.step(RunFailed(run, kernel_error(program, error, call_index)))
            self._note_failure(replay)
        return replay

    def _run_inline(self, replay: Replay[Any], run: Run, loaded: Loaded) -> None:
        """Run it on this thread, under the lock: nothing can come between, so nothing had to be recorded."""
        program: Program = replay.program
        now_s = self.clock.now_s
        for storage in replay.written:
            storage.awaited = False
        replay.submitted_s = replay.started_s = now_s()
        try:
            if loaded.state_epoch != self._state_epoch:
                self._bind_state(program, loaded)
            submission = loaded.inline or self._inline_submission(loaded)
            submission.bindings = bind_slots(program, replay.inputs, replay.outputs)
            submission.values = replay.values
            if self.instruments.takes_times:
                submission.times = []
            error, call_index = self._runners[program.device].run_inline(submission)
            submission.bindings = ()
            if submission.times is not None:
                replay.measured, submission.times = (loaded.plan, submission.times), None
        except BaseException as failure:
            # No memory for a frame; or Ctrl-C in between, which goes out when the books are in order.
            error, call_index = failure, None
            loaded.inline = None
        replay.done_s = now_s()
        if error is None:
            self._scheduler.step(RunDone(run))
            if replay.written:
                _mark_written(replay)
        else:
            self._scheduler.step(RunFailed(run, kernel_error(program, error, call_index)))
            self._note_failure(replay)
        replay.inputs = ()
        replay.loaded = run.context = None
        if self.instruments.active:
            self._tell(self.instruments.replay_submitted, replay)
            self._tell(self.instruments.replay_started, replay)
            self._tell_outcome(replay)

    def _inline_submission(self, loaded: Loaded) -> Submission:
        submission = self._submission(loaded, {}, None)
        submission.times = None
        submission.frame = self._new_frame(loaded)
        loaded.inline = submission
        return submission

    # Outcomes.

    def _on_report(self, submission: Submission, error: BaseException | None, call_index: int | None) -> None:
        """From a device thread: append, and drain unless somebody is at it."""
        replay: Replay[Any] = submission.context
        run = replay._run
        if error is None:
            self._inbox.append(RunDone(run))
            self.drain()
        elif isinstance(error, DeviceLostError) and run.device in self._devices:
            self.feed(DeviceLost(run.device, kept(error)))
        else:
            self.feed(RunFailed(run, kernel_error(replay.program, error, call_index)))

    def _release(self, replay: Replay[Any]) -> None:
        """The device has passed it: frame and bindings are free."""
        submission: Submission = replay.submission
        replay.submission = None
        if submission.times is not None:
            replay.measured = (replay.loaded.plan, submission.times)
        if isinstance(replay._run.error, DeviceLostError):
            # The device will not do it any more, and others may be waiting. Maybe it still touches the frame.
            self._give_up(submission, None)
        elif submission.frame is not None:
            replay.loaded.return_frame(submission.frame, replay._run.group)

    def _conclude(self, replay: Replay[Any]) -> None:
        """The outcome is known: arrays that it writes are not pending on it any more.

        From here on neither the scheduler nor its arrays lead back to it: what it holds goes with the last handle.
        """
        run = replay._run
        replay.done_s = self.clock.now_s()
        for storage in replay.outputs:
            storage.leave(replay)
        for storage in replay.written:
            storage.leave(replay)
        if run.state is not State.DONE:
            self._note_failure(replay)
        elif replay.written:
            _mark_written(replay)
        if replay._staged:
            replay._staged = [writer for writer in replay._staged if not writer.done()]
        replay.inputs = ()
        replay.prepare = replay.loaded = run.context = None
        self._ended.append(replay)
        if self.instruments.active and replay.program is not None:
            self._tell_outcome(replay)

    def _tell_outcome(self, replay: Replay[Any]) -> None:
        state, error = replay._run.state, replay._run.error
        if state is State.DONE:
            self._tell(self.instruments.replay_done, replay)
        elif state is State.DROPPED:
            self._tell(self.instruments.replay_cancelled, replay)
        else:
            assert error is not None
            self._tell(self.instruments.replay_failed, replay, error)

    def _note_failure(self, replay: Replay[Any]) -> None:
        run = replay._run
        error = run.error
        for storage in replay.outputs:
            storage.failure = error
            storage.poisoned = True
        if run.state is State.FAILED:
            for storage in replay.written:
                storage.failure = error
                storage.poisoned = True

    # Storage.

    def note_freed(self, storage: Storage) -> None:
        """Called by finalisers, at any point of any thread: appends and returns."""
        self._sizes.append(-storage.nbytes)
        if storage.poisoned:
            self._inbox.append(BufferFreed(storage.serial))

    def _measured_bytes(self) -> int:
        """Bytes in use; under the lock."""
        sizes = self._sizes
        while sizes:
            self._bytes += sizes.popleft()
        return self._bytes

    def _before_write(self, storage: Storage) -> None:
        """State from now on. Whoever holds a view keeps the old memory: no value that was read ever changes."""
        storage.is_state = True
        if storage.exported:
            memory = self._devices[storage.device].allocate(storage.nbytes)
            source = np.ndarray((storage.nbytes,), np.uint8, buffer=storage.memory)
            np.copyto(np.ndarray((storage.nbytes,), np.uint8, buffer=memory), source)
            storage.memory = memory
            storage.exported = False
            self._state_epoch += 1


def _forget_frame(sizes: deque[int], frames: list[None], nbytes: int) -> None:
    sizes.append(-nbytes)
    frames.pop()


def _mark_written(replay: Replay[Any]) -> None:
    for storage in replay.written:
        storage.failure = None
