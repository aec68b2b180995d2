"""Ports: the way into one event loop, of each kind.

Law: each port belongs to one loop and knows fences; which loop runs in a thread is found out in ``streams``.
"""

from __future__ import annotations

import asyncio
import functools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any, Protocol

import anyio

from asyncjit.fences import Fence

__all__ = ["AsyncioPort", "OnCancel", "Port", "TrioPort"]

#: Work done inline on a loop in one of its turns before an ``await`` of something finished lets the loop turn. See
#: docs/decisions/0004-inline-work.md.
INLINE_TURN_S = 200e-6

#: What the tasks that are let go on in one turn may take.
TURN_S = 0.5e-3

#: How many they are at first, and at most.
RELEASED_AT_FIRST = 2
RELEASED_MAX = 1024

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

    def is_long(self) -> bool:
        """Whether whoever awaits something finished should let the loop turn first."""
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


class _Turns(ABC):
    """What a loop does for replays in one of its turns: inline work, and tasks that go on.

    A loop runs everything that is due before it looks at its sockets and timers again. When sixty replays end at once,
    sixty tasks that each write a response would make one turn of many milliseconds, in which nothing else moves, and
    whose clients come back all together. So tasks are let go on in order, a few a turn: as many as fitted into
    ``TURN_S`` the last time, twice as many while they take a quarter of that.
    """

    inline_spent_s = 0.0
    _turn_began_s = 0.0

    def __init__(self) -> None:
        #: Those that may go on, oldest first.
        self._due: deque[Any] = deque()
        self._scheduled = False
        self._released_max = RELEASED_AT_FIRST
        self._released_s = 0.0

    def charge_inline(self, seconds: float) -> None:
        if not self.inline_spent_s:
            self._at_next_turn(self._start_turn)
            self._turn_began_s = perf_counter()
        self.inline_spent_s += seconds

    def _start_turn(self) -> None:
        self.inline_spent_s = 0.0

    def is_long(self) -> bool:
        """Whether this turn has done enough inline work, or taken enough time since the first of it."""
        spent = self.inline_spent_s
        return spent > INLINE_TURN_S or (spent > 0.0 and perf_counter() - self._turn_began_s > TURN_S)

    def _drain(self) -> None:
        """Let the oldest go on; the rest after those have had their turn."""
        self._scheduled = False
        due = self._due
        for _ in range(min(len(due), self._released_max)):
            self._release(due.popleft())
        if due:
            self._scheduled = True
            self._released_s = perf_counter()
            self._after_released(self._drain_more)

    def _drain_more(self) -> None:
        taken_s = perf_counter() - self._released_s
        if taken_s > TURN_S:
            self._released_max = max(1, self._released_max // 2)
        elif taken_s < TURN_S / 4:
            self._released_max = min(2 * self._released_max, RELEASED_MAX)
        self._drain()

    @abstractmethod
    def _at_next_turn(self, callback: Callable[[], None]) -> None:
        """Have it called in the next turn of the loop, after everything that is due by now."""

    def _after_released(self, callback: Callable[[], None]) -> None:
        """Have it called when those that may go on now have had their turn."""
        self._at_next_turn(callback)

    @abstractmethod
    def _release(self, entry: Any) -> None:
        """Let a task go on."""


class AsyncioPort(_Turns):
    """asyncio and every loop with its interface, uvloop among them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop

    def _at_next_turn(self, callback: Callable[[], None]) -> None:
        self.loop.call_soon(callback)

    def _post(self, future: asyncio.Future[None]) -> None:
        self._due.append(future)
        if not self._scheduled:
            self._scheduled = True
            loop = self.loop
            if asyncio._get_running_loop() is loop:
                # From its own thread it need not be woken, which would be two system calls more.
                loop.call_soon(self._drain)
                return
            try:
                loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                # The loop has closed, and with it every task that could have waited.
                self._due.clear()
                self._scheduled = False

    def _release(self, entry: asyncio.Future[None]) -> None:
        _settle(entry)

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
        future = self.loop.create_future()
        self._post(future)
        yield from future

    def current_task(self) -> object:
        return asyncio.current_task(self.loop)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        try:  # noqa: SIM105  suppress() costs 0.5 us
            future.set_result(None)
        except RuntimeError:
            # Its loop has closed.
            pass


class TrioPort(_Turns):
    """One trio run."""

    def __init__(self, trio: Any, token: Any) -> None:
        super().__init__()
        self._trio = trio
        self._token = token

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

    def _after_released(self, callback: Callable[[], None]) -> None:
        # Within one turn trio runs tasks and callbacks in any order, so it takes two to be after all of them.
        self._at_next_turn(functools.partial(self._at_next_turn, callback))

    def _release(self, entry: list[Any]) -> None:
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
