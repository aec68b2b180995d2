"""A small world for batched functions: a device that moves when it is told to, and callers whose ends are kept.

Law: nothing here waits for time. ``Callers.settle`` returns when every task waits for something.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import numpy as np

import asyncjit as aj
from asyncjit.testing import SimDevice

#: Longer than any test: what ends it is not the time.
FOREVER_S = 3600.0

BACKENDS = ("asyncio", "trio")


class Callers:
    """Calls in tasks of their own: results and errors by name."""

    def __init__(self, group: anyio.abc.TaskGroup, device: SimDevice) -> None:
        self.group = group
        self.device = device
        self.results: dict[str, Any] = {}
        self.errors: dict[str, BaseException] = {}
        self.scopes: dict[str, anyio.CancelScope] = {}

    def start(self, name: str, call: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> None:
        self.group.start_soon(self._call, name, call, args, kwargs)

    async def _call(self, name: str, call: Any, args: Any, kwargs: Any) -> None:
        with anyio.CancelScope() as self.scopes[name]:
            try:
                self.results[name] = await call(*args, **kwargs)
            except Exception as error:
                self.errors[name] = error

    async def started(self, name: str, call: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> None:
        """Start it, and let it get as far as it can."""
        self.start(name, call, *args, **kwargs)
        await self.settle()

    async def settle(self) -> None:
        await anyio.wait_all_tasks_blocked()

    async def finish(self) -> None:
        """Let the device and the callers do all that they can."""
        await self.settle()
        while self.device.step():
            await self.settle()

    def values(self, name: str) -> list[Any]:
        values: list[Any] = np.asarray(self.results[name]).tolist()
        return values


@asynccontextmanager
async def callers(device: SimDevice | None = None) -> AsyncIterator[Callers]:
    """Callers on an engine whose device stands still."""
    device = device or SimDevice(seed=3)
    async with aj.Engine([device]), anyio.create_task_group() as group:
        try:
            yield Callers(group, device)
        finally:
            # A test that fails leaves work behind, which closing would wait for.
            device.run_until_idle()


def rows(*firsts: float, width: int = 2, dtype: str = "float64") -> np.ndarray[Any, Any]:
    """One row for each number, filled with it."""
    return np.repeat(np.array(firsts, dtype)[:, None], width, axis=1)


def run(main: Callable[[], Awaitable[None]], backend: str) -> None:
    anyio.run(main, backend=backend)
