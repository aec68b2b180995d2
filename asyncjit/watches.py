"""Watches: whether bytes may have been written since a ticket was taken.

Law: bookkeeping of tickets by byte ranges, under the engine's lock; it holds no replay up and computes nothing. For a
choice among programs that keeps something that was computed from state, and has to know when it is out of date.

A run is noted when its ticket and what it writes are both known. So a watch says the truth about all tickets below the
next one as long as no call is being recorded that has its ticket already; the scheduler knows whether one is
(``Scheduler.is_certain``).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from asyncjit.deps import Region, overlap
from asyncjit.program import Inputs, Program
from asyncjit.replay import Replay
from asyncjit.runs import Run
from asyncjit.scheduler import Scheduler

__all__ = ["Choice", "Inputs", "Watch", "Watches"]


class Choice(Protocol):
    """Which of several programs with the same results a call replays; asked under the lock, at the call's ticket."""

    def choose(self, inputs: Inputs, scheduler: Scheduler) -> tuple[Program, Inputs]: ...

    def learn(self, replay: Replay[Any]) -> None:
        """What came of it."""


class Watch:
    """Byte ranges, and the latest ticket that may have written some of them. Watched as long as somebody holds it."""

    __slots__ = ("__weakref__", "regions", "written_at")

    def __init__(self, regions: Iterable[Region], ticket: int) -> None:
        self.regions: dict[int, list[Region]] = {}
        for region in regions:
            self.regions.setdefault(region.key, []).append(region)
        #: Nothing is known of earlier writers.
        self.written_at = ticket


class Watches:
    """All watches of one engine, by buffer."""

    __slots__ = ("by_key",)

    def __init__(self) -> None:
        self.by_key: dict[int, weakref.WeakSet[Watch]] = {}

    def add(self, watch: Watch) -> None:
        self.by_key = {key: watches for key, watches in self.by_key.items() if watches}
        for key in watch.regions:
            self.by_key.setdefault(key, weakref.WeakSet()).add(watch)

    def note(self, run: Run) -> None:
        """The run has its ticket, and writes what it is bound to. A run that fails or is removed counts as well."""
        for region in run.state_writes():
            for watch in self.by_key.get(region.key, ()):
                if watch.written_at < run.ticket and any(overlap(region, own) for own in watch.regions[region.key]):
                    watch.written_at = run.ticket
