"""The page on parity with TinyJit: every behaviour once, every test that it names there."""

from __future__ import annotations

import ast
import re

import pytest

from tests._source import CHECKOUT, parse

PAGE = CHECKOUT / "docs" / "tinyjit_parity.md"
BEHAVIOURS = 61

ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.*?) ?\|$", re.MULTILINE)
TEST = re.compile(r"\[([\w/]+\.py)::(\w+)\]\(\.\./tests/([\w/]+\.py)\)")


def rows() -> list[tuple[int, str, str]]:
    """Number, what asyncjit does, and the tests."""
    return [(int(number), here, shown) for number, _, here, shown in ROW.findall(PAGE.read_text(encoding="utf-8"))]


def functions_of(path: str) -> set[str]:
    nodes = ast.walk(parse(CHECKOUT / "tests" / path))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_behaviour_has_its_row_in_order() -> None:
    assert [number for number, _, _ in rows()] == list(range(1, BEHAVIOURS + 1))


@pytest.mark.parametrize(("number", "here", "shown"), rows(), ids=lambda value: str(value)[:3])
def test_every_row_is_open_or_shown_by_tests_that_are_there(number: int, here: str, shown: str) -> None:
    named = TEST.findall(shown)
    assert len(named) == shown.count("["), f"row {number}: a link is [file.py::test](../tests/file.py)"
    assert named or here.startswith("**open**: "), f"row {number} names no test and is not open"
    for path, test, target in named:
        assert path == target
        assert test in functions_of(path), f"row {number} names {test}, which is not in tests/{path}"
