"""The guard of one engine: its lock, and what has to happen after the lock is given back.

Law: whoever lets go looks again. Finalisers and completions never wait for the lock, they only leave word; so each
release is followed by a look at what was left meanwhile. Imports nothing of the project.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType

__all__ = ["Backlog", "Guard"]


class Guard:
    """A lock for ``with``. ``before_release`` is called with the lock, ``after_release`` without it, also after an
    exception. Not re-entrant. ``acquire`` and ``release`` are the bare lock's, for callers who do the rest themselves.
    """

    __slots__ = ("_after_release", "_before_release", "acquire", "release")

    def __init__(self, before_release: Callable[[], object], after_release: Callable[[], object]) -> None:
        lock = threading.Lock()
        self.acquire = lock.acquire
        self.release = lock.release
        self._before_release = before_release
        self._after_release = after_release

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._before_release()
        finally:
            self.release()
            self._after_release()


class Backlog:
    """Things to do, by whoever comes by, one at a time and in the order in which they were put in.

    ``put`` may be called anywhere, by finalisers too: it appends. ``work_off`` never waits: while another thread, or a
    caller further up this thread's stack, is at it, that one also takes what is put in meanwhile.
    """

    __slots__ = ("_busy", "jobs", "put")

    def __init__(self) -> None:
        self._busy = threading.Lock()
        #: What is left to do. To look at: an empty one is told from its deque at no cost.
        self.jobs: deque[Callable[[], object]] = deque()
        self.put = self.jobs.append

    def work_off(self) -> None:
        while self.jobs:
            if not self._busy.acquire(blocking=False):
                return
            try:
                while self.jobs:
                    self.jobs.popleft()()
            finally:
                self._busy.release()
