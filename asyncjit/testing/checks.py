"""Checks of what ran: every call after those that it must follow.

Law: compares orders that are handed in; runs nothing and reads no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from asyncjit.devices.sim import TraceEntry
from asyncjit.graph import Graph, build_graph
from asyncjit.ir import Schedule
from asyncjit.plan import Plan
from asyncjit.replay import Replay
from asyncjit.times import CallTimes

__all__ = ["assert_trace_respects"]

#: When a call began and when it was done, on a scale on which only the order means something.
_Interval = tuple[float, float]


def assert_trace_respects(
    graph: Graph | Plan | Schedule | Replay[Any],
    trace: Iterable[TraceEntry | CallTimes | tuple[int, float, float]],
    *,
    submission: int | None = None,
) -> None:
    """Check that every call of a trace began when all calls were done that it must follow.

    ``graph`` says who must follow whom: hazards, found anew where a schedule, a plan or a replay (for the function that
    it replays) is given. ``trace`` is ``SimDevice.trace``, in which every submission is checked, or the one whose
    number is given; or the ``call_times`` of one replay; or tuples (index of the call, start, end) of one run.

    Raises:
        AssertionError: a call began too early, or ran although one that it must follow did not; the message names both.
            Or there is no call in the trace.
        ValueError: the trace is not one of this graph.
    """
    graph = _graph_of(graph)
    entries = list(trace)
    if entries and isinstance(entries[0], TraceEntry):
        runs = _runs_of([entry for entry in entries if isinstance(entry, TraceEntry)])
        if submission is not None:
            runs = {number: run for number, run in runs.items() if number == submission}
    else:
        runs = {0: _run_of([entry for entry in entries if not isinstance(entry, TraceEntry)])}
    assert any(runs.values()), "the trace holds no call, so it shows nothing"
    for number, run in runs.items():
        _check(graph, run, f" in submission {number}" if len(runs) > 1 else "")


def _graph_of(graph: Graph | Plan | Schedule | Replay[Any]) -> Graph:
    match graph:
        case Graph():
            return graph
        case Replay():
            return build_graph(graph.program.schedule)
        case Plan():
            return build_graph(graph.schedule)
        case Schedule():
            return build_graph(graph)


def _runs_of(entries: list[TraceEntry]) -> dict[int, dict[int, _Interval]]:
    """By submission and call. The order of the entries decides: much may happen at one virtual time. A call begins when
    its segment starts, or when the call before it in its segment is done."""
    runs: dict[int, dict[int, _Interval]] = {}
    begun: dict[tuple[int, int], float] = {}
    for position, entry in enumerate(entries):
        place = (entry.submission, entry.segment)
        if entry.kind == "segment started":
            begun[place] = position
        elif entry.kind in ("call done", "call failed"):
            if place not in begun:
                raise ValueError(
                    f"call {entry.call} of submission {entry.submission} is done, but the trace does not say when "
                    f"segment {entry.segment} started; give all of the trace"
                )
            runs.setdefault(entry.submission, {})[entry.call] = (begun[place], position)
            begun[place] = position
    return runs


def _run_of(times: Iterable[CallTimes | tuple[int, float, float]]) -> dict[int, _Interval]:
    run: dict[int, _Interval] = {}
    for entry in times:
        call, start, end = (entry.call, entry.started_s, entry.done_s) if isinstance(entry, CallTimes) else entry
        if call in run:
            raise ValueError(f"call {call} is listed twice; give the calls of one replay")
        run[call] = (start, end)
    return run


def _check(graph: Graph, run: Mapping[int, _Interval], where: str) -> None:
    calls = graph.schedule.calls
    unknown = sorted(call for call in run if not 0 <= call < len(calls))
    if unknown:
        raise ValueError(
            f"the trace has calls {unknown}{where}, but the graph has {len(calls)}; give the graph that ran"
        )

    def named(call: int) -> str:
        source = f", {calls[call].source}" if calls[call].source else ""
        return f"call {call} ({calls[call].name}{source})"

    for call, (start, _) in run.items():
        for earlier in graph.predecessors[call]:
            if earlier not in run:
                raise AssertionError(f"{named(call)} ran{where}, but not {named(earlier)}, which it must follow")
            if run[earlier][1] > start:
                raise AssertionError(
                    f"{named(call)} began at {start}{where}, before {named(earlier)}, which it must follow, was done "
                    f"at {run[earlier][1]}"
                )
