"""Fences, waiters and ports: the one place where a device thread meets an event loop.

Law: nothing else in asyncjit waits for a device. Imports ``fences`` and ``ports`` only.

A **fence** is completion seen from any thread. A **port** belongs to one running event loop (asyncio, uvloop or a trio
run) and turns any number of completions that are due into one wake-up of that loop: the first post schedules a drain,
later posts only append. A loop that has closed in the meantime drops its wake-ups quietly: nobody is left to be woken.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Generator
from typing import Any

from asyncjit.fences import FIRED, Fence
from asyncjit.ports import INLINE_TURN_S, AsyncioPort, OnCancel, Port, TrioPort

__all__ = [
    "FIRED",
    "INLINE_TURN_S",
    "Fence",
    "Port",
    "current_port",
    "in_event_loop",
    "pace",
    "port_to_wait_in",
    "wait_blocking",
    "wait_fence",
]


class _ThreadPorts(threading.local):
    """The last port of this thread with the loop it belongs to: loops of one thread run one after another."""

    def __init__(self) -> None:
        self.loop: object = None
        self.port: Port | None = None


_ports = _ThreadPorts()


#: The port found last, by whichever thread: a replay asks twice, and a thread's own record costs 0.2 us more.
_latest: AsyncioPort | None = None


def current_port() -> Port | None:
    """The port of the event loop that runs in this thread, or None outside a loop."""
    global _latest
    trio = sys.modules.get("trio")
    # A trio run may be a guest of an asyncio loop: the task that runs now decides.
    loop = asyncio._get_running_loop() if trio is None or not trio.lowlevel.in_trio_task() else None
    if loop is not None:
        latest = _latest
        if latest is not None and latest.loop is loop:
            return latest
    ports = _ports
    if loop is not None:
        if ports.loop is not loop:
            ports.loop, ports.port = loop, AsyncioPort(loop)
        _latest = ports.port  # type: ignore[assignment]
        return ports.port
    if trio is not None and trio.lowlevel.in_trio_run():
        token = trio.lowlevel.current_trio_token()
        if ports.loop is not token:
            ports.loop, ports.port = token, TrioPort(trio, token)
        return ports.port
    return None


def in_event_loop() -> bool:
    """Whether blocking here would freeze an event loop."""
    return current_port() is not None


def port_to_wait_in() -> Port:
    """The port of the loop that runs in this thread.

    Raises:
        RuntimeError: none does.
    """
    port = current_port()
    if port is None:
        raise RuntimeError("awaited outside an event loop; use f.run(…) or replay.wait() in a plain script")
    return port


def wait_fence(fence: Fence, on_cancel: OnCancel) -> Generator[Any, Any, None]:
    """Suspend until the fence fires; see ``Port.wait``. Driven by a task of a running loop, else RuntimeError."""
    return port_to_wait_in().wait(fence, on_cancel)


def pace() -> Generator[Any, Any, None]:
    """For an ``await`` that need not wait: let the loop turn when this turn's inline work is used up."""
    port = current_port()
    if port is not None and port.is_long():
        yield from port.checkpoint()


def wait_blocking(fence: Fence, timeout_s: float | None = None) -> bool:
    """Block this thread until the fence fires, or the time is over; whether it fired. Ctrl-C interrupts the wait, not
    the work."""
    event = threading.Event()
    if fence.add_callback(event.set):
        try:
            return event.wait(timeout_s)
        finally:
            fence.discard_callback(event.set)
    return True
