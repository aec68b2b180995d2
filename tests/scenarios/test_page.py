"""``docs/scenarios.md`` and the scenarios say the same, and no wish is forgotten.

Law: the page is read as text and the tests as syntax; a number without a case has to give a reason.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

from tests._source import CHECKOUT, parse

HERE = Path(__file__).parent
PAGE = CHECKOUT / "docs" / "scenarios.md"

#: How many wishes each table of the page answers, by its heading.
TABLES = {"Array libraries and engines": 28, "Servers": 25}


class Row(NamedTuple):
    """A line of a table: the number of a wish, or none where it is one more case of the wish above."""

    number: str
    issue: str
    wanted: str
    here: str
    test: str


def rows_of(heading: str) -> list[Row]:
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines[1:]]


def cases() -> dict[str, Row]:
    """What each scenario says of itself, by the name that the page gives it."""
    found = {}
    for path in sorted(HERE.glob("test_*.py")):
        for node in parse(path).body if path != Path(__file__) else []:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                name = f"`{path.stem.removeprefix('test_')}`: `{node.name}`"
                issue, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
                wanted, _, here = " ".join(rest.split()).removeprefix("Wanted: ").partition(" Here: ")
                found[name] = Row("", issue.removesuffix("."), wanted, here, name)
    return found


@pytest.mark.parametrize(("heading", "count"), TABLES.items())
def test_every_wish_has_one_number_and_a_case_or_a_reason(heading: str, count: int) -> None:
    rows = rows_of(heading)
    assert [row.number for row in rows if row.number] == [str(number) for number in range(1, count + 1)]
    assert [row for row in rows if not (row.test or row.here.startswith("not "))] == []


@pytest.mark.parametrize("heading", TABLES)
def test_the_page_says_what_the_tests_say(heading: str) -> None:
    known = cases()
    for row in rows_of(heading):
        if row.test:
            assert row.test in known, f"no such test: {row.test}"
            assert row._replace(number="") == known[row.test]


def test_every_case_is_on_the_page_and_names_an_issue_a_wish_and_an_answer() -> None:
    listed = {row.test for heading in TABLES for row in rows_of(heading)}
    known = cases()
    assert [name for name in known if name not in listed] == []
    assert [name for name, case in known.items() if "#" not in case.issue or not case.wanted or not case.here] == []
