"""ONNX's own conformance tests: what passes and what does not, by reason.

    python -m tests.onnx.conformance [REGEX] [--failures] [--list]

Counts of all CPU tests of the installed onnx package; nothing is skipped.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import tempfile
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator

import onnx.backend.test

from asyncjit.onnx.backend import AsyncJitBackend

__all__ = ["cases", "main", "run"]

#: Larger relative errors than the suite's default are admitted here, each for a reason.
TOLERANCES: dict[str, dict[str, float]] = {
    # The expected values were rounded to float16 at each step of the softmax; here it is rounded once.
    "test_attention_4d_causal_fp16_expanded": {"rtol": 2e-3},
}


def cases(pattern: str = "") -> Iterator[tuple[str, unittest.TestCase]]:
    """Name and test case of every CPU test whose name holds ``pattern``."""
    wanted = re.compile(pattern)
    for kind in _kinds():
        for name in unittest.TestLoader().getTestCaseNames(kind):
            if name.endswith("_cpu") and wanted.search(name):
                yield name.removesuffix("_cpu"), kind(name)


@functools.cache
def _kinds() -> list[type[unittest.TestCase]]:
    """The classes of the suite, made once: making them computes expected values, and registers each by name."""
    os.environ.setdefault("ONNX_HOME", tempfile.mkdtemp(prefix="onnx-home-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suite = onnx.backend.test.BackendTest(AsyncJitBackend, __name__, test_kwargs=TOLERANCES)
        return list(suite.test_cases.values())


def run(case: unittest.TestCase) -> str:
    """Why ``case`` fails, or "" where it passes; a skip counts as a failure."""
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case.run(result)
    for _, text in result.failures + result.errors:
        lines = [line for line in text.strip().splitlines() if line.strip()]
        errors = [line for line in lines if re.match(r"^[\w.]*(Error|Exception|Unsupported|Assertion)\w*:?", line)]
        return (errors or lines)[-1]
    return f"skipped: {result.skipped[0][1]}" if result.skipped else ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.onnx.conformance", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", metavar="REGEX", help="only tests whose name holds it")
    parser.add_argument("--failures", action="store_true", help="name every test that fails, with the reason")
    arguments = parser.parse_args()
    reasons = {name: run(case) for name, case in cases(arguments.pattern)}
    failed = {name: reason for name, reason in reasons.items() if reason}
    if arguments.failures:
        for name, reason in sorted(failed.items()):
            print(f"{name}: {reason[:300]}")
    else:
        for reason, count in Counter(
            re.sub(r"node '[^']*' ", "", reason)[:120] for reason in failed.values()
        ).most_common(40):
            print(f"{count:5d}  {reason}")
    print(f"{len(reasons) - len(failed)} of {len(reasons)} passed")


if __name__ == "__main__":
    main()
