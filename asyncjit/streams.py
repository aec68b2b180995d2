"""Fences, waiters and ports: the one place where a device thread meets an event loop.

Law: nothing else in asyncjit wakes a coroutine. Imports nothing of the project above ``errors``.

A **fence** is completion seen from any thread. A **port** belongs to one running event loop (asyncio, uvloop or a trio
run) and turns any number of completions that are due into one wake-up of that loop: the first post schedules a drain,
later posts only append. A loop that has closed in the meantime drops its wake-ups quietly: nobody is left to be woken.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Protocol

__all__ = ["Fence", "Port", "current_port", "in_event_loop", "wait_blocking", "wait_fence"]

#: Work done inline on a loop in one of its turns before the rest goes to a worker; see ``Port.inline_spent_s``.
INLINE_TURN_S = 200e-6


class Fence:
    """Completion: done or not, once, seen from any thread.

    Callbacks run on the thread that signals, or not at all when ``add_callback`` returns False. Appending and popping
    lists are atomic (with and without the GIL), so each callback is taken by exactly one side and no lock is needed.
    """

    __slots__ = ("_callbacks", "_done")

    def __init__(self, done: bool = False) -> None:
        self._done = done
        self._callbacks: list[Callable[[], None]] | None = None

    @property
    def done(self) -> bool:
        return self._done

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Have ``callback`` called when the fence fires; False (and never called) when it has already fired."""
        if self._done:
            return False
        callbacks = self._callbacks
        if callbacks is None:
            with _fence_lock:
                callbacks = self._callbacks
                if callbacks is None:
                    callbacks = self._callbacks = []
        callbacks.append(callback)
        return not self._done or not self.discard_callback(callback)

    def discard_callback(self, callback: Callable[[], None]) -> bool:
        """Take a callback back; False when it was called, is being called, or was never added."""
        try:
            (self._callbacks or []).remove(callback)
        except ValueError:
            return False
        return True

    def signal(self) -> None:
        """Fire. Exactly one thread may call it, once."""
        self._done = True
        while self._callbacks:
            try:
                callback = self._callbacks.pop()
            except IndexError:
                return
            callback()


#: Guards the making of callback lists, which most fences never need.
_fence_lock = threading.Lock()


class Port(Protocol):
    """The way into one event loop."""

    #: Seconds of inline work in the current turn of the loop.
    inline_spent_s: float

    def charge_inline(self, seconds: float) -> None:
        """Add inline work to the current turn."""
        ...

    def wait(self, fence: Fence, on_cancel: Callable[[], bool]) -> Generator[Any, Any, None]:
        """Suspend the current task until ``fence`` fires.

        When the task is cancelled meanwhile, ``on_cancel()`` decides: True lets the cancellation out at once, False
        keeps waiting and lets it out when the fence has fired.
        """
        ...

    def checkpoint(self) -> Generator[Any, Any, None]:
        """Let the loop turn once."""
        ...

    def current_task(self) -> object:
        """The task that runs now."""
        ...


class _Budget:
    """Inline work of one loop turn. A callback that the loop runs in its next turn sets it back."""

    inline_spent_s = 0.0

    def charge_inline(self, seconds: float) -> None:
        if not self.inline_spent_s:
            self._at_next_turn(self._start_turn)
        self.inline_spent_s += seconds

    def _start_turn(self) -> None:
        self.inline_spent_s = 0.0

    def _at_next_turn(self, callback: Callable[[], None]) -> None:
        raise NotImplementedError


