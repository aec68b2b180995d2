"""What the scenarios share: loops of every kind, engines that are drained, and kernels that wait until they are let go.

Law: public surfaces and real devices only. Nothing sleeps; whatever has to be in the middle of something is held by an
event, and whatever waits for too long fails.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio.lowlevel
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice
from asyncjit.testing import SimDevice
from tests.surface.prefetching import PATIENCE_S, RUNS, Run, until, wait

__all__ = ["PATIENCE_S", "Update", "Work", "engine_of", "on_each_loop", "pings", "until", "value", "wait"]


def on_each_loop(test: Callable[[], Awaitable[None]]) -> Callable[[Run], None]:
    """Makes an async function a test that runs on asyncio, uvloop and trio, and that ends."""

    def on_loop(run: Run) -> None:
        run(test)

    on_loop.__name__, on_loop.__doc__, on_loop.__module__ = test.__name__, test.__doc__, test.__module__
    return pytest.mark.parametrize("run", RUNS.values(), ids=list(RUNS))(on_loop)


class Work:
    """A captured function ``f`` that doubles its argument in a kernel of the user's, on a worker.

    The kernel notes the first element that it is given in ``log`` and its thread in ``threads``. A held one waits at
    its start until it is let go.
    """

    def __init__(self, *, held: bool = False, inside: Callable[[], object] = lambda: None, **options: Any) -> None:
        self.log: list[float] = []
        self.threads: list[str] = []
        self.entered = threading.Event()
        self._open = threading.Event()
        self._inside = inside
        if not held:
            self._open.set()
        self.f: aj.JitFunction[[Any], Any] = aj.jit(self._function(), **options)

    def _function(self) -> Callable[[Any], Any]:
        @aj.kernel(writes="out")
        def double(out: Any, source: Any) -> None:
            self._begin(source)
            np.multiply(source, 2.0, out=out)

        def work(x: Any) -> Any:
            out = anp.empty(x.shape, x.dtype)
            double(out, x)
            return out

        return work

    def _begin(self, source: Any) -> None:
        self.log.append(float(source.flat[0]))
        self.threads.append(threading.current_thread().name)
        self.entered.set()
        wait(self._open)
        self._inside()

    def let_go(self) -> None:
        self._open.set()


class Update(Work):
    """The same, but ``f`` adds one to its argument in place."""

    def _function(self) -> Callable[[Any], Any]:
        @aj.kernel(reads_writes="target")
        def increment(target: Any) -> None:
            self._begin(target)
            target += 1.0

        def update(x: Any) -> None:
            increment(x)

        return update


@asynccontextmanager
async def engine_of(*works: Work, devices: Any = None, **options: Any) -> AsyncIterator[aj.Engine]:
    """An engine, with two workers unless told otherwise; held work is let go at the end, and nothing is left of it."""
    opened = [CpuDevice(workers=2)] if devices is None else devices
    async with aj.Engine(opened, **options) as engine:
        try:
            yield engine
        finally:
            for work in works:
                work.let_go()
            # A test that fails leaves work behind, which closing would wait for.
            for device in opened:
                if isinstance(device, SimDevice):
                    device.run_until_idle()
    statistics = engine.statistics()
    assert (statistics.queued, statistics.in_flight) == (0, 0)


async def pings(count: int) -> int:
    """How many turns of the loop answered a request that does nothing: all that were asked for, unless it hangs."""
    answered = 0
    for _ in range(count):
        await anyio.lowlevel.checkpoint()
        answered += 1
    return answered


def value(array: Any) -> float:
    """The one number that an array is filled with."""
    host = np.asarray(array)
    assert (host == host.flat[0]).all(), f"not one number: {host}"
    return float(host.flat[0])
