"""When things of a replay happened.

Law: data and how it is put together; reads no clock. Imports ``plan``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from asyncjit.plan import Plan

__all__ = ["CallTimes", "ReplayTimes", "call_times"]


class ReplayTimes(NamedTuple):
    """Seconds on the engine's clock; None for what has not happened yet."""

    submitted_s: float | None
    started_s: float | None
    done_s: float | None


class CallTimes(NamedTuple):
    """When and where one kernel call, or copy, of a replay ran.

    ``call`` is its place in program order, ``stream`` that of the plan, ``thread`` the system's number of the thread
    that ran it, 0 where none did (virtual time). Seconds are on the clock of its ``device``. ``source`` is
    ``file:line`` of the user's code, or empty.
    """

    call: int
    name: str
    started_s: float
    done_s: float
    device: str
    stream: int
    thread: int
    source: str


def call_times(plan: Plan, times: Sequence[tuple[float, float, int] | None]) -> Iterator[CallTimes]:
    """Times of the calls that ran, from what a device took down (``Submission.times``)."""
    streams = {call: segment.stream for segment in plan.segments for call in segment.calls}
    # What never reached its device has no entry at all.
    for index, (call, measured) in enumerate(zip(plan.schedule.calls, times, strict=False)):
        if measured is not None:
            start_s, end_s, thread = measured
            yield CallTimes(index, call.name, start_s, end_s, call.device, streams[index], thread, call.source)
