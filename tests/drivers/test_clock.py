"""Clocks."""

from __future__ import annotations

import math

import pytest

from asyncjit.clock import Clock, MonotonicClock, VirtualClock


def test_both_are_clocks() -> None:
    assert isinstance(MonotonicClock(), Clock)
    assert isinstance(VirtualClock(), Clock)


def test_the_monotonic_clock_never_goes_back() -> None:
    clock = MonotonicClock()
    readings = [clock.now_s() for _ in range(100)]
    assert readings == sorted(readings)


def test_the_virtual_clock_shows_what_it_was_told() -> None:
    clock = VirtualClock(5.0)
    clock.advance_to(5.0)
    clock.advance_to(7.5)
    assert clock.now_s() == 7.5
    assert repr(clock) == "VirtualClock(now_s=7.5)"


@pytest.mark.parametrize("now_s", [4.9, -1.0, math.nan])
def test_the_virtual_clock_refuses_to_go_back(now_s: float) -> None:
    clock = VirtualClock(5.0)
    with pytest.raises(ValueError, match="never goes back"):
        clock.advance_to(now_s)
    assert clock.now_s() == 5.0
