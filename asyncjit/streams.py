"""Fences, and the one place where a device thread meets an event loop."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Fence"]


class Fence:
    """Completion of one submission: done or not, once, seen from any thread.

    Callbacks run on the thread that signals, or not at all when ``add_callback`` returns False. Appending and popping
    lists are atomic (with and without the GIL), so each callback is taken by exactly one side and no lock is needed.
    """

    __slots__ = ("_callbacks", "_done")

    def __init__(self, done: bool = False) -> None:
        self._done = done
        self._callbacks: list[Callable[[], None]] = []

    @property
    def done(self) -> bool:
        return self._done

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Have ``callback`` called when the fence fires; False (and never called) when it has already fired."""
        if self._done:
            return False
        self._callbacks.append(callback)
        if self._done:
            try:
                self._callbacks.remove(callback)
            except ValueError:
                return True
            return False
        return True

    def signal(self) -> None:
        self._done = True
        while self._callbacks:
            try:
                callback = self._callbacks.pop()
            except IndexError:
                return
            callback()
