"""Ports: the way into one event loop, of each kind.

Law: each port belongs to one loop and knows fences; which loop runs in a thread is found out in ``streams``.
"""

from __future__ import annotations

import asyncio
import functools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Protocol

import anyio

from asyncjit.fences import Fence

__all__ = ["AsyncioPort", "OnCancel", "Port", "TrioPort"]

#: Told when a task that waits is cancelled. Returns True to let the cancellation out at once, False to keep waiting and
#: let it out when the fence has fired. The argument is True where the waiter is being taken apart (its coroutine is
#: closed, maybe by the garbage collector in the middle of anything): then it must not wait for a lock, and what it
#: returns does not matter.
OnCancel = Callable[[bool], bool]


class Port(Protocol):
    """The way into one event loop."""

    #: Seconds of inline work in the current turn of the loop.
    inline_spent_s: float

    def charge_inline(self, seconds: float) -> None:
        """Add inline work to the current turn."""
        ...

    def wait(self, fence: Fence, on_cancel: OnCancel) -> Generator[Any, Any, None]:
        """Suspend the current task until ``fence`` fires; ``on_cancel`` decides what a cancellation does meanwhile."""
        ...

    def checkpoint(self) -> Generator[Any, Any, None]:
        """Let the loop turn once."""
        ...

    def current_task(self) -> object:
        """The task that runs now."""
        ...


class _Budget(ABC):
    """Inline work of one loop turn. A callback that the loop runs in its next turn sets it back."""

    inline_spent_s = 0.0

    def charge_inline(self, seconds: float) -> None:
        if not self.inline_spent_s:
            self._at_next_turn(self._start_turn)
        self.inline_spent_s += seconds

    def _start_turn(self) -> None:
        self.inline_spent_s = 0.0

    @abstractmethod
    def _at_next_turn(self, callback: Callable[[], None]) -> None:
        """Have it called in the next turn of the loop."""


class AsyncioPort(_Budget):
    """asyncio and every loop with its interface, uvloop among them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._due: deque[asyncio.Future[None]] = deque()
        self._scheduled = False

    def _at_next_turn(self, callback: Callable[[], None]) -> None:
        self.loop.call_soon(callback)

    def _post(self, future: asyncio.Future[None]) -> None:
        if asyncio._get_running_loop() is self.loop:
            _settle(future)
            return
        self._due.append(future)
        if not self._scheduled:
            self._scheduled = True
            try:
                self.loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                # The loop has closed, and with it every task that could have waited.
                self._due.clear()
                self._scheduled = False

    def _drain(self) -> None:
        self._scheduled = False
        due = self._due
        while due:
            _settle(due.popleft())

    def wait(self, fence: Fence, on_cancel: OnCancel) -> Generator[Any, Any, None]:
        try:
            yield from self._wait_once(fence)
            return
        except asyncio.CancelledError as error:
            if on_cancel(False):
                raise
            cancellation = error
        except GeneratorExit:
            on_cancel(True)
            raise
        except BaseException:
            # Thrown in by whoever drives the coroutine by hand: this waiter waits no more.
            on_cancel(False)
            raise
        yield from self._wait_shielded(fence)
        try:
            raise cancellation
        finally:
            del cancellation

    def _wait_shielded(self, fence: Fence) -> Generator[Any, Any, None]:
        """Wait on, whoever cancels the task.

        anyio cancels a task again in every turn of the loop until it gives in; its shield spares the loop that spin.
        """
        shield = anyio.CancelScope(shield=True)
        shield.__enter__()
        while True:
            try:
                yield from self._wait_once(fence)
            except asyncio.CancelledError:
                continue
            except GeneratorExit:
                # The task is no more; the scope can only be left from inside of it.
                raise
            except BaseException:
                shield.__exit__(None, None, None)
                raise
            shield.__exit__(None, None, None)
            return

    def _wait_once(self, fence: Fence) -> Generator[Any, Any, None]:
        future = self.loop.create_future()
        wake = functools.partial(self._post, future)
        if fence.add_callback(wake):
            try:
                yield from future
            except BaseException:
                fence.discard_callback(wake)
                raise

    def checkpoint(self) -> Generator[Any, Any, None]:
        yield

    def current_task(self) -> object:
        return asyncio.current_task(self.loop)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        try:  # noqa: SIM105  suppress() costs 0.5 us
            future.set_result(None)
        except RuntimeError:
            # Its loop has closed.
            pass


class TrioPort(_Budget):
    """One trio run."""

    def __init__(self, trio: Any, token: Any) -> None:
        self._trio = trio
        self._token = token
        self._due: deque[list[Any]] = deque()
        self._scheduled = False

    def _at_next_turn(self, callback: Callable[[], None]) -> None:
        self._token.run_sync_soon(callback)

    def _post(self, entry: list[Any]) -> None:
        self._due.append(entry)
        if not self._scheduled:
            self._scheduled = True
            try:
                self._token.run_sync_soon(self._drain)
            except self._trio.RunFinishedError:
                self._due.clear()
                self._scheduled = False

    def _drain(self) -> None:
        self._scheduled = False
        while self._due:
            entry = self._due.popleft()
            task, entry[0] = entry[0], None
            if task is not None:
                self._trio.lowlevel.reschedule(task)

    def wait(self, fence: Fence, on_cancel: OnCancel) -> Generator[Any, Any, None]:
        lowlevel = self._trio.lowlevel
        # A one-element box: whoever empties it, drain or cancellation, is the one that reschedules.
        entry = [lowlevel.current_task()]
        wake = functools.partial(self._post, entry)

        def abort(raise_cancel: Any) -> Any:
            if fence.done or not on_cancel(False):
                return lowlevel.Abort.FAILED
            entry[0] = None
            fence.discard_callback(wake)
            return lowlevel.Abort.SUCCEEDED

        if fence.add_callback(wake):
            try:
                yield from lowlevel.wait_task_rescheduled(abort).__await__()
            except GeneratorExit:
                entry[0] = None
                fence.discard_callback(wake)
                on_cancel(True)
                raise
        # Level-triggered: a cancellation that had to wait is delivered here.
        yield from lowlevel.checkpoint_if_cancelled().__await__()

    def checkpoint(self) -> Generator[Any, Any, None]:
        yield from self._trio.lowlevel.checkpoint().__await__()

    def current_task(self) -> object:
        return self._trio.lowlevel.current_task()
