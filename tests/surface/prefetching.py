"""What the tests of ``prefetch`` share: loops of every kind, and proof that no thread is left.

Law: nothing sleeps; whatever has to be in the middle of something is held by an event.
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import anyio
import numpy as np
import trio

#: Only ever reached by a test that fails.
PATIENCE_S = 20.0

Run = Callable[[Callable[[], Awaitable[Any]]], Any]


async def bounded(main: Callable[[], Awaitable[Any]]) -> Any:
    """A test that would wait for ever fails."""
    with anyio.fail_after(PATIENCE_S):
        return await main()


def run_asyncio(main: Callable[[], Any]) -> Any:
    return asyncio.run(bounded(main))


def run_uvloop(main: Callable[[], Any]) -> Any:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(bounded(main))


def run_trio(main: Callable[[], Any]) -> Any:
    return trio.run(bounded, main)


RUNS: dict[str, Run] = {"asyncio": run_asyncio, "trio": run_trio}
if importlib.util.find_spec("uvloop") is not None:
    RUNS["uvloop"] = run_uvloop


def prefetch_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("asyncjit-prefetch")]


def wait(event: threading.Event) -> None:
    assert event.wait(PATIENCE_S), "nobody set the event"


async def until(event: threading.Event) -> None:
    """Wait for a thread's event without blocking the loop."""
    with anyio.fail_after(PATIENCE_S):
        await anyio.to_thread.run_sync(wait, event)


async def read_all(batches: AsyncIterator[Any]) -> list[Any]:
    return [batch async for batch in batches]


async def as_async(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        await anyio.lowlevel.checkpoint()
        yield item


def values(array: Any) -> Any:
    return np.asarray(array).tolist()
