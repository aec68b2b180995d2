"""How long lowering takes: hazards, placement on the streams of this machine's device, memory, segments."""

from __future__ import annotations

import statistics
import time

from asyncjit.plan import lower
from benchmarks._graphs import random_graph

CALLS = (100, 1_000, 10_000)
STREAMS = 2
ROUNDS = {100: 15, 1_000: 5, 10_000: 1}


def run() -> dict[str, object]:
    rows = []
    for calls in CALLS:
        samples = []
        for seed in range(ROUNDS[calls]):
            schedule = random_graph(calls, seed)
            start = time.perf_counter()
            lower(schedule, streams_max=STREAMS)
            samples.append((time.perf_counter() - start) * 1e3)
        rows.append({"calls": calls, "ms": round(statistics.median(samples), 1)})
    return {"rows": rows}
