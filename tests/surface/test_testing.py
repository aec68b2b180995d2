"""``asyncjit.testing``: what tests of others lean on, and the page that shows it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.graph import Graph, build_graph, graph_from_edges
from asyncjit.plan import lower, program_order_plan
from asyncjit.testing import SimDevice, TraceEntry, VirtualTime, assert_trace_respects
from tests._source import CHECKOUT

EXAMPLES = re.findall(r"^```python\n(.*?)^```", (CHECKOUT / "docs/testing.md").read_text(encoding="utf-8"), re.M | re.S)

#: 0 and 1 before 2.
JOIN = graph_from_edges(3, [(0, 2), (1, 2)])


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_page_run(example: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "form", [lambda graph: graph, lambda graph: graph.schedule, lambda graph: lower(graph.schedule)]
)
def test_a_run_in_order_passes_whatever_says_what_the_order_is(form: Callable[[Graph], Any]) -> None:
    assert_trace_respects(form(JOIN), [(0, 0.0, 1.0), (1, 0.5, 2.0), (2, 2.0, 3.0)])


def test_a_call_that_began_too_early_is_named_with_the_one_that_it_should_have_followed() -> None:
    with pytest.raises(AssertionError, match=r"call 2 \(node\) began at 1\.5, before call 1 \(node\).* at 2\.0"):
        assert_trace_respects(JOIN, [(0, 0.0, 1.0), (1, 0.5, 2.0), (2, 1.5, 3.0)])


def test_a_call_that_ran_without_what_it_must_follow_is_named() -> None:
    with pytest.raises(AssertionError, match=r"call 2 \(node\) ran, but not call 0 \(node\)"):
        assert_trace_respects(JOIN, [(1, 0.0, 1.0), (2, 2.0, 3.0)])


def test_a_trace_without_calls_shows_nothing() -> None:
    for trace in ([], [TraceEntry(0.0, "submitted", 0)]):
        with pytest.raises(AssertionError, match="holds no call"):
            assert_trace_respects(JOIN, trace)


def test_a_trace_of_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="calls \\[3\\], but the graph has 3"):
        assert_trace_respects(JOIN, [(3, 0.0, 1.0)])
    with pytest.raises(ValueError, match="listed twice"):
        assert_trace_respects(JOIN, [(0, 0.0, 1.0), (0, 1.0, 2.0)])
    with pytest.raises(ValueError, match="does not say when segment 0 started"):
        assert_trace_respects(JOIN, [TraceEntry(0.0, "call done", 0, 0, 0)])


def trace_of(*happened: tuple[str, int, int]) -> list[TraceEntry]:
    """(what, segment, call) at one virtual time, in one submission."""
    return [TraceEntry(0.0, kind, 0, segment, call) for kind, segment, call in happened]


def test_at_one_virtual_time_the_order_of_the_trace_decides() -> None:
    edge = graph_from_edges(2, [(0, 1)])
    first, second = [("segment started", 0, -1), ("call done", 0, 0)], [("segment started", 1, -1), ("call done", 1, 1)]
    assert_trace_respects(edge, trace_of(*first, *second))
    with pytest.raises(AssertionError, match="call 1"):
        assert_trace_respects(edge, trace_of(*second, *first))
    with pytest.raises(AssertionError, match="call 1"):
        assert_trace_respects(edge, trace_of(first[0], second[0], first[1], second[1]))


def three_arms(x: Any) -> Any:
    left, middle, right = anp.sin(x), anp.cos(x), x * 2.0
    return left + middle, middle * right


@pytest.mark.parametrize("seed", range(5))
def test_a_simulated_run_respects_its_graph_and_not_one_with_an_edge_more(seed: int) -> None:
    time = VirtualTime()

    async def main() -> tuple[SimDevice, aj.Replay[Any]]:
        sim = time.device(seed=seed, streams_max=3)
        async with aj.Engine([sim], clock=time.clock):
            function, x = aj.jit(three_arms), anp.ones(4)
            await function.prepare(x)
            replays = [function(x) for _ in range(3)]
            for replay in replays:
                await replay
        return sim, replays[0]

    sim, replay = time.run(main())
    assert_trace_respects(replay, sim.trace)
    assert_trace_respects(replay, sim.trace, submission=1)
    calls = len(replay.program.schedule.calls)
    reversed_order = graph_from_edges(calls, [(0, later) for later in range(1, calls)])
    backwards = [TraceEntry(*entry[:4], calls - 1 - entry.call if entry.call >= 0 else -1) for entry in sim.trace]
    with pytest.raises(AssertionError, match="in submission"):
        assert_trace_respects(reversed_order, backwards)
    # A plan says the same about order as the schedule that it was made of.
    assert build_graph(program_order_plan(replay.program.schedule).schedule).reduced


async def test_the_times_of_a_replay_on_threads_respect_it_too() -> None:
    class Timekeeper(aj.Instrument):
        takes_times = True

    async with aj.Engine() as engine:
        engine.instruments.add(Timekeeper())
        function, x = aj.jit(three_arms), anp.ones(4)
        await function.prepare(x)
        replay = function(x)
        await replay
    assert len(replay.call_times) == 5
    assert_trace_respects(replay, replay.call_times)


def test_sleeps_timeouts_and_kernels_meet_on_one_clock() -> None:
    time, seen = VirtualTime(), []

    async def tick() -> None:
        for _ in range(5):
            await asyncio.sleep(0.75)
            seen.append(("tick", time.clock.now_s()))

    async def main() -> None:
        async with aj.Engine([time.device(), time.device("sim:1")], clock=time.clock):
            x = anp.asarray(np.ones(4))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(tick())
                for _ in range(2):
                    y = await (x + 1.0)
                    seen.append(("sum", time.clock.now_s()))
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(_wait_for(x), 0.5)
                seen.append(("timeout", time.clock.now_s()))
            assert np.asarray(y).tolist() == [2.0] * 4

    time.run(main())
    rounded = [(what, round(at_s, 6)) for what, at_s in seen]
    ticks = [("tick", 0.75 * number) for number in range(1, 6)]
    assert rounded == sorted([*ticks, ("sum", 1.0), ("sum", 2.0), ("timeout", 2.5)], key=lambda one: one[1])
    # Time goes on from run to run.
    before_s = time.clock.now_s()
    time.run(asyncio.sleep(1.0))
    assert time.clock.now_s() == pytest.approx(before_s + 1.0)


async def _wait_for(x: Any) -> None:
    await (x + 2.0)


def test_errors_come_out_of_virtual_time_and_real_threads_wake_its_loop() -> None:
    time = VirtualTime()

    async def main() -> str:
        return await asyncio.to_thread(lambda: "from a thread")

    assert time.run(main()) == "from a thread"

    async def broken() -> None:
        await asyncio.sleep(3600.0)
        raise KeyError("on purpose")

    with pytest.raises(KeyError, match="on purpose"):
        time.run(broken())
    assert time.clock.now_s() == pytest.approx(3600.0)
