"""The timeline of the simulated device: what will happen, and the trace of what did.

Law: data and a heap; knows no plans and no memory. Randomness is the seed's, time is virtual.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import NamedTuple

from asyncjit.clock import VirtualClock

__all__ = ["Timeline", "TraceEntry"]


class TraceEntry(NamedTuple):
    """One thing that happened. ``kind`` is one of "submitted", "segment started", "segment skipped", "call done",
    "call failed", "segment done", "lost", "reported" and "inline"; numbers count from 0, -1 is for no such thing."""

    time_s: float
    kind: str
    submission: int
    segment: int = -1
    call: int = -1


class Timeline:
    """What will happen, in order of virtual time; things at the same time in an order drawn from the seed.

    ``defer``, where given, is asked to call back whenever there is something to do. Thread: one.
    """

    def __init__(
        self,
        clock: VirtualClock,
        seed: int,
        step: Callable[[], bool],
        defer: Callable[[Callable[[], None]], object] | None,
    ) -> None:
        self.random = random.Random(seed)
        self._clock = clock
        self._step = step
        self._defer = defer
        self._deferred = False
        self._count = 0
        #: Heap of (time, tie-break from the seed, serial number, what).
        self._heap: list[tuple[float, float, int, Callable[[], None]]] = []

    @property
    def next_s(self) -> float | None:
        """When the next thing happens."""
        return self._heap[0][0] if self._heap else None

    def add(self, delay_s: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self._clock.now_s() + delay_s, self.random.random(), self._count, action))
        self._ask_to_be_called()

    def pop(self) -> Callable[[], None]:
        """Take the next thing off and advance the clock to it."""
        time_s, _, _, action = heapq.heappop(self._heap)
        self._clock.advance_to(time_s)
        return action

    def clear(self) -> None:
        self._heap.clear()

    def _ask_to_be_called(self) -> None:
        if self._defer is not None and not self._deferred:
            self._deferred = True
            self._defer(self._called)

    def _called(self) -> None:
        self._deferred = False
        self._step()
        if self._heap:
            self._ask_to_be_called()
