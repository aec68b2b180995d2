"""What holds for every scenario: no thread is left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [each.name for each in threading.enumerate() if each not in before and each.name.startswith("asyncjit")]
    assert left == []
