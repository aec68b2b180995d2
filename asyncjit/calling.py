"""Calls: tickets, first calls, and who waits; what a surface asks of an engine for each call.

Law: from any thread and any loop, and never waits. How commands are carried out stands in ``conductor``.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Hashable
from typing import Any

from asyncjit.errors import CaptureError, EngineBusyError, EngineClosedError
from asyncjit.failures import kernel_error, let_out_interrupt
from asyncjit.loading import recording
from asyncjit.program import Assemble, Group, Loaded, Prepared, Program, bind_run, bind_slots
from asyncjit.reading import Reader
from asyncjit.replay import Replay, afresh
from asyncjit.runs import (
    Arrive,
    BeginCapture,
    CancelRequested,
    Captured,
    CaptureFailed,
    Reject,
    ReleaseWaiter,
    Run,
    Start,
    State,
    Submit,
    WaitCancelled,
    WaitStarted,
)
from asyncjit.specialised import Values
from asyncjit.storage import Storage
from asyncjit.streams import FIRED, INLINE_TURN_S, Fence, current_port
from asyncjit.watches import Choice, Inputs

__all__ = ["Caller"]

#: What a call costs the loop besides its kernels. Charged with them, so that many tiny calls let the loop turn too.
HANDLING_S = 10e-6

#: Plans below this run on the loop in any case: handing them to a worker would cost the loop more, about 80 us. See
#: docs/decisions/0004-inline-work.md.
HAND_OVER_S = 50e-6


class Caller(Reader):
    """Takes calls. Thread: any."""

    def submit(
        self,
        program: Program,
        inputs: Inputs,
        group: Group,
        assemble: Assemble,
        choice: Choice | None = None,
        values: Values = (),
    ) -> Replay[Any]:
        """Take a ticket and start the work; never waits.

        ``inputs``: (storage, byte offset) of each INPUT slot. ``assemble`` builds the result from the output storages
        when somebody asks. ``choice`` may put another program of the same symbols and further inputs in place of these;
        ``values`` are those of the symbols.

        Raises:
            EngineBusyError: the queue or memory limit is reached; nothing was enqueued.
            EngineClosedError: the engine was closed or belongs to another process.
            DeviceOutOfMemoryError: there is no memory for the outputs; nothing was enqueued.
        """
        if self._unusable is not None:
            raise EngineClosedError(self._unusable)
        port = current_port()
        lock = self._lock
        lock.acquire()
        try:
            if self._inbox:
                self._process_inbox()
            program, inputs = (program, inputs) if choice is None else choice.choose(inputs, self._scheduler)
            loaded = program.loaded
            executable = loaded.executable
            inline = executable.runs_inline and (
                port is None or port.inline_spent_s < INLINE_TURN_S or executable.estimated_s < HAND_OVER_S
            )
            if inline and loaded.inline is not None and self._scheduler.is_quiet and not self.instruments.active:
                replay = self._run_at_once(program, loaded, inputs, group, assemble, values)
            else:
                replay = self._submit(Run(group), program, loaded, inputs, values, inline)
                replay._assemble = assemble
            if choice is not None:
                choice.learn(replay)
            if port is not None and replay.settled is FIRED:
                replay._port = port
                port.charge_inline(replay.done_s - replay.started_s + HANDLING_S)  # type: ignore[operator]
        finally:
            lock.release()
            if self._ended or self._inbox or self._news.jobs:
                self._after_release()
        if replay._run.error is not None:
            let_out_interrupt(replay._run.error)
        return replay

    def _submit(
        self, run: Run, program: Program, loaded: Loaded, inputs: Inputs, values: Values, inline: bool
    ) -> Replay[Any]:
        """Under the lock: take a ticket, then run it, hand it to its device, or queue it."""
        replay: Replay[Any] = Replay(self)
        replay._run, run.context = run, replay
        self._bind(replay, program, loaded, inputs, values)
        for storage in replay.written:
            self._before_write(storage)
        new_bytes = sum(each.nbytes for each in replay.outputs) if values else program.new_bytes
        commands = self._scheduler.step(Submit(run, inline, self._measured_bytes() - new_bytes, new_bytes))
        first = commands[0] if commands else None
        if replay.written and self._watches.by_key and type(first) is not Reject:
            self._watches.note(run)
        if type(first) is Start and first.inline:
            self._run_inline(replay, run, loaded)
        elif type(first) is Reject:
            run.context = None
            try:
                raise first.error
            finally:
                # The error remembers this frame. In a circle the outputs would count until the collector runs.
                del first, commands
        else:
            replay.settled = Fence()
            self._mark_pending(replay)
            self._carry_out(commands)
        return replay

    def _bind(self, replay: Replay[Any], program: Program, loaded: Loaded, inputs: Inputs, values: Values) -> None:
        """Bind a replay to a program: outputs, keys for the scheduler, memory for the device."""
        run = replay._run
        if program.allocators:
            outputs = []
            for allocate, nbytes, device in program.allocators_at(values) if values else program.allocators:
                memory = allocate()
                self._sizes.append(nbytes)
                outputs.append(Storage(self, device, nbytes, memory))
            run.outputs = [storage.serial for storage in outputs]
            replay.outputs = outputs
        replay.program = program
        replay.loaded = loaded
        replay.inputs = inputs
        replay.values = values
        bind_run(run, program, loaded, inputs, values)
        if program.writes:
            replay.written = [*(inputs[slot][0] for slot in program.written_inputs), *program.written_state]

    def _mark_pending(self, replay: Replay[Any]) -> None:
        """It does not run inline: arrays that it writes are pending until it ends."""
        if replay.submitted_s is None:
            replay.submitted_s = self.clock.now_s()
        for storage in replay.outputs:
            storage.writer = replay
        for storage in replay.written:
            storage.expect(replay)
            storage.awaited = False
        replay._staged = [storage.staging for storage, _ in replay.inputs if storage.staging is not None]
        if self.instruments.active:
            self._tell(self.instruments.replay_submitted, replay)

    def submit_first(self, group: Group, signature: Hashable, prepare: Callable[[], Prepared]) -> Replay[Any]:
        """A call whose signature is not captured: take the ticket, then record the function by ``prepare()``.

        If another call is capturing the same signature, this one waits its turn and ``prepare`` is called later, on a
        thread of the engine's, in a copy of this context; it should look first whether the signature is captured by
        then.

        Raises:
            CaptureError: this thread is recording for the same signature: the call would never end.
            BaseException: whatever ``prepare`` raised, when it was called here. Limits: as ``submit``.
        """
        if self._unusable is not None:
            raise EngineClosedError(self._unusable)
        if any(own.signature == (group, signature) for own in recording.runs):
            raise CaptureError(
                f"{group.name!r} calls itself, with arguments of the same kind, in aj.not_captured(), while it is "
                "recorded for these; call the plain function in the block",
                function=group.name,
            )
        replay: Replay[Any] = Replay(self)
        run = Run(group, replay)
        replay._run = run
        replay.settled = Fence()
        replay.prepare = (prepare, contextvars.copy_context())
        replay.submitted_s = self.clock.now_s()
        with self._lock:
            self._process_inbox()
            commands = self._scheduler.step(Arrive(run, signature))
        first = commands[0] if commands else None
        if isinstance(first, Reject):
            run.context = None
            raise first.error
        if isinstance(first, BeginCapture):
            error = self._capture(replay)
            if error is not None:
                raise error
            if run.state is State.DROPPED and isinstance(run.error, EngineBusyError):
                raise afresh(run.error)
        return replay

    def _begin_capture(self, replay: Replay[Any]) -> None:
        _, context = replay.prepare
        if not self._background.submit(lambda: context.run(self._capture, replay)):
            error = EngineClosedError("the engine was closed before it was this call's turn to record the function")
            self._inbox.append(CaptureFailed(replay._run, error))

    def _capture(self, replay: Replay[Any]) -> BaseException | None:
        """Have the function recorded for this replay, outside the lock, since that runs the user's code."""
        run = replay._run
        prepare, _ = replay.prepare
        was_active, recording.active = recording.active, True
        runs_before, recording.runs = recording.runs, (*recording.runs, run)
        try:
            program, inputs, replay._assemble, *values = prepare()
            self._bind(replay, program, program.loaded, inputs, *(values or ((),)))
            if self.instruments.active:
                self._tell(self.instruments.captured, program.name, program)
            with self._lock:
                for storage in replay.written:
                    self._before_write(storage)
        except BaseException as error:
            self.feed(CaptureFailed(run, error))
            return error
        finally:
            recording.active, recording.runs = was_active, runs_before
        with self._lock:
            self._process_inbox()
            self._mark_pending(replay)
            new_bytes = sum(each.nbytes for each in replay.outputs) if replay.values else program.new_bytes
            captured = Captured(run, self._measured_bytes() - new_bytes, new_bytes)
            commands = self._scheduler.step(captured)
            self._watches.note(run)
            self._carry_out(commands)
        return None

    def run_detached(self, program: Program, inputs: Inputs) -> list[Storage]:
        """Run a program whose buffers nobody else can see yet, on this thread, and return its outputs; takes no ticket.

        For constants that a capture makes once; they depend on no symbol.

        Raises:
            KernelError: a call failed.
        """
        outputs = self.new_outputs(program)
        loaded = program.loaded
        with self._lock:
            self._bind_state(program, loaded)
        submission = self._submission(loaded, {}, None)
        submission.bindings = bind_slots(program, inputs, outputs)
        submission.frame = loaded.executable.create_frame()
        error, call_index = self._runners[program.device].run_inline(submission)
        if error is not None:
            raise kernel_error(program, error, call_index)
        for storage in outputs:
            storage.awaited = True
        return outputs

    # Waiting, cancelling.

    def note_wait(self, run: Run) -> None:
        """Somebody waits for the run. Nothing follows from it at once, so it is seen to with the next thing that
        happens: the end of the run at the latest, or the end of this wait."""
        self.check_process()
        self._inbox.append(WaitStarted(run))
        if run.state is State.ABANDONED:
            self.drain()

    def cancel_wait(self, run: Run, held: bool) -> bool:
        """A waiter was cancelled; returns whether it may go at once."""
        return any(type(command) is ReleaseWaiter for command in self._step(WaitCancelled(run, held)))

    def drop_wait(self, run: Run, held: bool) -> None:
        """A waiter is no more. For finalisers: takes no lock; it is seen to with the next thing that happens."""
        self._inbox.append(WaitCancelled(run, held))

    def refuse_to_wait_for_self(self, run: Run) -> None:
        """Called before this thread blocks until the run has ended.

        Raises:
            CaptureError: this thread records a function, and the run stands behind the end of that recording.
        """
        if not recording.runs:
            return
        with self._lock:
            first = next((own for own in recording.runs if self._scheduler.stands_behind(own, run)), None)
        if first is not None:
            name = first.group.name
            raise CaptureError(
                f"{name!r}, which is recorded here, waits for a value that comes after it: another call of it has "
                "arrived meanwhile, and whatever is called behind it waits until it is known what it touches; call "
                f"`await {name}.prepare(…)` before calls may meet, or read the value before {name!r} is called",
                function=name,
            )

    def cancel_run(self, run: Run) -> None:
        """Remove the run if it has not started."""
        self._step(CancelRequested(run))
