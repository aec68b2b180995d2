"""``asyncjit bench MODEL --concurrency 1,4,16``.

Law: sets the stage; ``_rounds`` measures. Both engines get the same inputs and the same number of threads, in one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncjit.cli import _inputs, _loading
from asyncjit.cli._cores import on_cores
from asyncjit.cli._problems import EXIT_FAILED, EXIT_GOOD
from asyncjit.cli._rounds import Call, measure
from asyncjit.cli._running import run_loop
from asyncjit.cli._tables import columns
from asyncjit.devices.cpu import CpuDevice
from asyncjit.engine import Engine

if TYPE_CHECKING:
    from asyncjit.onnx import Model

__all__ = ["add_arguments", "run"]

#: Calls before the measurement: the first records, the others meet a plan that is lowered and memory that is there.
WARM_UP_CALLS = 3

#: Above this the two engines do not compute the same; rounding alone stays below in models of float32.
DIFFERENCE_MAX = 1e-2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _loading.add_arguments(parser)
    _inputs.add_arguments(parser, made=True)
    text = "numbers of callers, each of whom waits for one call at a time (default 1,4,16)"
    parser.add_argument("--concurrency", type=_counts, default=(1, 4, 16), metavar="N,N,…", help=text)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each engine and number (default 2)")
    text = "threads of either engine, and cores that they are bound to (default: all)"
    parser.add_argument("--threads", type=_count, default=None, metavar="N", help=text)
    text = "measure this engine on the same inputs, in a thread pool, in turns"
    parser.add_argument("--compare", choices=("onnxruntime",), help=text)
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of a table")
    text = "draw latencies over callers into this file (needs matplotlib)"
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help=text)


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return number


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(each) for each in text.split(","))


def run(options: argparse.Namespace) -> int:
    """Measure and print. Returns 1 when the engines do not compute the same."""
    if options.plot is not None:
        from asyncjit.cli._plot import check

        check(options.plot)  # before minutes of measuring
    model = _loading.load(options)
    inputs = _inputs.gather(model.inputs, options)
    with on_cores(options.threads):
        result = run_loop(lambda: _measured(model, inputs, options))
    print(json.dumps(result) if options.json else "\n".join(_lines(result)))
    if options.plot is not None:
        from asyncjit.cli._plot import plot

        plot(result, options.plot)
    return EXIT_FAILED if (result["max_rel_err"] or 0.0) > DIFFERENCE_MAX else EXIT_GOOD


async def _measured(model: Model, inputs: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    device = CpuDevice(workers=options.threads)
    with ExitStack() as stack:
        async with Engine([device]):
            calls: dict[str, Call] = {"asyncjit": lambda: model(**inputs)}
            if options.compare:
                pool = stack.enter_context(ThreadPoolExecutor(max(options.concurrency), "bench"))
                calls["onnxruntime"] = _onnxruntime(options.model, inputs, device.workers, pool)
            results = [await _warm(call) for call in calls.values()]
            rows = await measure(calls, options.concurrency, options.seconds)
    figures = [row.figures() for row in rows]
    return {
        "model": model.name,
        "inputs": _inputs.shown(inputs),
        "threads": device.workers,
        "max_rel_err": _difference(*results) if len(results) == 2 else None,
        "rows": [_against(figure, figures) for figure in figures],
    }


async def _warm(call: Call) -> dict[str, Any]:
    for _ in range(WARM_UP_CALLS):
        outputs: dict[str, Any] = await call()
    return {name: np.asarray(value) for name, value in outputs.items()}


def _onnxruntime(path: str, inputs: dict[str, Any], threads: int, pool: ThreadPoolExecutor) -> Call:
    """As servers use it: a session on ``threads`` threads that sleep between calls, run in a thread of a pool."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    loop = asyncio.get_running_loop()

    def compute() -> dict[str, Any]:
        return dict(zip(names, session.run(names, inputs), strict=True))

    async def call() -> dict[str, Any]:
        return await loop.run_in_executor(pool, compute)

    return call


def _difference(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """The largest error of any output, relative to the largest magnitude in it."""
    errors = [0.0]
    for name, right in theirs.items():
        if right.dtype.kind in "biuf" and right.size:
            distance = np.abs(ours[name].astype(np.float64) - right.astype(np.float64)).max()
            errors.append(float(distance / (np.abs(right.astype(np.float64)).max() or 1.0)))
    return max(errors)


def _against(figure: dict[str, Any], figures: list[dict[str, Any]]) -> dict[str, Any]:
    """With its calls a second over those of ONNX Runtime at the same number of callers, where that was measured."""
    key = ("onnxruntime", figure["concurrency"])
    other = next((each for each in figures if (each["engine"], each["concurrency"]) == key), None)
    if other is None or figure["engine"] == "onnxruntime":
        return figure
    return figure | {"speed_ratio": round(figure["calls_per_s"] / other["calls_per_s"], 3)}


def _lines(result: dict[str, Any]) -> list[str]:
    names = list(dict.fromkeys(name for row in result["rows"] for name in row))
    cells = [names, *([row.get(name, "") for name in names] for row in result["rows"])]
    lines = [f"{result['model']}({result['inputs']}) on {result['threads']} threads"]
    if result["max_rel_err"] is not None:
        lines.append(f"largest relative difference of the outputs: {result['max_rel_err']:.1e}")
    return [*lines, *columns(cells, right=range(1, len(names)))]
