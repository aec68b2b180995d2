"""The engine: what users and the surfaces call, from any thread and any loop.

Law: it makes storage, loads programs, takes calls and closes; how commands are carried out stands in ``conductor``.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import logging
import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import anyio
import anyio.to_thread
import numpy as np

from asyncjit.clock import Clock, MonotonicClock
from asyncjit.conductor import kernel_error, settle
from asyncjit.devices import open_device
from asyncjit.devices.base import Device
from asyncjit.errors import (
    EngineBusyError,
    EngineClosedError,
    WouldBlockError,
)
from asyncjit.loading import Loader, recording
from asyncjit.program import Group, Loaded, Program, bind_slots
from asyncjit.replay import Replay
from asyncjit.runs import (
    Arrive,
    BeginCapture,
    CancelRequested,
    Captured,
    CaptureFailed,
    Close,
    CloseDeadline,
    DeviceLost,
    Footprint,
    Reject,
    ReleaseWaiter,
    Run,
    RunDone,
    Start,
    State,
    Submit,
    Touch,
    WaitCancelled,
    WaitStarted,
)
from asyncjit.scheduler import Scheduler, SchedulerStatistics
from asyncjit.storage import Storage
from asyncjit.streams import INLINE_TURN_S, Fence, current_port, in_event_loop, wait_blocking, wait_fence

__all__ = ["Engine", "EngineStatistics", "Group", "current_engine", "default_engine"]

_logger = logging.getLogger("asyncjit.engine")

Assemble = Callable[[list[Storage]], Any]
Inputs = Sequence[tuple[Storage, int]]


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """A snapshot: counts since the engine was made; what is queued, in flight and allocated is of this moment."""

    tickets: int
    queued: int
    in_flight: int
    in_flight_peak: int
    done: int
    failed: int
    cancelled: int
    inline: int
    waits: int
    tracker_entries: int
    memory_bytes: int
    devices: tuple[str, ...]


class Engine(Loader):
    """Runs replays on one or more devices.

    ``devices``: names ("cpu", "cpu:1") or ``Device`` objects; the first is the default. ``replays_queued_max`` and
    ``memory_bytes_max`` bound what is taken: a call beyond them raises EngineBusyError. As an async context manager it
    is the engine of the task inside the block, and is drained and closed at its end.

    Thread: every method may be called from any thread.
    """

    def __init__(
        self,
        devices: Iterable[str | Device] = ("cpu",),
        *,
        replays_queued_max: int = 10_000,
        memory_bytes_max: int | None = None,
        close_timeout_s: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        opened = [open_device(device) if isinstance(device, str) else device for device in devices]
        if not opened:
            raise ValueError("an engine needs at least one device; the default is devices=('cpu',)")
        by_name = {device.name: device for device in opened}
        if len(by_name) != len(opened):
            raise ValueError(f"two devices have the same name: {[device.name for device in opened]}")
        scheduler = Scheduler(
            replays_queued_max=replays_queued_max,
            memory_bytes_max=memory_bytes_max,
            devices_ahead=[device.name for device in opened if device.capabilities.submits_ahead],
        )
        super().__init__(by_name, scheduler, clock or MonotonicClock(), memory_bytes_max)
        self._close_timeout_s = close_timeout_s
        #: Why it takes no calls, once it does not.
        self._unusable: str | None = None
        self._tokens: list[contextvars.Token[Engine | None]] = []
        _engines.add(self)

    # Calls.

    def submit(self, program: Program, inputs: Inputs, group: Group, assemble: Assemble) -> Replay[Any]:
        """Take a ticket and start the work; never waits.

        ``inputs``: (storage, byte offset) of each INPUT slot. ``assemble`` builds the result from the output storages;
        it is called once, when somebody asks.

        Raises:
            EngineBusyError: the queue or memory limit is reached; nothing was enqueued.
            EngineClosedError: the engine was closed or belongs to another process.
        """
        replay: Replay[Any] = Replay(self)
        run = Run(group, replay)
        replay._run = run
        loaded = self._bind(replay, program, inputs, assemble)
        port = current_port()
        inline = loaded.executable.runs_inline and (port is None or port.inline_spent_s < INLINE_TURN_S)
        resolved: list[Replay[Any]] = []
        lock = self._lock
        lock.acquire()
        try:
            if self._inbox:
                resolved = self._process_inbox()
            commands = self._scheduler.step(Submit(run, inline, self._measured_bytes(), program.new_bytes))
            first = commands[0] if commands else None
            if type(first) is Start and first.inline:
                elapsed_s = self._run_inline(replay, run, loaded)
                if port is not None:
                    port.charge_inline(elapsed_s)
            elif type(first) is Reject:
                raise first.error
            else:
                self._mark_pending(replay)
                resolved += self._carry_out(commands)
        finally:
            lock.release()
            if resolved:
                settle(resolved)
            if self._inbox:
                self._drain()
        if run.error is not None and isinstance(run.error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt
        if self.instruments.active:
            self._tell_submitted(replay)
        return replay

    def _tell_submitted(self, replay: Replay[Any]) -> None:
        self.instruments.replay_submitted(replay)
        if self.instruments.active and replay.started_s is not None and replay.inputs == () and replay.done():
            self.instruments.replay_done(replay)

    def _bind(self, replay: Replay[Any], program: Program, inputs: Inputs, assemble: Assemble) -> Loaded:
        """Bind a replay to a program: outputs, keys for the scheduler, memory for the device."""
        if self._unusable is not None:
            raise EngineClosedError(self._unusable)
        loaded = program.loaded
        run = replay._run
        if program.output_specs:
            name = program.device
            allocate = self._devices[name].allocate_array
            outputs = [
                Storage(self, name, nbytes, allocate(shape, dtype)) for shape, dtype, nbytes in program.output_specs
            ]
            self._bytes += program.new_bytes
            run.outputs = [storage.serial for storage in outputs]
            replay.outputs = outputs
        replay._assemble = assemble
        replay.program = program
        replay.loaded = loaded
        replay.inputs = inputs
        run.bind(
            program.device,
            loaded.footprint,
            [storage.serial for storage, _ in inputs] + program.state_keys,
            [offset for _, offset in inputs] + program.state_shifts,
        )
        if program.writes:
            replay.written = [*(inputs[slot][0] for slot in program.written_inputs), *program.written_state]
        return loaded

    def _mark_pending(self, replay: Replay[Any]) -> None:
        """It does not run inline: arrays that it writes are pending until it ends."""
        for storage in replay.outputs:
            storage.writer = replay
        for storage in replay.written:
            self._before_write(storage)
            storage.writer = replay
            storage.awaited = False
        for storage, _ in replay.inputs:
            if storage.staging is not None:
                replay._staged.append(storage.staging)

    def submit_first(
        self, group: Group, signature: Hashable, prepare: Callable[[], tuple[Program, Inputs, Assemble]]
    ) -> Replay[Any]:
        """A call whose signature is not captured: take the ticket, then record the function by ``prepare()``.

        If another call is capturing the same signature, this one waits its turn and ``prepare`` is called later, on a
        thread of the engine's, in a copy of this context; it should look first whether the signature is captured by
        then.

        Raises:
            BaseException: whatever ``prepare`` raised, when it was called here. Limits: as ``submit``.
        """
        if self._unusable is not None:
            raise EngineClosedError(self._unusable)
        replay: Replay[Any] = Replay(self)
        run = Run(group, replay)
        replay._run = run
        replay.prepare = (prepare, contextvars.copy_context())
        with self._lock:
            resolved = self._process_inbox()
            commands = self._scheduler.step(Arrive(run, signature))
        settle(resolved)
        self._drain()
        first = commands[0] if commands else None
        if isinstance(first, Reject):
            raise first.error
        if isinstance(first, BeginCapture):
            error = self._capture(replay)
            if error is not None:
                raise error
            if isinstance(run.error, (EngineBusyError, EngineClosedError)):
                raise run.error
        return replay

    def _begin_capture(self, replay: Replay[Any]) -> None:
        _, context = replay.prepare
        self._background.submit(lambda: context.run(self._capture, replay))

    def _capture(self, replay: Replay[Any]) -> BaseException | None:
        """Have the function recorded for this replay, outside the lock, since that runs the user's code."""
        run = replay._run
        prepare, _ = replay.prepare
        was_active, recording.active = recording.active, True
        try:
            program, inputs, assemble = prepare()
            self._bind(replay, program, inputs, assemble)
        except BaseException as error:
            self.feed(CaptureFailed(run, error))
            return error
        finally:
            recording.active = was_active
        if self.instruments.active:
            self.instruments.captured(program.name, program)
        with self._lock:
            resolved = self._process_inbox()
            self._mark_pending(replay)
            captured = Captured(run, self._measured_bytes(), program.new_bytes)
            resolved += self._carry_out(self._scheduler.step(captured))
        settle(resolved)
        self._drain()
        return None

    def run_detached(self, program: Program, inputs: Inputs) -> list[Storage]:
        """Run a program whose buffers nobody else can see yet, on this thread, and return its outputs; takes no ticket.

        For constants that a capture makes once.

        Raises:
            KernelError: a call failed.
        """
        outputs = [self.new_storage(program.device, *spec) for spec in program.output_specs]
        loaded = program.loaded
        with self._lock:
            self._bind_state(program, loaded)
        submission = self._submission(loaded, bind_slots(program, inputs, outputs), {}, None)
        submission.frame = loaded.executable.create_frame()
        error, call_index = self._devices[program.device].run_inline(submission)
        if error is not None:
            raise kernel_error(program, error, call_index)
        for storage in outputs:
            storage.awaited = True
        return outputs

    # Reading, waiting, cancelling.

    def read_state(self, storage: Storage, start: int, stop: int, read: Callable[[], np.ndarray]) -> np.ndarray:
        """Read bytes that replays write in place, under one ticket, when nothing earlier writes them any more.

        Raises:
            DependencyError: a replay that should have written them failed.
            WouldBlockError: a replay writes them since they were awaited, and a loop runs in this thread.
        """
        footprint = Footprint(((0, (Touch(0, start, stop, 0, 0),), ()),))
        while True:
            run = Run(self.eager_group)
            run.bind(storage.device, footprint, [storage.serial], [0])
            with self._lock:
                resolved = self._process_inbox()
                commands = self._scheduler.step(Submit(run, True))
                inline = any(type(command) is Start and command.inline for command in commands)
                if inline:
                    value = read()
                    self._scheduler.step(RunDone(run))
                elif run.error is None:
                    self._scheduler.step(CancelRequested(run))
            settle(resolved)
            self._drain()
            if inline:
                return value
            if run.state is State.FAILED and run.error is not None:
                raise run.error
            if in_event_loop():
                raise WouldBlockError("a replay that was called since the array was awaited writes it; await it again")
            writer = storage.writer
            if writer is not None:
                writer.wait()

    def note_wait(self, run: Run) -> None:
        """Somebody waits for the run."""
        self.feed(WaitStarted(run))

    def cancel_wait(self, run: Run, held: bool) -> bool:
        """A waiter was cancelled; returns whether it may go at once."""
        return any(type(command) is ReleaseWaiter for command in self._step(WaitCancelled(run, held)))

    def cancel_run(self, run: Run) -> None:
        """Remove the run if it has not started."""
        self._step(CancelRequested(run))

    def statistics(self) -> EngineStatistics:
        """What it has done and holds; immutable."""
        with self._lock:
            core: SchedulerStatistics = self._scheduler.statistics()
            memory_bytes = self._measured_bytes()
        return EngineStatistics(
            tickets=core.tickets,
            queued=core.queued,
            in_flight=core.in_flight,
            in_flight_peak=core.in_flight_peak,
            done=core.done,
            failed=core.failed,
            cancelled=core.dropped,
            inline=core.inline,
            waits=core.waits,
            tracker_entries=core.tracker_entries,
            memory_bytes=memory_bytes,
            devices=tuple(self._devices),
        )

    def story(self, replay: Replay[Any] | None = None) -> list[tuple[int, str, State]]:
        """What happened, oldest first: (ticket, stimulus, state after it); to one replay, or to all."""
        with self._lock:
            return self._scheduler.story(None if replay is None else replay._run)

    # Closing.

    async def aclose(self, timeout_s: float | None = None) -> None:
        """Take no more calls, let what was taken finish, stop all threads.

        After ``timeout_s`` (default: ``close_timeout_s``) what has not started fails with EngineClosedError, and what
        still runs is left behind with a warning. Cancellation: finishes first, within that time. May be called again.
        """
        limit_s = self._close_timeout_s if timeout_s is None else timeout_s
        idle = self._begin_close()
        with anyio.move_on_after(limit_s, shield=True):
            await _Until(idle)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._end_close, limit_s)

    def close(self, timeout_s: float | None = None) -> None:
        """``aclose`` for scripts: blocks this thread.

        Raises:
            WouldBlockError: in a running event loop.
        """
        if in_event_loop():
            raise WouldBlockError(
                "closing an engine waits for its work, which would freeze the event loop; use aclose()"
            )
        limit_s = self._close_timeout_s if timeout_s is None else timeout_s
        wait_blocking(self._begin_close(), limit_s)
        self._end_close(limit_s)

    def _begin_close(self) -> Fence:
        self._unusable = self._unusable or "the engine was closed; open a new engine for new calls"
        if self._idle is None:
            self._idle = Fence()
        self.feed(Close())
        return self._idle

    def _end_close(self, timeout_s: float) -> None:
        self.feed(CloseDeadline())
        self._background.close(timeout_s)
        for device in self._devices.values():
            if not device.close(timeout_s):
                _logger.warning("device %s was still busy after %.1f s and was left behind", device.name, timeout_s)
                error = EngineClosedError(f"the engine was closed while {device.name!r} was busy, after {timeout_s} s")
                self.feed(DeviceLost(device.name, error))
        self.eager_programs.clear()
        _engines.discard(self)

    async def __aenter__(self) -> Engine:
        self._tokens.append(_current.set(self))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # ValueError: left in another context than entered, as fixtures do; there is nothing to set back there.
        with contextlib.suppress(ValueError):
            _current.reset(self._tokens.pop())
        await self.aclose()


class _Until:
    """Awaitable: the fence has fired."""

    __slots__ = ("_fence",)

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def __await__(self) -> Any:
        yield from wait_fence(self._fence, lambda: True)


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
_current: contextvars.ContextVar[Engine | None] = contextvars.ContextVar("asyncjit_engine", default=None)
_default_lock = threading.Lock()
_default: list[Engine] = []


def default_engine() -> Engine:
    """The one engine of this process that is used where no other is open; made on first use, closed at exit."""
    if not _default:
        with _default_lock:
            if not _default:
                _default.append(Engine())
    return _default[0]


def current_engine() -> Engine:
    """The innermost engine that this task has opened with ``async with``, else the default one."""
    return _current.get() or default_engine()


def _close_default() -> None:
    if _default and _default[0]._unusable is None:
        _default[0].close(5.0)


def _after_fork() -> None:
    """In the child: threads and locks of the parent's engines do not exist here, so the engines are of no use."""
    for engine in list(_engines):
        engine._unusable = (
            "this engine belongs to the process that this one was forked from, and its threads stayed there; start "
            "workers with the 'spawn' method, or open an Engine in the child"
        )


atexit.register(_close_default)
os.register_at_fork(after_in_child=_after_fork)
