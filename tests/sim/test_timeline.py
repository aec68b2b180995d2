"""The timeline of the simulated device, driven from outside."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from asyncjit.clock import VirtualClock
from asyncjit.devices._timeline import Timeline


def test_with_timers_from_outside_nothing_happens_before_its_time_however_often_it_was_asked_for() -> None:
    clock = VirtualClock()
    timers: list[tuple[float, int, Callable[[], None]]] = []
    happened: list[tuple[str, float]] = []

    def call_at(time_s: float, function: Callable[[], None]) -> None:
        heapq.heappush(timers, (time_s, len(timers) + len(happened), function))

    def step() -> bool:
        timeline.pop()()
        return True

    def note(what: str) -> Callable[[], None]:
        return lambda: happened.append((what, clock.now_s()))

    timeline = Timeline(clock, 0, step, None, call_at)
    timeline.add(5.0, lambda: (note("at 5")(), timeline.add(1.0, note("one later"))))
    # Asked for earlier than what was asked for before: when that is over, the time of the first is asked for again.
    timeline.add(3.0, note("at 3"))
    while timers:
        time_s, _, function = heapq.heappop(timers)
        clock.advance_to(time_s)
        function()
        # The clock is not the device's to move.
        assert clock.now_s() == time_s
    assert happened == [("at 3", 3.0), ("at 5", 5.0), ("one later", 6.0)]
