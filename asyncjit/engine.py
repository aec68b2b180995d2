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
import time
import weakref
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from asyncjit.calling import Caller
from asyncjit.clock import Clock, MonotonicClock
from asyncjit.devices import open_device
from asyncjit.devices.base import Device
from asyncjit.errors import EngineClosedError, WouldBlockError
from asyncjit.guard import Guard
from asyncjit.program import Group
from asyncjit.replay import Replay
from asyncjit.runs import Close, CloseDeadline, DeviceLost, State
from asyncjit.scheduler import Scheduler, SchedulerStatistics
from asyncjit.streams import Fence, in_event_loop, wait_blocking, wait_fence

__all__ = ["Engine", "EngineStatistics", "Group", "current_engine", "default_engine"]

_logger = logging.getLogger("asyncjit.engine")

#: For threads that have nothing left to do, when the time to close is over.
GRACE_S = 0.5


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """A snapshot.

    Of this moment: ``queued`` replays wait for their turn; ``in_flight`` ones are on a device; ``frames`` are alive, in
    use or idle; ``memory_bytes`` are those of arrays and frames; ``tracker_entries`` of the hazard tracker.

    Since it was made: ``tickets``; ``in_flight_peak``; replays ``done``, ``failed``, ``cancelled``; ``inline`` ones,
    that ran on the thread that called; ``hops``, hand-overs of work to a worker. ``waits_issued``: waits that devices
    were told to make, of a stream for another of its plan, and of a segment for the end of an earlier replay.
    ``waits_avoided``: hazards that took none: those in a plan that the order of a stream or another wait implies, and
    those with an earlier replay that had ended when the later one was handed over. Inline replays, and plans in program
    order, whose hazards nobody looks for, add to neither. Eager operations and reads of state take tickets too.
    """

    tickets: int
    queued: int
    in_flight: int
    frames: int
    memory_bytes: int
    tracker_entries: int
    in_flight_peak: int
    done: int
    failed: int
    cancelled: int
    inline: int
    hops: int
    waits_issued: int
    waits_avoided: int
    devices: tuple[str, ...]


