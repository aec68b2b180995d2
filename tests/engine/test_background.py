"""The helper thread: jobs in order, none lost, a refusal where nobody would do them."""

from __future__ import annotations

import logging
import threading

import pytest

from asyncjit.background import Background
from tests.engine.world import PATIENCE_S, engine_threads


def test_jobs_run_in_order_on_one_thread_and_one_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    background, done, reached = Background("asyncjit-test"), [], threading.Event()

    def broken() -> None:
        raise ValueError("on purpose")

    for job in (lambda: done.append(1), broken, lambda: done.append(threading.current_thread().name), reached.set):
        assert background.submit(job)
    assert reached.wait(PATIENCE_S)
    assert done == [1, "asyncjit-test"]
    assert "on purpose" in caplog.text
    assert background.close(PATIENCE_S)
    assert background.close(PATIENCE_S)
    assert engine_threads() == []


def test_closing_finishes_what_was_taken_and_refuses_what_comes_later() -> None:
    background, proceed, done = Background("asyncjit-test"), threading.Event(), []
    background.submit(lambda: proceed.wait(PATIENCE_S))
    background.submit(lambda: done.append(1))
    assert not background.close(0.0)
    assert not background.submit(lambda: done.append(2))
    proceed.set()
    assert background.close(PATIENCE_S)
    assert done == [1]


def test_where_no_thread_can_be_started_a_job_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    background = Background("asyncjit-test")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with caplog.at_level(logging.WARNING, "asyncjit"):
        assert not background.submit(lambda: None)
    assert "cannot be started" in caplog.text
    monkeypatch.undo()
    assert background.submit(lambda: None)
    assert background.close(PATIENCE_S)
