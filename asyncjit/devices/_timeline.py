"""The timeline of the simulated device: what will happen, and the trace of what did.

Law: data and a heap; knows no plans and no memory. Randomness is the seed's, time is virtual.
"""

from __future__ import annotations

import functools
import heapq
import math
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

    ``defer``, where given, is asked to call back whenever there is something to do; ``call_at`` to call back when the
    clock, which is then somebody else's to move, shows the time of the next thing. Thread: one.
    """

    def __init__(
        self,
        clock: VirtualClock,
        seed: int,
        step: Callable[[], bool],
        defer: Callable[[Callable[[], None]], object] | None,
        call_at: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self._clock = clock
        self._step = step
        self._defer = defer
        self._deferred = False
        self._call_at = call_at
        #: The earliest time for which ``call_at`` was asked and has not called yet.
        self._due_s = math.inf
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
        # A clock that is shared may be ahead already.
        self._clock.advance_to(max(time_s, self._clock.now_s()))
        return action

    def clear(self) -> None:
        self._heap.clear()

    def _ask_to_be_called(self) -> None:
        if self._defer is not None and not self._deferred:
            self._deferred = True
            self._defer(self._called)
        if self._call_at is not None and self._heap and self._heap[0][0] < self._due_s:
            self._due_s = self._heap[0][0]
            self._call_at(self._due_s, functools.partial(self._called_at, self._due_s))

    def _called_at(self, due_s: float) -> None:
        """It is ``due_s`` now, whatever rounding made of it on the way."""
        if due_s == self._due_s:
            self._due_s = math.inf
        if self._heap and self._heap[0][0] <= max(due_s, self._clock.now_s()):
            self._step()
        self._ask_to_be_called()

    def _called(self) -> None:
        self._deferred = False
        self._step()
        if self._heap:
            self._ask_to_be_called()
