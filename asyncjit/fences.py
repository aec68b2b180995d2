"""Fences: completion, seen from any thread.

Law: nothing here waits. Standard library only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

__all__ = ["FIRED", "Fence"]


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
        """Take a callback back; False when it was called, is being called, or was never added. Takes no lock."""
        try:
            (self._callbacks or []).remove(callback)
        except ValueError:
            return False
        return True

    def signal(self) -> None:
        """Fire. A second time changes nothing. A callback that raises does not keep the others from being called."""
        self._done = True
        while self._callbacks:
            try:
                callback = self._callbacks.pop()
            except IndexError:
                return
            try:
                callback()
            except BaseException:
                self.signal()
                raise


#: Guards the making of callback lists, which most fences never need.
_fence_lock = threading.Lock()


def _after_fork() -> None:
    """In the child: another thread of the parent may have held the lock."""
    global _fence_lock
    _fence_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


#: Of whatever had ended before anybody could wait for it.
FIRED = Fence(done=True)
