"""Fixtures of the core's tests. Law: a fixture checks at teardown what must hold whatever the test did."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.core.scheduler_driver import Driver


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A scheduler whose invariants are checked when the test is over."""
    driver = Driver()
    yield driver
    driver.scheduler.verify()
