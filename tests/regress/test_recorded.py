"""Soak runs that once failed, replayed from the list of their choices.

Law: one file a run, ``NAME.json``: ``what`` was wrong, and the ``choices``, shortened by hand or machine as long as the
run still failed. A failing seed prints its choices. The meaning of a list hangs on the generator: whoever changes that
keeps the rule itself tested by name, in the file that ``test`` names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from asyncjit.testing.soak import RecordedChoices, play_choices

FOLDER = Path(__file__).parent
RECORDS = sorted(FOLDER.glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_run_that_once_failed_equals_the_serial_run(path: Path) -> None:
    assert play_choices(RecordedChoices(load(path)["choices"])).total() > 0


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_says_what_was_wrong_and_which_test_holds_the_rule(path: Path) -> None:
    record = load(path)
    file, _, name = record["test"].partition("::")
    assert record["what"]
    assert name in (FOLDER.parent.parent / file).read_text(encoding="utf-8")
