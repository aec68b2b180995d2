"""Callers at once, and how long each of their calls took.

Law: measures; what is called comes in as a function. Engines take turns in short rounds, so that a disturbance of the
machine meets all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["Row", "measure"]

Call: TypeAlias = Callable[[], Awaitable[Any]]

ROUNDS = 3


@dataclass(slots=True)
class Row:
    """What one engine did for so many callers. Latencies in seconds, in the order in which calls ended."""

    engine: str
    concurrency: int
    latencies_s: list[float] = field(default_factory=list)
    took_s: float = 0.0

    def figures(self) -> dict[str, Any]:
        """Calls a second, and the latencies of which 0, 50, 90 and 99 per cent are smaller, in milliseconds."""
        ordered = sorted(self.latencies_s)
        shares = {"min_ms": 0.0, "p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}
        return {
            "engine": self.engine,
            "concurrency": self.concurrency,
            "calls": len(ordered),
            "calls_per_s": round(len(ordered) / self.took_s, 2),
            **{name: round(_percentile(ordered, share) * 1e3, 4) for name, share in shares.items()},
        }


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def measure(calls: Mapping[str, Call], concurrencies: Sequence[int], seconds: float) -> list[Row]:
    """A row an engine and number of callers; each gets about ``seconds``, and a caller makes one call a round at least.

    Raises whatever a call raises.
    """
    rows = []
    for concurrency in concurrencies:
        level = [Row(engine, concurrency) for engine in calls]
        for _ in range(ROUNDS):
            for row in level:
                await _round(row, calls[row.engine], seconds / ROUNDS)
        rows += level
    return rows


async def _round(row: Row, call: Call, seconds: float) -> None:
    begin = time.perf_counter()
    end = begin + seconds

    async def caller() -> None:
        while True:
            start = time.perf_counter()
            await call()
            now = time.perf_counter()
            row.latencies_s.append(now - start)
            if now >= end:
                return

    callers = [asyncio.create_task(caller(), name=f"bench.caller[{index}]") for index in range(row.concurrency)]
    try:
        await asyncio.gather(*callers)
    finally:
        for each in callers:
            each.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    row.took_s += time.perf_counter() - begin
