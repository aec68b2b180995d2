"""The window: which items have been read and not yet delivered, and who may go on.

Law: state under one lock. It waits for nothing: whoever cannot go on is given a fence that fires when trying again is
worth it, and threads and tasks wait for that in their own ways. Times come in as arguments.

Bound: an item counts from the moment at which reading it begins to the moment at which the consumer has it, and at most
``read_ahead_max`` items count at a time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from asyncjit.fences import Fence
from asyncjit.streams import wait_blocking, wait_fence

__all__ = ["OVER", "Fired", "Outcome", "Over", "Window", "try_blocking", "try_waiting"]

T = TypeVar("T")


class Over:
    """Says that there is nothing more to come."""


OVER = Over()


class Outcome(NamedTuple):
    """What became of one item, and when it was ready."""

    value: Any
    error: BaseException | None
    ready_s: float


class Window:
    """Items on their way from the source to the consumer. Every method may be called from any thread."""

    def __init__(self, read_ahead_max: int, *, ordered: bool) -> None:
        self._lock = threading.Lock()
        self._read_ahead_max = read_ahead_max
        self._ordered = ordered
        self._read = 0
        self._delivered = 0
        #: How many items there are, once the source has said so.
        self._count: int | None = None
        #: An item failed or the block was left: nothing more is read.
        self._stopped = False
        self._over = False
        self._raw: deque[tuple[int, Any]] = deque()
        #: By index where the order is kept, else in the order of arrival.
        self._finished: dict[int, Outcome] = {}
        self._readers: deque[Fence] = deque()
        self._workers: deque[Fence] = deque()
        self._consumers: deque[Fence] = deque()
        self._produced_s = 0.0
        self._waited_s = 0.0
        self._blocked_s = 0.0

    # For the source.

    def reserve(self) -> int | Fence | Over:
        """The index of the next item to read; a fence while the window is full; OVER when none is wanted any more."""
        with self._lock:
            if self._stopped or self._count is not None:
                return OVER
            if self._read - self._delivered >= self._read_ahead_max:
                return _wait_in(self._readers)
            self._read += 1
            return self._read - 1

    def put(self, index: int, item: Any) -> None:
        """Item ``index`` was read and waits to be transformed."""
        with self._lock:
            if self._stopped:
                return
            self._raw.append((index, item))
            due = _first(self._workers)
        _signal(due)

    def exhausted(self, index: int) -> None:
        """The source ended where item ``index`` would have been."""
        with self._lock:
            self._count = index
            due = [*_all(self._workers), *_all(self._consumers)]
        _signal(due)

    # For whoever transforms.

    def take(self) -> tuple[int, Any] | Fence | Over:
        """The next item to transform; a fence while there is none; OVER when none will come."""
        with self._lock:
            if self._raw:
                return self._raw.popleft()
            if self._stopped or self._count is not None:
                return OVER
            return _wait_in(self._workers)

    def finish(self, index: int, value: Any, now_s: float) -> None:
        """Item ``index`` is ready."""
        with self._lock:
            if self._over:
                return
            self._finished[index] = Outcome(value, None, now_s)
            due = _first(self._consumers) if self._is_ready() else []
        _signal(due)

    def fail(self, index: int, error: BaseException, now_s: float) -> None:
        """Item ``index`` is the last to be delivered, and its outcome is ``error``. Nothing behind it is begun; what
        stands before it still is."""
        with self._lock:
            if self._over:
                return
            self._stopped = True
            dropped, self._raw = self._raw, deque(each for each in self._raw if each[0] < index)
            self._finished[index] = Outcome(None, error, now_s)
            due = [*_all(self._readers), *_all(self._workers)]
            due += _first(self._consumers) if self._is_ready() else []
        _signal(due)
        # Items may end in destructors of the user's, which run without the lock.
        del dropped

    # For the consumer.

    def deliver(self) -> Outcome | Fence | Over:
        """The next outcome; a fence while it is not there; OVER after the last. Each outcome is given out once."""
        with self._lock:
            if self._over or self._delivered == self._count:
                self._over = True
                due, got = _all(self._consumers), OVER
            elif not self._is_ready():
                return _wait_in(self._consumers)
            else:
                got, due = self._deliver_one()
        _signal(due)
        return got

    def _deliver_one(self) -> tuple[Any, list[Fence]]:
        outcome = self._finished.pop(self._delivered if self._ordered else next(iter(self._finished)))
        self._delivered += 1
        if outcome.error is not None:
            self._over = True
            self._finished.clear()
        over = self._over or self._delivered == self._count
        due = _all(self._consumers) if over else _first(self._consumers) if self._is_ready() else []
        return outcome, [*due, *_first(self._readers)]

    def _is_ready(self) -> bool:
        return self._delivered in self._finished if self._ordered else bool(self._finished)

    @property
    def is_ready(self) -> bool:
        """Whether ``deliver`` would give an outcome, or OVER, at this moment."""
        with self._lock:
            return self._over or self._delivered == self._count or self._is_ready()

    def forget(self, fence: Fence) -> None:
        """Whoever waited for ``fence`` has gone. Had it fired, somebody else is woken in its place."""
        with self._lock:
            for waiting in (self._readers, self._workers, self._consumers):
                if fence in waiting:
                    waiting.remove(fence)
                    return
            due = [*_first(self._readers), *_first(self._workers), *_first(self._consumers)]
        _signal(due)

    # The end, and figures.

    def close(self) -> None:
        """Nothing more is read, transformed or delivered; everybody who waits goes on and finds that out."""
        with self._lock:
            self._stopped = self._over = True
            dropped = self._raw, self._finished
            self._raw, self._finished = deque(), {}
            due = [*_all(self._readers), *_all(self._workers), *_all(self._consumers)]
        _signal(due)
        del dropped

    def note_produced(self, seconds: float) -> None:
        """Add time spent reading, transforming or copying."""
        with self._lock:
            self._produced_s += seconds

    def note_blocked(self, seconds: float) -> None:
        """Add time that the source waited for room."""
        with self._lock:
            self._blocked_s += seconds

    def note_waited(self, seconds: float) -> None:
        """Add time that a consumer waited for an item."""
        with self._lock:
            self._waited_s += seconds

    def figures(self) -> tuple[int, float, float, float]:
        """Outcomes delivered; seconds: of producing, that consumers waited, that the source waited for room."""
        with self._lock:
            return self._delivered, self._produced_s, self._waited_s, self._blocked_s


def _wait_in(waiting: deque[Fence]) -> Fence:
    fence = Fence()
    waiting.append(fence)
    return fence


def _first(waiting: deque[Fence]) -> list[Fence]:
    return [waiting.popleft()] if waiting else []


def _all(waiting: deque[Fence]) -> list[Fence]:
    fences = list(waiting)
    waiting.clear()
    return fences


def _signal(fences: list[Fence]) -> None:
    for fence in fences:
        fence.signal()


class Fired:
    """Awaitable: the fence has fired. With ``shielded`` a cancellation waits for that, else it lets go at once."""

    __slots__ = ("_fence", "_shielded")

    def __init__(self, fence: Fence, *, shielded: bool = False) -> None:
        self._fence = fence
        self._shielded = shielded

    def __await__(self) -> Generator[Any, Any, None]:
        return wait_fence(self._fence, lambda is_closing: not self._shielded)


def try_blocking(step: Callable[[], T | Over | Fence]) -> T | Over:
    """What ``step`` gives, as soon as it gives something; blocks this thread meanwhile."""
    while True:
        got = step()
        if not isinstance(got, Fence):
            return got
        wait_blocking(got)


async def try_waiting(step: Callable[[], T | Over | Fence], window: Window) -> T | Over:
    """``try_blocking`` for a task. Cancelled, it takes nothing."""
    while True:
        got = step()
        if not isinstance(got, Fence):
            return got
        try:
            await Fired(got)
        except BaseException:
            window.forget(got)
            raise
