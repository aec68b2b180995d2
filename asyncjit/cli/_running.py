"""A command's coroutine on an event loop.

Law: how it is started and interrupted; what it does is the command's.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["run_loop"]

T = TypeVar("T")


def run_loop(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run ``function()`` to its end, as ``asyncio.run``; Ctrl-C cancels it and raises KeyboardInterrupt.

    A Ctrl-C that comes while the loop is being made would leave half of one behind, which complains when it is
    collected: about one in thirty did, of those sent as early. It is held back until the coroutine runs.
    """
    mask = getattr(signal, "pthread_sigmask", None)

    async def started() -> T:
        if mask is not None:
            mask(signal.SIG_SETMASK, before)
        return await function()

    before = mask(signal.SIG_BLOCK, {signal.SIGINT}) if mask is not None else set()
    try:
        return asyncio.run(started())
    finally:
        if mask is not None:
            mask(signal.SIG_SETMASK, before)
