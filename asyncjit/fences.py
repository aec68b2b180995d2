"""Fences: completion, seen from any thread.

Law: nothing here waits. Standard library only.
"""

from __future__ import annotations

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
        self._callbacks: list[Callable[[], None]] = []

    @property
    def done(self) -> bool:
        return self._done

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Have ``callback`` called when the fence fires; False (and never called) when it has already fired."""
        if self._done:
            return False
        self._callbacks.append(callback)
        return not self._done or not self.discard_callback(callback)

    def discard_callback(self, callback: Callable[[], None]) -> bool:
        """Take a callback back; False when it was called, is being called, or was never added. Takes no lock."""
        try:
            self._callbacks.remove(callback)
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


#: Of whatever had ended before anybody could wait for it.
FIRED = Fence(done=True)
