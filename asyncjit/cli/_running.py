"""A command's coroutine on an event loop.

Law: how it is started and interrupted; what it does is the command's.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["run_loop"]

T = TypeVar("T")


def run_loop(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run ``function()`` to its end, as ``asyncio.run``; Ctrl-C cancels it and raises KeyboardInterrupt.

    asyncio takes Ctrl-C over when its loop is there. One that comes while the loop is being made or closed leaves half
    of it behind, which complains when it is collected: one in thirty did, of those sent early. So from the first line
    to the last a Ctrl-C is only noted, and cancels the task where there is one; the second one raises at once.
    """
    if threading.current_thread() is not threading.main_thread():
        return asyncio.run(function())
    presses: list[int] = []
    cancel: list[Callable[[], object]] = []

    def note(number: int, frame: object) -> None:
        presses.append(number)
        if len(presses) > 1:
            raise KeyboardInterrupt
        for each in cancel:
            each()

    async def started() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        if presses:
            task.cancel()
        try:
            return await function()
        finally:
            cancel.clear()

    before = signal.signal(signal.SIGINT, note)
    try:
        result = asyncio.run(started())
    except asyncio.CancelledError:
        if not presses:
            raise
    finally:
        signal.signal(signal.SIGINT, before)
    if presses:
        raise KeyboardInterrupt
    return result