class Engine(Caller):
    """Runs replays on one or more devices.

    ``devices``: names ("cpu", "cpu:1") or ``Device`` objects; the first is the default. ``replays_queued_max`` and
    ``memory_bytes_max`` bound what is taken: a call beyond them raises EngineBusyError. As an async context manager it
    is the engine of the task inside the block, and is drained and closed at its end. Tasks that are not started in the
    block say ``with engine.use():``.

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
        _engines.add(self)

    def statistics(self) -> EngineStatistics:
        """What it has done and holds; immutable."""
        with self._lock:
            self._process_inbox()
            core: SchedulerStatistics = self._scheduler.statistics()
            memory_bytes = self._measured_bytes()
            waits_issued = core.gates + self._plan_waits
            waits_avoided = core.gates_avoided + self._plan_waits_avoided
        return EngineStatistics(
            tickets=core.tickets,
            queued=core.queued,
            in_flight=core.in_flight,
            frames=len(self._frames),
            memory_bytes=memory_bytes,
            tracker_entries=core.tracker_entries,
            in_flight_peak=core.in_flight_peak,
            done=core.done,
            failed=core.failed,
            cancelled=core.dropped,
            inline=core.inline,
            hops=sum(device.hops for device in self._devices.values()),
            waits_issued=waits_issued,
            waits_avoided=waits_avoided,
            devices=tuple(self._devices),
        )

    @property
    def memory_bytes(self) -> int:
        """Bytes of arrays and frames, as counted at the last call; takes no lock. ``statistics()`` counts anew."""
        return self._bytes

    def story(self, replay: Replay[Any] | None = None) -> list[tuple[int, str, State]]:
        """What happened, oldest first: (ticket, stimulus, state after it); to one replay, or to all."""
        with self._lock:
            self._process_inbox()
            return self._scheduler.story(None if replay is None else replay._run)

    @contextlib.contextmanager
    def use(self) -> Generator[Engine, None, None]:
        """Inside the ``with`` block this is the current engine, as in ``async with``; it stays open afterwards.

        For tasks and threads that did not inherit it from where it was opened: the requests of a server whose lifespan
        opened it, most of all.
        """
        _current.set((self, _current.get()))
        try:
            yield self
        finally:
            self._leave()

    # Closing.

    async def aclose(self, timeout_s: float | None = None) -> None:
        """Take no more calls, let what was taken finish, stop all threads.

        After ``timeout_s`` (default: ``close_timeout_s``) what has not started fails with EngineClosedError, and what
        still runs is left behind with a warning. Cancellation: finishes first, within that time, then the cancellation
        is delivered. May be called again. In a forked child: does nothing.
        """
        if self._is_foreign:
            return
        # A thread of its own: what closes a device blocks, and the loop's threads outlive the engine.
        closed = Fence()
        closing = threading.Thread(target=self._close, args=(timeout_s, closed), name="asyncjit-close", daemon=True)
        closing.start()
        try:
            await _Until(closed)
        finally:
            closing.join()

    def close(self, timeout_s: float | None = None) -> None:
        """``aclose`` for scripts: blocks this thread.

        Raises:
            WouldBlockError: in a running event loop.
        """
        if in_event_loop():
            raise WouldBlockError(
                "closing an engine waits for its work, which would freeze the event loop; use aclose()"
            )
        if not self._is_foreign:
            self._close(timeout_s, Fence())

    def _close(self, timeout_s: float | None, closed: Fence) -> None:
        limit_s = self._close_timeout_s if timeout_s is None else timeout_s
        deadline_s = time.monotonic() + limit_s
        try:
            with self._lock:
                self._unusable = self._unusable or "the engine was closed; open a new engine for new calls"
                if self._idle is None:
                    self._idle = Fence()
                idle = self._idle
            self._step(Close())
            # Threads with nothing left to do are given the time to end, however late it is.
            grace_s = GRACE_S if wait_blocking(idle, limit_s) else 0.0
            self._step(CloseDeadline())
            self._background.close(max(deadline_s - time.monotonic(), grace_s))
            for device in self._devices.values():
                left_s = max(deadline_s - time.monotonic(), grace_s)
                if not device.close(left_s):
                    self._leave_behind(device, limit_s)
            self.eager_programs.clear()
            _engines.discard(self)
        finally:
            closed.signal()

    def _leave_behind(self, device: Device, limit_s: float) -> None:
        _logger.warning("device %s was still busy after %.1f s and was left behind", device.name, limit_s)
        error = EngineClosedError(f"the engine was closed while {device.name!r} was busy, after {limit_s} s")
        self._step(DeviceLost(device.name, error))
        for joint in self._joints.values():
            joint.leave_behind(device.name, error)

    async def __aenter__(self) -> Engine:
        _current.set((self, _current.get()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave()
        await self.aclose()

    def _leave(self) -> None:
        current = _current.get()
        # Left in another context than entered, as fixtures do, there is nothing to set back.
        if current is not None and current[0] is self:
            _current.set(current[1])


class _Until:
    """Awaitable: the fence has fired. A cancellation waits for that."""

    __slots__ = ("_fence",)

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def __await__(self) -> Any:
        return wait_fence(self._fence, lambda is_closing: False)


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()

#: The engine opened last in this context, and what it was before.
_Current = tuple[Engine, "_Current | None"]
_current: contextvars.ContextVar[_Current | None] = contextvars.ContextVar("asyncjit_engine", default=None)
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
    current = _current.get()
    return default_engine() if current is None else current[0]


def _close_default() -> None:
    if _default and _default[0]._unusable is None:
        _default[0].close(5.0)


def _after_fork() -> None:
    """In the child: threads and locks of the parent's engines do not exist here, so the engines are of no use."""
    global _default_lock
    _default_lock = threading.Lock()
    for engine in list(_engines):
        engine._is_foreign = True
        engine._unusable = (
            "this engine belongs to the process that this one was forked from, and its threads stayed there; start "
            "workers with the 'spawn' method, or open an Engine in the child"
        )
        # Another thread of the parent may have held it.
        engine._lock = Guard(engine._signal_when_idle, engine._after_release)


atexit.register(_close_default)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
