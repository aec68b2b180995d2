"""Files and functions stay short, output goes through hooks, nothing is left for later.

Law: every limit is a number below, and whatever exceeds the soft one stands in the ratchet, which only ever goes down.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests._source import CHECKOUT, parse, python_files, relative

FILE_LINES_SOFT, FILE_LINES_HARD = 300, 500
FUNCTION_LINES_SOFT, FUNCTION_LINES_HARD = 40, 70

#: Files above the soft limit, with the length they may have at most. An entry that is looser than it need be by more
#: than SLACK_LINES, or not needed any more, fails: turn it down.
FILE_RATCHET: Mapping[str, int] = {
    "asyncjit/conductor.py": 352,
    "tests/core/test_deps.py": 338,
    "tests/core/test_scheduler.py": 330,
    "tests/engine/test_threads.py": 330,
}

#: The same for functions, as ``file::name``.
FUNCTION_RATCHET: Mapping[str, int] = {
    "asyncjit/conductor.py::Conductor._run_at_once": 44,
    "asyncjit/memory.py::verify_bytes": 45,
    "tests/engine/test_engine.py::test_instruments_are_told_in_order_and_may_ask_the_engine": 45,
}

SLACK_LINES = 20

#: Where ``print`` is the purpose; everywhere else there are instruments, ``story()`` and logging.
PRINTS = (
    "asyncjit/cli/",
    "asyncjit/demo/",
    "asyncjit/testing/__main__.py",
    "benchmarks/",
    "docs/",
    "tests/models/__main__.py",
    "tests/onnx/conformance.py",
    "tests/onnx/fuzz.py",
    "examples/",
)

# Spelt apart, so that this file passes its own test.
LEFT_FOR_LATER = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")


def file_lengths() -> dict[str, int]:
    return {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Qualified name and length of every function, from its ``def`` to its last line without the docstring."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            first = node.body[0]
            if ast.get_docstring(node) is not None:
                lines -= (first.end_lineno or first.lineno) - first.lineno + 1
            yield prefix + node.name, lines
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        else:
            yield from functions(node, prefix)


def function_lengths() -> dict[str, int]:
    return {f"{relative(path)}::{name}": lines for path in python_files() for name, lines in functions(parse(path))}


def too_long(lengths: Mapping[str, int], soft: int, hard: int, ratchet: Mapping[str, int]) -> list[str]:
    """What breaks a limit, and every entry of the ratchet that is looser than it need be."""
    problems = []
    for name, lines in lengths.items():
        limit = min(ratchet.get(name, soft), hard)
        if lines > limit:
            problems.append(f"{name} has {lines} lines, {limit} are allowed: split it")
    for name, limit in ratchet.items():
        lines = lengths.get(name, 0)
        if lines <= soft:
            problems.append(f"{name} has {lines} lines: take it out of the ratchet")
        elif limit > lines + SLACK_LINES:
            problems.append(f"{name} has {lines} lines: turn its ratchet down from {limit}")
    return problems


def prints(tree: ast.AST) -> list[int]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]


def test_files_are_short() -> None:
    assert too_long(file_lengths(), FILE_LINES_SOFT, FILE_LINES_HARD, FILE_RATCHET) == []


def test_functions_are_short() -> None:
    assert too_long(function_lengths(), FUNCTION_LINES_SOFT, FUNCTION_LINES_HARD, FUNCTION_RATCHET) == []


def test_only_the_command_line_prints() -> None:
    loud = [
        f"{relative(path)}:{line}"
        for path in python_files()
        if not relative(path).startswith(PRINTS)
        for line in prints(parse(path))
    ]
    assert loud == []


def test_nothing_is_left_for_later() -> None:
    pages = [*python_files(), *CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")]
    left = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in pages
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if LEFT_FOR_LATER.search(line)
    ]
    assert left == []


def test_every_file_opens_with_its_law() -> None:
    assert [relative(path) for path in python_files() if not ast.get_docstring(parse(path))] == []


@pytest.mark.parametrize(
    ("lines", "ratchet", "problem"),
    [
        (10, {}, None),
        (11, {}, "10 are allowed"),
        (15, {"f": 15}, None),
        (16, {"f": 15}, "15 are allowed"),
        (51, {"f": 60}, "50 are allowed"),
        (15, {"f": 15 + SLACK_LINES + 1}, "turn its ratchet down"),
        (9, {"f": 15}, "take it out"),
    ],
)
def test_the_ratchet_turns_one_way(lines: int, ratchet: dict[str, int], problem: str | None) -> None:
    problems = too_long({"f": lines}, 10, 50, ratchet)
    assert problems == [] if problem is None else problem in problems[0]


def test_lengths_and_prints_are_measured_where_they_stand(tmp_path: Path) -> None:
    source = 'class A:\n    def f(self):\n        """Doc\n        string."""\n        def g():\n            print(1)\n'
    path = tmp_path / "a.py"
    path.write_text(source)
    assert dict(functions(parse(path))) == {"A.f": 3, "A.f.g": 2}
    assert prints(parse(path)) == [6]
