"""The event loops that users have, and functions that run until they are let go.

Law: what tests of async surfaces share; nothing sleeps, and whatever waits for too long fails.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice

#: Only ever reached by a test that fails.
PATIENCE_S = 20.0

LOOPS = (
    "asyncio",
    pytest.param(
        "uvloop", marks=pytest.mark.skipif(importlib.util.find_spec("uvloop") is None, reason="uvloop is not here")
    ),
    "trio",
)


def run_in(loop: str, main: Callable[[], Awaitable[Any]], **engine: Any) -> Any:
    """Run ``main`` in a new loop, with an engine of its own of two workers that is drained afterwards."""

    async def inside() -> Any:
        with anyio.fail_after(PATIENCE_S):
            async with aj.Engine([CpuDevice(workers=2)], **engine) as current:
                result = await main()
        # Nothing may be left under way.
        statistics = current.statistics()
        assert (statistics.queued, statistics.in_flight) == (0, 0)
        return result

    options = {"use_uvloop": True} if loop == "uvloop" else {}
    result = anyio.run(inside, backend="trio" if loop == "trio" else "asyncio", backend_options=options)
    assert surface_threads() == []
    return result


def surface_threads() -> list[str]:
    """Threads of pipelines that are alive."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("asyncjit-pipeline")]


class Gate:
    """Says which values were worked on, and lets each go on when it is told to."""

    def __init__(self, *closed: float) -> None:
        self.entered: list[float] = []
        self._closed = {value: threading.Event() for value in closed}
        self._news = threading.Condition()

    def __call__(self, value: float) -> None:
        with self._news:
            self.entered.append(value)
            self._news.notify_all()
        if value in self._closed:
            assert self._closed[value].wait(PATIENCE_S), f"nobody let {value} go"

    def let_go(self, *values: float) -> None:
        for value in values or tuple(self._closed):
            self._closed[value].set()

    async def wait_for(self, value: float) -> None:
        """Wait until that value is worked on."""

        def wait() -> bool:
            with self._news:
                return self._news.wait_for(lambda: value in self.entered, PATIENCE_S)

        assert await anyio.to_thread.run_sync(wait), f"{value} was not worked on"


def through(work: Callable[[float], object], name: str = "through", **options: Any) -> aj.JitFunction[Any, Any]:
    """A jitted function that gives its argument back after ``work(first element)`` on a worker."""

    @aj.kernel(writes="out")
    def pass_on(out: Any, source: Any) -> None:
        work(float(source.flat[0]))
        out[...] = source

    def function(x: Any) -> Any:
        out = anp.empty(x.shape)
        pass_on(out, x)
        return out

    function.__name__ = function.__qualname__ = name
    return aj.jit(function, **options)


def fails_at(*values: float) -> Callable[[float], None]:
    """Work that raises on some values."""

    def work(value: float) -> None:
        if value in values:
            raise ZeroDivisionError(f"on purpose at {value}")

    return work


def items(count: int) -> list[np.ndarray[Any, Any]]:
    """Arrays that hold their place, 0.0 and up."""
    return [np.full(2, float(index)) for index in range(count)]


def value(array: Any) -> float:
    """What stands in an array of ``items``."""
    host = np.asarray(array)
    assert (host == host.flat[0]).all()
    return float(host.flat[0])


class Tracked:
    """A source that counts what was taken from it and knows that it was closed; plain, or async by ``of_async``."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.taken = 0
        self.closed = 0

    def plain(self) -> Any:
        try:
            for each in self.values:
                self.taken += 1
                yield each
        finally:
            self.closed += 1

    async def of_async(self) -> Any:
        try:
            for each in self.values:
                self.taken += 1
                await anyio.lowlevel.checkpoint()
                yield each
        finally:
            self.closed += 1

    def of_kind(self, kind: str) -> Any:
        return self.plain() if kind == "plain" else self.of_async()
