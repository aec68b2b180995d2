"""``python -m asyncjit demo``: train a network and serve it at the same time, and check every answer.

Law: the entry and its exit codes. Nothing outside this package imports it; whatever needs an extra is imported late, so
that a missing one is a sentence and not a traceback.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

__all__ = ["add_arguments", "run"]

EPOCHS, EPOCHS_QUICK = 60, 15

EXIT_GOOD, EXIT_BAD, EXIT_UNAVAILABLE, EXIT_INTERRUPTED = 0, 1, 2, 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The demo's options."""
    parser.add_argument("--quick", action="store_true", help=f"train for {EPOCHS_QUICK} epochs instead of {EPOCHS}")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON; progress goes to stderr")
    text = "what a client waits before it asks again, on average, in milliseconds (default 50; 0 for a flood)"
    parser.add_argument("--pause-ms", type=float, default=50.0, metavar="MS", help=text)
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and requests (default 0)")


def run(options: argparse.Namespace) -> int:
    """Run the demo and print its table.

    Returns the exit code: 0 when all is well, 1 when an answer is wrong or the accuracy below 0.95, 2 when an extra is
    missing, 130 when interrupted.
    """
    try:
        return _run(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    try:
        import rich  # noqa: F401
        import sklearn.datasets  # noqa: F401
    except ImportError as error:
        print(f"the demo needs {error.name}, which its extra brings: pip install 'asyncjit[demo]'", file=sys.stderr)
        return EXIT_UNAVAILABLE
    from asyncjit.demo import report
    from asyncjit.demo.data import load_digits
    from asyncjit.demo.model import MOMENTUM
    from asyncjit.demo.oracle import judge
    from asyncjit.demo.work import Settings, work

    epochs = EPOCHS_QUICK if options.quick else EPOCHS
    settings = Settings(epochs=epochs, pause_s=options.pause_ms / 1e3, seed=options.seed)
    digits = load_digits(settings.seed)
    with report.progress_display(sys.stderr if options.json else sys.stdout) as show:
        record = asyncio.run(work(settings, digits, show))
    result = report.figures(settings, record, judge(record.weights, MOMENTUM, record.steps, record.answers))
    if options.json:
        report.print_json(result)
    else:
        report.print_table(result)
    return EXIT_GOOD if result.good else EXIT_BAD
