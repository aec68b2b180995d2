"""The pages say what the code does: the drawing is the table, the first example runs, links lead somewhere.

Law: whatever a page could get wrong and a machine can check is checked here.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from asyncjit.records import Footprint, GroupState, Run
from asyncjit.runs import TRANSITIONS, Arrive, Submit
from asyncjit.scheduler import Scheduler
from docs import state_diagram
from tests._source import CHECKOUT

PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]

PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FILE_IN_TEXT = re.compile(r"`((?:asyncjit|benchmarks|docs|tests|\.ci)/[\w./-]*)`")


def test_the_state_diagram_is_the_transition_table() -> None:
    page = state_diagram.PAGE.read_text(encoding="utf-8")
    assert state_diagram.section() in page, "run python docs/state_diagram.py"


def test_the_drawing_shows_every_move_of_the_table_and_no_other() -> None:
    drawn = re.findall(r"^ +(\w+) --> (\w+): (.*)$", state_diagram.diagram(), re.MULTILINE)
    moves = {(a, name, b) for a, b, names in drawn for name in names.split(", ")}
    assert moves == {
        (a.name, stimulus.__name__, b.name) for a, row in TRANSITIONS.items() for stimulus, b in row.items()
    }


def test_a_page_without_markers_is_refused_and_not_spoilt() -> None:
    with pytest.raises(SystemExit, match="lost its markers"):
        state_diagram.replaced("# A page\n")


def test_replays_come_into_being_as_drawn() -> None:
    scheduler, group = Scheduler(), GroupState("f")
    first, second, third = Run(group), Run(group), Run(group)
    for run in (first, second):
        run.signature = "s"
        scheduler.step(Arrive(run, "s"))
    assert (first.state, second.state) == state_diagram.BIRTHS[Arrive]
    third.bind("cpu", Footprint(), (), ())
    scheduler.step(Submit(third))
    assert (third.state,) == state_diagram.BIRTHS[Submit]


@pytest.mark.parametrize("page", ["README.md", "docs/sharding.md", "docs/saving.md"])
def test_the_first_example_of_a_page_prints_what_it_says(page: str, tmp_path: Path) -> None:
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    code, printed = PYTHON_BLOCK.findall(text)[0], re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]
    path = tmp_path / "first.py"
    path.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_is_python(page: Path) -> None:
    for code in PYTHON_BLOCK.findall(page.read_text(encoding="utf-8")):
        compile(code, page.name, "exec", flags=0x2000)  # PyCF_ALLOW_TOP_LEVEL_AWAIT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_every_named_file_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [page.parent / link for link in LINK.findall(text) if "://" not in link]
    files = [CHECKOUT / name for name in FILE_IN_TEXT.findall(text) if "NNNN" not in name]
    assert [str(path) for path in (*links, *files) if not path.exists()] == []
