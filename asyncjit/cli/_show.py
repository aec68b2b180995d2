"""``asyncjit explain MODEL``, ``asyncjit draw MODEL`` and ``asyncjit trace MODEL``.

Law: a model is called with inputs that need not mean anything, and looked at afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncjit.cli import _inputs, _loading
from asyncjit.cli._problems import EXIT_GOOD
from asyncjit.cli._running import run_loop
from asyncjit.engine import Engine
from asyncjit.tracing import trace

if TYPE_CHECKING:
    from asyncjit.onnx import Model

__all__ = ["COMMANDS", "add_arguments", "run"]

COMMANDS = {
    "explain": "the calls of a recorded ONNX model: streams, waits, bytes, estimates",
    "draw": "the same as a drawing, streams as lanes",
    "trace": "some calls at once as a timeline for https://ui.perfetto.dev",
}

CALLS, CONCURRENCY = 8, 4


def add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    _loading.add_arguments(parser)
    _inputs.add_arguments(parser, made=True)
    if command == "draw":
        text = "the SVG file to write (default MODEL.svg here)"
        parser.add_argument("--output", type=Path, metavar="FILE.svg", help=text)
    elif command == "trace":
        text = "the file to write (default MODEL.trace.json here)"
        parser.add_argument("--output", type=Path, metavar="FILE.json", help=text)
        parser.add_argument("--calls", type=int, default=CALLS, metavar="N", help=f"how many (default {CALLS})")
        text = f"how many of them at once (default {CONCURRENCY})"
        parser.add_argument("--concurrency", type=int, default=CONCURRENCY, metavar="N", help=text)


def run(options: argparse.Namespace) -> int:
    model = _loading.load(options)
    inputs = _inputs.gather(model.inputs, options)
    return run_loop(lambda: _shown(model, inputs, options))


async def _shown(model: Model, inputs: dict[str, Any], options: argparse.Namespace) -> int:
    async with Engine():
        await model(**inputs)
        if model.is_recorded:
            await model.prepare(**inputs)  # now it is lowered too
        if options.command == "trace":
            path = options.output or Path(f"{model.name}.trace.json")
            with trace(path):
                await _calls(model, inputs, max(1, options.calls), max(1, options.concurrency))
            print(f"wrote {path}: open it in https://ui.perfetto.dev")
        elif options.command == "draw":
            path = options.output or Path(f"{model.name}.svg")
            model.draw(path)
            print(f"wrote {path}")
        else:
            print(model.explain())
    return EXIT_GOOD


async def _calls(model: Model, inputs: dict[str, Any], calls: int, concurrency: int) -> None:
    left = iter(range(calls))

    async def caller() -> None:
        for _ in left:
            await model(**inputs)

    async with asyncio.TaskGroup() as tasks:
        for index in range(concurrency):
            tasks.create_task(caller(), name=f"trace.caller[{index}]")
