"""Which threads a test has started: those of the default engine may be there from the tests before.

Law: a note at the start of each test, and the difference to it.
"""

from __future__ import annotations

import threading

__all__ = ["note_threads", "threads_since"]

_before: set[threading.Thread] = set()


def note_threads() -> None:
    """Take down the threads that are there now."""
    _before.clear()
    _before.update(threading.enumerate())


def threads_since(prefix: str) -> list[threading.Thread]:
    """The threads with such names that have come since."""
    return [each for each in threading.enumerate() if each.name.startswith(prefix) and each not in _before]
