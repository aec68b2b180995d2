"""What the timed benchmarks share: interleaved samples, medians and percentiles."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

__all__ = ["interleaved", "lateness_ms", "per_call_us", "percentile"]


def per_call_us(function: Callable[[], object], calls: int) -> float:
    """Microseconds of one call, over ``calls`` of them in a row."""
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls * 1e6


async def interleaved(cases: Sequence[Callable[[], Awaitable[float]]], rounds: int) -> list[float]:
    """Median over ``rounds`` of each case; the cases take turns, so that a disturbance meets all of them."""
    samples: list[list[float]] = [[] for _ in cases]
    for _ in range(rounds):
        for case, taken in zip(cases, samples, strict=True):
            taken.append(await case())
    return [statistics.median(taken) for taken in samples]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def lateness_ms(seconds: float, period_s: float = 0.001) -> list[float]:
    """How late a ticker wakes on this loop, in milliseconds, over ``seconds``."""
    late: list[float] = []
    end = time.perf_counter() + seconds
    while (now := time.perf_counter()) < end:
        await asyncio.sleep(period_s)
        late.append((time.perf_counter() - now - period_s) * 1e3)
    return late
