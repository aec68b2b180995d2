"""Events of traces: what each record becomes, and how they are laid out in a file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asyncjit import trace_events
from asyncjit.graph import graph_from_edges
from asyncjit.plan import program_order_plan
from asyncjit.trace_events import (
    PAGE_BYTES,
    CapturedRecord,
    EndedRecord,
    EventMaker,
    Record,
    StartedRecord,
    SubmittedRecord,
    encoded,
)

PLAN = program_order_plan(graph_from_edges(2, [(0, 1)]).schedule)


def name_of(thread: int) -> str:
    return f"thread {thread}"


def made(maker: EventMaker, *records: Record) -> list[dict[str, Any]]:
    return [event for record in records for event in maker.events(record)]


def life(ticket: int, start_s: float, *after: int, thread: int = 0, end_s: float | None = None) -> list[Record]:
    """A replay of two calls of a second each."""
    end_s = start_s + 2.0 if end_s is None else end_s
    times = [(start_s, start_s + 1.0, thread), (start_s + 1.0, end_s, thread)]
    return [
        SubmittedRecord(ticket, "f", start_s, False, 0),
        StartedRecord(ticket, "f", start_s),
        EndedRecord(ticket, "f", "done", "", (start_s, start_s, end_s), after, (PLAN, times)),
    ]


def test_a_capture_is_a_mark_in_time() -> None:
    (event,) = made(EventMaker(7, name_of), CapturedRecord("f", 0.5))
    assert (event["ph"], event["name"], event["ts"], event["pid"]) == ("i", "captured f", 500_000.0, 7)


def test_an_arrow_leads_from_the_last_call_to_the_first_that_started_after_it() -> None:
    maker = EventMaker(7, name_of)
    # The second began before the first ended, as work that is gated in its middle does.
    events = made(maker, *life(1, 0.0, thread=8), *life(2, 1.0, 1, thread=9))
    start, end = (next(event for event in events if event["ph"] == phase) for phase in "sf")
    assert (start["ts"], start["tid"]) == (1e6, 8)
    assert (end["ts"], end["tid"]) == (2e6, 9)
    assert start["id"] == end["id"]


def test_there_is_no_arrow_from_what_is_not_known_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_events, "FLOW_SOURCES_MAX", 1)
    events = made(EventMaker(7, name_of), *life(1, 0.0), *life(2, 2.0), *life(3, 4.0, 1, 2, 99))
    assert [event["args"] for event in events if event["ph"] == "s"] == [{"from": 2, "to": 3}]


def test_lanes_of_virtual_time_are_used_again() -> None:
    maker = EventMaker(7, name_of)
    first, second, third = life(1, 0.0), life(2, 0.0), life(3, 2.0)
    events = made(maker, *first[:2], *second[:2], first[2], third[0], third[1], second[2], third[2])
    rows = {event["args"]["ticket"]: event["tid"] for event in events if event["ph"] == "X"}
    assert rows[1] == rows[3] != rows[2]
    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert names == ["cpu lane 0 stream 0", "cpu lane 1 stream 0"]


def test_counters_never_go_back_in_time_and_say_each_value_once() -> None:
    maker = EventMaker(7, name_of)
    late, early = SubmittedRecord(1, "f", 2.0, False, 10), SubmittedRecord(2, "f", 1.0, False, 10)
    counters = [event for event in made(maker, late, early) if event["ph"] == "C"]
    assert [(event["ts"], event["args"]) for event in counters] == [
        (2e6, {"queued": 1}),
        (2e6, {"bytes": 10}),
        (2e6, {"queued": 2}),
    ]


def test_errors_are_cut_short() -> None:
    maker = EventMaker(7, name_of)
    failed = EndedRecord(1, "f", "failed", "x" * 10_000, (0.0, None, 1.0), (), None)
    (end,) = (event for event in made(maker, life(1, 0.0)[0], failed) if event["ph"] == "e")
    assert len(end["args"]["error"]) == trace_events.MESSAGE_LENGTH_MAX


def test_no_event_lies_across_a_page_however_the_writes_are_cut() -> None:
    events = [{"name": "x" * (17 * number % 400), "number": number} for number in range(300)]
    data = b"[\n{}"
    for first in range(0, 300, 7):
        data += encoded(events[first : first + 7], len(data))
    assert len(data) > 10 * PAGE_BYTES
    assert json.loads(data + b"]")[1:] == events
    for end in range(PAGE_BYTES, len(data), PAGE_BYTES):
        torn = json.loads(data[:end] + b"]")[1:]
        assert torn == events[: len(torn)]


def test_an_event_larger_than_a_page_is_written_all_the_same() -> None:
    event = {"name": "x" * 2 * PAGE_BYTES}
    assert json.loads(b"[\n{}" + encoded([event], 4) + b"]")[1] == event
