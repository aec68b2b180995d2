"""Binding to cores: as many as were asked for, for what is started too, and taken back."""

from __future__ import annotations

import os
import threading

import pytest

from asyncjit.cli._cores import on_cores

needs_binding = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be bound here")


@needs_binding
def test_a_block_and_its_threads_have_so_many_cores_and_no_more() -> None:
    before = os.sched_getaffinity(0)
    seen = []

    def fail() -> None:
        with on_cores(1):
            thread = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
            thread.start()
            thread.join()
            seen.append(os.sched_getaffinity(0))
            raise ValueError("a measurement fails")

    with pytest.raises(ValueError, match="a measurement fails"):
        fail()
    assert [len(each) for each in seen] == [1, 1]
    assert os.sched_getaffinity(0) == before


def test_without_a_number_and_where_it_cannot_be_done_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_cores(None):
        pass
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    with on_cores(1):
        pass
