"""asyncio in virtual time: timeouts, sleeps and simulated devices on one clock that jumps.

Law: one loop, one thread, one clock. Nothing here waits for real time to pass.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from asyncjit.clock import VirtualClock
from asyncjit.devices.sim import SimDevice

__all__ = ["VirtualTime"]

T = TypeVar("T")


class VirtualTime:
    """Virtual time for tests of code that uses asyncio: whenever all tasks wait, the clock jumps to what is due next.

    ``run`` runs a coroutine in a loop of its own, whose time is ``clock``'s; ``device`` makes a simulated device on the
    same clock, so that a timeout of half a second and a kernel of one meet in this order, at once and always. What real
    threads do takes no virtual time: a timer may fire before they are done. ``clock`` is for ``Engine(clock=…)``.
    """

    def __init__(self, now_s: float = 0.0) -> None:
        self.clock = VirtualClock(now_s)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """As ``asyncio.run``: blocks, cancels what is left, closes the loop. May be called again; time goes on.

        Raises:
            BaseException: whatever ``main`` raises.
        """
        with asyncio.Runner(loop_factory=lambda: _Loop(self.clock)) as runner:
            return runner.run(main)

    def device(self, name: str = "sim", **options: Any) -> SimDevice:
        """A ``SimDevice`` with these options on this clock, driven by the loop that runs. Call it inside ``run``."""
        return SimDevice(name, clock=self.clock, call_at=asyncio.get_running_loop().call_at, **options)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock) -> None:
        # asyncio asks for the time while it is being made.
        self._virtual_clock = clock
        super().__init__(_JumpingSelector(clock))

    def time(self) -> float:
        return self._virtual_clock.now_s()


class _JumpingSelector(selectors.DefaultSelector):
    """Where asyncio would sleep until a timer is due, the clock jumps there instead."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._virtual_clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0.0:
            return super().select(timeout)
        found = super().select(0)
        if not found:
            self._virtual_clock.advance_to(self._virtual_clock.now_s() + timeout)
        return found
