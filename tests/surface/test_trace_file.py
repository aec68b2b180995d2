"""The file of a trace: it loads after a crash, is bounded, and breaks nothing when it cannot be written."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit import tracing
from tests._source import CHECKOUT
from tests.surface.timeline import Timeline

#: Only ever reached by a test that fails.
PATIENCE_S = 20.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.json"


CRASH = """
import asyncio, os, signal, sys, threading
import asyncjit as aj, asyncjit.numpy as anp

@aj.kernel(writes=("out",))
def wait(out):
    threading.Event().wait()

@aj.jit
def hold(out):
    wait(out)

@aj.jit
def touch(out):
    out += 1.0

async def main(path, how):
    aj.trace(path).start()
    state = anp.zeros(4)
    hold(anp.zeros(4))
    for _ in range(100_000):
        await touch(state)
        if os.path.getsize(path) > 50_000:
            os._exit(3) if how == "exit" else os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "how", ["exit", pytest.param("kill", marks=pytest.mark.skipif(os.name != "posix", reason="no SIGKILL here"))]
)
def test_a_process_that_dies_in_the_middle_leaves_a_file_that_loads(path: Path, how: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-c", CRASH, str(path), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode in (3, -9), done.stderr
    timeline = Timeline(path, complete=False)
    held = next(event["id"] for event in timeline.of("b") if event["name"] == "hold")
    assert held in timeline.open
    assert len(timeline.outcomes) > 50


async def test_a_trace_is_started_once_and_only_into_a_file_that_can_be_written(path: Path) -> None:
    async with aj.Engine() as engine:
        with pytest.raises(FileNotFoundError):
            aj.trace(path / "nowhere" / "out.json").start()
        assert not engine.instruments.active
        trace = aj.trace(path)
        trace.stop()
        assert trace.start() is trace
        with pytest.raises(RuntimeError, match="was started before"):
            trace.start()
        trace.stop()
        trace.stop()
        assert not engine.instruments.active
    assert Timeline(path, complete=True).of("X") == []


async def test_records_beyond_the_bound_are_dropped_and_counted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "RECORDS_MAX", 3)
    monkeypatch.setattr(tracing, "FLUSH_PERIOD_S", PATIENCE_S)
    async with aj.Engine():
        x = anp.ones(4)
        await (x + 1.0)
        with aj.trace(path):
            await (x + 1.0)
            await (x + 1.0)
    timeline = Timeline(path, complete=True)
    assert [event["args"]["count"] for event in timeline.of("i")] == [3]
    assert list(timeline.outcomes.values()) == ["done"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe with a name")
async def test_a_file_that_breaks_ends_the_trace_and_nothing_else(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    async with aj.Engine() as engine:
        x = anp.ones(4)
        trace = aj.trace(path).start()
        os.close(reader)
        with caplog.at_level(logging.ERROR, logger="asyncjit"):
            await (x + 1.0)
            assert trace._thread is not None
            trace._thread.join(PATIENCE_S)
        assert not engine.instruments.active
        assert np.asarray(await (x + 1.0)).tolist() == [2.0] * 4
        trace.stop()
    assert "ends here" in caplog.text
