"""What the demo shows: progress while it works, and the table at the end.

Law: formatting only. rich on a terminal, plain lines elsewhere; ``--json`` is one object on standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TextIO

import numpy as np

from asyncjit.demo.oracle import Verdict
from asyncjit.demo.work import Progress, Record, Settings

__all__ = ["ACCURACY_MIN", "Figures", "figures", "print_json", "print_table", "progress_display"]

ACCURACY_MIN = 0.95


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of the table. Shares are between 0 and 1."""

    accuracy: float
    steps: int
    steps_per_second: float
    requests: int
    clients: int
    pause_ms: float
    requests_per_second: float
    latency_p50_ms: float
    latency_p99_ms: float
    lag_p50_ms: float
    lag_p99_ms: float
    lag_idle_p50_ms: float
    lag_idle_p99_ms: float
    in_flight_peak: int
    loading_hidden: float
    wrong: int
    weights_versions_seen: int
    difference_max: float

    @property
    def good(self) -> bool:
        return self.wrong == 0 and self.accuracy >= ACCURACY_MIN


def figures(settings: Settings, record: Record, verdict: Verdict) -> Figures:
    """Everything the table says, from what happened and what the judge found."""
    lag_p50, lag_p99 = _milliseconds(record.lag)
    idle_p50, idle_p99 = _milliseconds(record.lag_idle)
    latency_p50, latency_p99 = _milliseconds(record.latency)
    return Figures(
        accuracy=record.accuracy,
        steps=len(record.steps),
        steps_per_second=len(record.steps) / record.training_s,
        requests=len(record.answers),
        clients=settings.clients,
        pause_ms=settings.pause_s * 1e3,
        requests_per_second=len(record.answers) / record.serving_s,
        latency_p50_ms=latency_p50,
        latency_p99_ms=latency_p99,
        lag_p50_ms=lag_p50,
        lag_p99_ms=lag_p99,
        lag_idle_p50_ms=idle_p50,
        lag_idle_p99_ms=idle_p99,
        in_flight_peak=record.in_flight_peak,
        loading_hidden=1 - record.exposed_s / record.loading_s,
        wrong=verdict.wrong,
        weights_versions_seen=verdict.versions_seen,
        difference_max=verdict.difference_max,
    )


def _milliseconds(lateness: list[float]) -> tuple[float, float]:
    p50, p99 = np.percentile(lateness, [50, 99]) * 1e3 if lateness else (float("nan"), float("nan"))
    return float(p50), float(p99)


def rows(result: Figures) -> list[tuple[str, str]]:
    """The table: what, and how much."""
    return [
        ("test accuracy", f"{result.accuracy:.3f}"),
        ("training steps", f"{result.steps:,} ({result.steps_per_second:,.0f} a second)"),
        (
            "requests answered",
            f"{result.requests:,}, to {result.clients} clients with pauses of {result.pause_ms:g} ms",
        ),
        ("requests per second", f"{result.requests_per_second:,.0f}"),
        ("time to an answer p50 / p99", f"{result.latency_p50_ms:.1f} / {result.latency_p99_ms:.1f} ms"),
        ("event-loop lag p50 / p99, both running", f"{result.lag_p50_ms:.2f} / {result.lag_p99_ms:.2f} ms"),
        ("event-loop lag p50 / p99, idle loop", f"{result.lag_idle_p50_ms:.2f} / {result.lag_idle_p99_ms:.2f} ms"),
        ("replays in flight at most", f"{result.in_flight_peak}"),
        ("share of loading hidden behind compute", f"{result.loading_hidden:.0%}"),
        ("versions of the weights that answers saw", f"{result.weights_versions_seen:,}"),
        ("largest difference from the serial run", f"{result.difference_max:.1e}"),
        ("wrong answers", f"{result.wrong}"),
    ]


def print_table(result: Figures, file: TextIO | None = None) -> None:
    """The table on a terminal; the same rows as lines elsewhere."""
    out = file or sys.stdout
    if not out.isatty():
        width = max(len(what) for what, _ in rows(result))
        for what, value in rows(result):
            print(f"{what:<{width}}  {value}", file=out)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "value", title="asyncjit demo: training and serving at the same time")
    for what, value in rows(result):
        table.add_row(what, value, style="bold red" if what == "wrong answers" and result.wrong else None)
    Console(file=out).print(table)


def print_json(result: Figures) -> None:
    """One line of JSON on standard output."""
    print(json.dumps(asdict(result)))


@contextmanager
def progress_display(file: TextIO) -> Iterator[Callable[[Progress], None]]:
    """Something to call with the progress so far: two bars on a terminal; elsewhere a line every fourth call."""
    if not file.isatty():
        yield _lines(file)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = TextColumn("{task.description:<32}"), BarColumn(), MofNCompleteColumn()
    # No refresh of its own: rich would draw from a thread, ten times a second, and take the interpreter lock to do it.
    with Bars(*columns, console=Console(file=file), auto_refresh=False) as bars:
        training, serving = bars.add_task("training"), bars.add_task("answering")

        def show(now: Progress) -> None:
            told = f"training, loss {now.loss:.3f}" if now.steps else "training"
            bars.update(training, total=now.steps_total, completed=now.steps, description=told)
            bars.update(serving, total=now.requests_total, completed=now.requests)
            bars.refresh()

        yield show


LINE_EVERY_CALLS = 4


def _lines(file: TextIO) -> Callable[[Progress], None]:
    calls, last = 0, ""

    def show(now: Progress) -> None:
        nonlocal calls, last
        done = now.steps == now.steps_total and now.requests == now.requests_total
        line = f"{now.steps:,} of {now.steps_total:,} steps, {now.requests:,} of {now.requests_total:,} requests"
        if now.steps:
            line += f", loss {now.loss:.3f}"
        if (done or calls % LINE_EVERY_CALLS == 0) and line != last:
            print(line, file=file, flush=True)
            last = line
        calls += 1

    return show
