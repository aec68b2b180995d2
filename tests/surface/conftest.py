"""Fixtures of the tests of what a user sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surface.prefetching import RUNS, Run, prefetch_threads


@pytest.fixture(params=list(RUNS))
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs an async function on a loop of each kind; no thread of a prefetch is left at the end."""
    yield RUNS[request.param]
    assert prefetch_threads() == []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A place for a file of ``aj.save``."""
    return tmp_path / "saved.aj"
