"""A Starlette route under uvicorn, real sockets, 64 clients that ask again as soon as they are answered; five ways.

The route returns a constant, replays the model, replays it batched, calls NumPy on the loop, or in a thread by
``asyncio.to_thread``. Each way has a process of its own, the clients have another, and the ways take turns, so that a
disturbance meets all of them. ``lag_p99_ms`` is how late a 1 ms ticker wakes on the server's loop under that load.
``wrong`` counts answers that are not the model's.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._http import ask, load
from benchmarks._measure import percentile
from benchmarks._server_app import CASES, MODELS, PIXELS, forward, weights_of

CLIENTS = 64
ROUNDS = 5
SECONDS = 2.0
WARM_UP_S = 0.5


def run() -> dict[str, object]:
    rows = [row for model in MODELS for row in _rows(model)]
    return {**_ratios(rows), "rows": rows}


def _ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """What the rows are judged by."""
    by = {(row["model"], row["case"]): row for row in rows}
    figures = {}
    for model in MODELS:
        name = model.replace(" ", "_")
        engine, batched = by[model, "engine"], by[model, "batched"]
        constant, thread = by[model, "constant"], by[model, "to_thread"]
        figures[f"{name}_lag_over_constant"] = round(engine["lag_p99_ms"] / constant["lag_p99_ms"], 2)
        figures[f"{name}_engine_over_to_thread"] = round(engine["requests_per_s"] / thread["requests_per_s"], 2)
        figures[f"{name}_p99_over_to_thread"] = round(engine["p99_ms"] / thread["p99_ms"], 2)
        figures[f"{name}_batched_over_engine"] = round(batched["requests_per_s"] / engine["requests_per_s"], 2)
    return figures


def _rows(model: str) -> list[dict[str, Any]]:
    inputs = np.random.default_rng(3).random((CLIENTS, PIXELS), np.float32)
    expected = [int(label) for label in forward(np, inputs, weights_of(model))]
    with ExitStack() as servers:
        ports = {case: servers.enter_context(_server(model, case)) for case in CASES}
        samples: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
        for turn in range(ROUNDS):
            for case in CASES[turn % len(CASES) :] + CASES[: turn % len(CASES)]:
                labels = [0] * CLIENTS if case == "constant" else expected
                samples[case].append(asyncio.run(_sample(ports[case], inputs, labels)))
    return [{"model": model, "case": case, "clients": CLIENTS, **_medians(samples[case])} for case in CASES]


def _medians(samples: list[dict[str, float]]) -> dict[str, float]:
    figures = {name: round(statistics.median(sample[name] for sample in samples), 2) for name in samples[0]}
    return {**figures, "wrong": sum(sample["wrong"] for sample in samples)}


async def _sample(port: int, inputs: np.ndarray[Any, Any], labels: list[int]) -> dict[str, float]:
    bodies = [row.tobytes() for row in inputs]
    await load(port, bodies, WARM_UP_S)
    await ask(port, "/lag/start")
    outcomes = await load(port, bodies, SECONDS)
    lag_ms = float(await ask(port, "/lag/stop"))
    taken_ms = [taken * 1e3 for each, _ in outcomes for taken in each]
    return {
        "requests_per_s": len(taken_ms) / SECONDS,
        "p50_ms": percentile(taken_ms, 0.5),
        "p99_ms": percentile(taken_ms, 0.99),
        "lag_p99_ms": lag_ms,
        "wrong": sum(answers != {str(label).encode()} for (_, answers), label in zip(outcomes, labels, strict=True)),
    }


@contextmanager
def _server(model: str, case: str) -> Iterator[int]:
    """A process that serves; its port."""
    command = [sys.executable, "-m", "benchmarks._server_app", model, case]
    checkout = Path(__file__).resolve().parent.parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=checkout) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            asyncio.run(_until_it_answers(port))
            yield port
        finally:
            process.terminate()


async def _until_it_answers(port: int) -> None:
    """The port is printed before the model is ready; until then connections are refused."""
    while True:
        try:
            await load(port, [bytes(4 * PIXELS)], 0.0)
            return
        except ConnectionError:
            await asyncio.sleep(0.02)
