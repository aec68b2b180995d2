"""``aj.trace``: what happened, in a file that viewers load."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice
from asyncjit.devices.sim import SimDevice
from tests.surface.timeline import Timeline

#: Only ever reached by a test that fails.
PATIENCE_S = 20.0


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "out.json"
    assert [thread.name for thread in threading.enumerate() if thread.name == "asyncjit-trace"] == []


def in_place(function: Callable[[Any], object]) -> Callable[[Any], aj.Replay[None]]:
    """A captured function that writes its one argument by a kernel of its own."""
    kernel = aj.kernel(writes=("out",))(function)

    def call(out: Any) -> None:
        kernel(out)

    return aj.jit(call)


def stateful() -> Callable[..., Any]:
    """A function whose replays write the same state, so that each has to follow the one before."""
    total = anp.zeros(4)

    @aj.jit
    def add(x: Any) -> Any:
        total[...] = total + x
        return total * 2.0

    return add


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_trace_shows_replays_calls_order_and_counts(path: Path, backend: str) -> None:
    async def main() -> list[int]:
        async with aj.Engine([CpuDevice(inline_s_max=0.0)]):
            add, x = stateful(), anp.ones(4)
            await add(x)
            with aj.trace(path):
                replays = [add(x) for _ in range(5)]
                for replay in replays:
                    await replay
                await anp.asarray(np.ones((600, 600)))
            return [replay.ticket for replay in replays]

    tickets = anyio.run(main, backend=backend)
    timeline = Timeline(path, complete=True)
    assert timeline.open == set()
    assert list(timeline.outcomes.values()) == ["done"] * 6
    followed = {event["id"]: event["args"]["after"] for event in timeline.of("e")}
    assert timeline.arrows == [(before, after) for after in sorted(followed) for before in followed[after]]
    assert [event["name"] for event in timeline.of("b")] == ["stateful.<locals>.add"] * 5 + ["asarray"]
    calls = [event["name"] for event in timeline.of("X") if event["args"]["ticket"] == tickets[0]]
    assert sorted(calls) == ["add", "copy", "multiply"]
    assert {event["cat"] for event in timeline.of("X") if event["name"] == "copy"} == {"copy"}
    assert {event["cat"] for event in timeline.of("X") if event["name"] != "copy"} == {"kernel"}
    assert all(name.startswith("asyncjit-cpu-") for name in timeline.rows.values())
    for name in ("queued", "in flight"):
        counts = timeline.counter(name)
        assert counts[-1] == 0
        assert min(counts) == 0
        assert max(counts) >= 1
    assert max(timeline.counter("bytes")) >= 600 * 600 * 8


async def test_replays_that_wait_for_one_that_is_held_follow_it_in_the_trace(path: Path) -> None:
    go = threading.Event()

    @in_place
    def hold(out: Any) -> None:
        assert go.wait(PATIENCE_S)
        out += 1.0

    async with aj.Engine() as engine:
        state = anp.zeros(4)
        with aj.trace(path, engine=engine):
            first = hold(state)
            later = [hold(state) for _ in range(3)]
            go.set()
            for replay in later:
                await replay
        tickets = [first.ticket, *(replay.ticket for replay in later)]
        # Who writes hides who wrote before, so that each follows its neighbour only.
        assert [replay.predecessors for replay in later] == [(ticket,) for ticket in tickets[:-1]]
    timeline = Timeline(path, complete=True)
    assert timeline.arrows == list(itertools.pairwise(tickets))
    assert max(timeline.counter("queued")) == 3
    assert max(timeline.counter("in flight")) == 1


async def test_failures_and_cancellations_say_what_they_were(path: Path) -> None:
    go = threading.Event()

    @in_place
    def hold(out: Any) -> None:
        assert go.wait(PATIENCE_S)

    @in_place
    def fail(out: Any) -> None:
        raise ZeroDivisionError("on purpose")

    async with aj.Engine() as engine:
        state = anp.zeros(4)
        with aj.trace(path, engine=engine):
            held, cancelled = hold(state), hold(state)
            assert cancelled.cancel()
            go.set()
            await held
            failing = fail(state)
            with pytest.raises(aj.KernelError):
                await failing
    timeline = Timeline(path, complete=True)
    assert timeline.outcomes == {held.ticket: "done", cancelled.ticket: "cancelled", failing.ticket: "failed"}
    errors = {event["id"]: event["args"].get("error", "") for event in timeline.of("e")}
    assert "KernelError" in errors[failing.ticket]
    assert errors[held.ticket] == ""
    assert timeline.counter("queued")[-1] == 0


async def test_inline_replays_are_on_the_row_of_the_thread_that_called(path: Path) -> None:
    async with aj.Engine():
        x = anp.ones(4)
        with aj.trace(path):
            await (x + 1.0)
            y = x + 2.0
        assert np.asarray(await y).tolist() == [3.0] * 4
    timeline = Timeline(path, complete=True)
    assert set(timeline.rows) == {threading.get_native_id()}
    assert [event["name"] for event in timeline.of("X")] == ["add", "add"]
    # They never queue.
    assert timeline.counter("queued") == [0]
    assert timeline.counter("in flight") == [1, 0, 1, 0]


async def test_in_virtual_time_each_replay_in_flight_has_rows_of_its_own(path: Path) -> None:
    sim = SimDevice(defer=asyncio.get_running_loop().call_soon, streams_max=2)
    async with aj.Engine([sim], clock=sim.clock):

        @aj.jit
        def fork(x: Any) -> Any:
            return (x + 1.0) * 2.0, (x - 1.0) * 3.0

        x = anp.ones(4)
        await fork.prepare(x)
        with aj.trace(path):
            for replay in [fork(x), fork(x)]:
                await replay
    timeline = Timeline(path, complete=True)
    slices = timeline.of("X")
    assert sorted(set(timeline.rows.values())) == [
        f"sim lane {lane} stream {stream}" for lane in (0, 1) for stream in (0, 1)
    ]
    assert len(slices) == 8
    # Both replays at the same time, and both streams of each: four rows, two virtual seconds.
    assert {event["dur"] for event in slices} == {1e6}
    assert max(event["ts"] for event in slices) - min(event["ts"] for event in slices) == 1e6


async def test_what_was_awaited_last_is_in_the_file_however_late_instruments_are_told(path: Path) -> None:
    class Slow(aj.Instrument):
        def replay_done(self, replay: aj.Replay[Any]) -> None:
            # Another thread tells: it goes on when the trace has asked whether all has been told.
            patience = threading.Event()
            while not engine._news.jobs and not patience.wait(0.001):
                if stopped.is_set():
                    return

    stopped = threading.Event()
    async with aj.Engine([CpuDevice(inline_s_max=0.0)]) as engine:
        x = anp.ones(4)
        await (x + 1.0)
        engine.instruments.add(Slow())
        with aj.trace(path):
            await (x + 1.0)
        stopped.set()
    timeline = Timeline(path, complete=True)
    assert list(timeline.outcomes.values()) == ["done"]


async def test_replays_under_way_at_the_start_have_no_span_and_those_at_the_stop_an_open_one(path: Path) -> None:
    go = threading.Event()

    @in_place
    def hold(out: Any) -> None:
        assert go.wait(PATIENCE_S)

    async with aj.Engine() as engine:
        before = hold(anp.zeros(4))
        with aj.trace(path, engine=engine) as trace:
            during = hold(anp.zeros(4))
            assert "running" in repr(trace)
        go.set()
        await before
        await during
        trace.stop()
        assert "stopped" in repr(trace)
    timeline = Timeline(path, complete=True)
    assert timeline.open == {during.ticket}