class _AsyncioPort(_Budget):
    """asyncio and every loop with its interface, uvloop among them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._thread_id = threading.get_ident()
        self._due: deque[asyncio.Future[None]] = deque()
        self._scheduled = False

    def _at_next_turn(self, callback: Callable[[], None]) -> None:
        self.loop.call_soon(callback)

    def _post(self, future: asyncio.Future[None]) -> None:
        if threading.get_ident() == self._thread_id:
            _settle(future)
            return
        self._due.append(future)
        if not self._scheduled:
            self._scheduled = True
            # RuntimeError: the loop has closed, and with it every task that could have waited.
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._scheduled = False
        due = self._due
        while due:
            _settle(due.popleft())

    def wait(self, fence: Fence, on_cancel: Callable[[], bool]) -> Generator[Any, Any, None]:
        cancellation: asyncio.CancelledError | None = None
        while True:
            future = self.loop.create_future()

            def wake(future: asyncio.Future[None] = future) -> None:
                self._post(future)

            if not fence.add_callback(wake):
                break
            try:
                yield from future
                break
            except asyncio.CancelledError as error:
                fence.discard_callback(wake)
                if on_cancel():
                    raise
                cancellation = error
            except BaseException:
                # The coroutine is being closed or thrown into: nobody waits any more.
                fence.discard_callback(wake)
                on_cancel()
                raise
        if cancellation is not None:
            raise cancellation

    def checkpoint(self) -> Generator[Any, Any, None]:
        yield

    def current_task(self) -> object:
        return asyncio.current_task(self.loop)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        with contextlib.suppress(RuntimeError):
            future.set_result(None)


class _TrioPort(_Budget):
    """One trio run."""

    def __init__(self, trio: Any) -> None:
        self._trio = trio
        self._token = trio.lowlevel.current_trio_token()
        self._due: deque[Any] = deque()
        self._scheduled = False

    def _at_next_turn(self, callback: Callable[[], None]) -> None:
        self._token.run_sync_soon(callback)

    def _post(self, task: Any) -> None:
        self._due.append(task)
        if not self._scheduled:
            self._scheduled = True
            with contextlib.suppress(self._trio.RunFinishedError):
                self._token.run_sync_soon(self._drain)

    def _drain(self) -> None:
        self._scheduled = False
        while self._due:
            entry = self._due.popleft()
            task, entry[0] = entry[0], None
            if task is not None:
                self._trio.lowlevel.reschedule(task)

    def wait(self, fence: Fence, on_cancel: Callable[[], bool]) -> Generator[Any, Any, None]:
        lowlevel = self._trio.lowlevel
        # A one-element box: whoever empties it, drain or cancellation, is the one that reschedules.
        entry = [lowlevel.current_task()]

        def wake() -> None:
            self._post(entry)

        def abort(raise_cancel: Any) -> Any:
            if fence.done or not on_cancel():
                return lowlevel.Abort.FAILED
            entry[0] = None
            fence.discard_callback(wake)
            return lowlevel.Abort.SUCCEEDED

        if fence.add_callback(wake):
            yield from lowlevel.wait_task_rescheduled(abort).__await__()
        # Level-triggered: a cancellation that had to wait is delivered here.
        yield from lowlevel.checkpoint_if_cancelled().__await__()

    def checkpoint(self) -> Generator[Any, Any, None]:
        yield from self._trio.lowlevel.checkpoint().__await__()

    def current_task(self) -> object:
        return self._trio.lowlevel.current_task()


class _ThreadPorts(threading.local):
    """The last port of this thread with the loop it belongs to: loops of one thread run one after another."""

    def __init__(self) -> None:
        self.loop: object = None
        self.port: Port | None = None


_ports = _ThreadPorts()


def current_port() -> Port | None:
    """The port of the event loop that runs in this thread, or None outside a loop."""
    loop = asyncio._get_running_loop()
    ports = _ports
    if loop is not None:
        if ports.loop is not loop:
            ports.loop, ports.port = loop, _AsyncioPort(loop)
        return ports.port
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        token = trio.lowlevel.current_trio_token()
        if ports.loop is not token:
            ports.loop, ports.port = token, _TrioPort(trio)
        return ports.port
    return None


def in_event_loop() -> bool:
    """Whether blocking here would freeze an event loop."""
    return current_port() is not None


def wait_fence(fence: Fence, on_cancel: Callable[[], bool]) -> Generator[Any, Any, None]:
    """Suspend until the fence fires; see ``Port.wait``. Must be driven by a task of a running loop."""
    port = current_port()
    if port is None:
        raise RuntimeError("awaited outside an event loop; use f.run(…) or replay.wait() in a plain script")
    return port.wait(fence, on_cancel)


def wait_blocking(fence: Fence, timeout_s: float | None = None) -> None:
    """Block this thread until the fence fires, or the time is over. Ctrl-C interrupts the wait, not the work."""
    event = threading.Event()
    if fence.add_callback(event.set):
        try:
            event.wait(timeout_s)
        finally:
            fence.discard_callback(event.set)
