"""What happened to replays, as events of the Chrome trace format, which Perfetto and chrome://tracing show.

Law: records in, events out, in the order in which things were told; no thread, no file, no engine. Format: "Trace Event
Format" (Duman, Sinclair and others, Google, 2016), JSON array form.

A replay is an asynchronous span (``b`` at its ticket, ``n`` when it started, ``e`` at its end; ``id`` is the ticket). A
call is a slice (``X``) on the row of the thread that ran it. Where no thread did, as in virtual time, each replay in
flight has a lane of its own, with a row for each stream of its plan, so that slices of one row never overlap. A flow
(``s``, ``f``) leads from the call that ended last of a replay to the first call that started after it in a replay that
had to follow. Counters (``C``) show replays queued and in flight, and bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from asyncjit.plan import Plan
from asyncjit.times import CallTimes, call_times

__all__ = [
    "CapturedRecord",
    "EndedRecord",
    "Event",
    "EventMaker",
    "Record",
    "StartedRecord",
    "SubmittedRecord",
    "encoded",
]

Event = dict[str, Any]

#: Numbers of rows that no thread has, above those that systems give to threads.
VIRTUAL_ROWS_FROM = 1 << 30

#: Ended replays that a flow can still start at; one takes about 200 bytes.
FLOW_SOURCES_MAX = 65_536

MESSAGE_LENGTH_MAX = 300

#: What systems copy in one go when a file is written; larger pages are multiples of it.
PAGE_BYTES = 4096


class CapturedRecord(NamedTuple):
    """A function was recorded."""

    function: str
    now_s: float


class SubmittedRecord(NamedTuple):
    """A call took its ticket; ``is_started`` where it ran at once. ``memory_bytes`` are in use."""

    ticket: int
    function: str
    submitted_s: float
    is_started: bool
    memory_bytes: int


class StartedRecord(NamedTuple):
    """A replay was handed to its device."""

    ticket: int
    function: str
    started_s: float


class EndedRecord(NamedTuple):
    """A replay ended. ``measured`` is ``Replay.measured``."""

    ticket: int
    function: str
    outcome: str
    error: str
    times_s: tuple[float | None, float | None, float]
    predecessors: tuple[int, ...]
    measured: tuple[Plan, Any] | None


Record = CapturedRecord | SubmittedRecord | StartedRecord | EndedRecord


class _Slice(NamedTuple):
    row: int
    started_us: float
    done_s: float


class EventMaker:
    """Makes events of records, given in the order in which things were told. Thread: one.

    ``process`` is the number of the process; ``thread_name`` says what a thread is called.
    """

    def __init__(self, process: int, thread_name: Callable[[int], str]) -> None:
        self._process = process
        self._thread_name = thread_name
        self._named: set[int] = set()
        self._virtual_rows: dict[str, int] = {}
        self._lanes: dict[int, int] = {}
        self._open: set[int] = set()
        self._queued: set[int] = set()
        self._running: set[int] = set()
        self._counts: dict[str, int] = {}
        self._latest_us = 0.0
        self._flows = 0
        #: The call that ended last, of replays that have ended; oldest first.
        self._last_calls: dict[int, _Slice] = {}

    def head(self) -> bytes:
        """How the file begins: the array, and its first event, which says what the process is called."""
        event = self._event("M", "process_name", 0.0, 0, args={"name": "asyncjit"})
        return f"[\n{json.dumps(event, separators=(',', ':'))}".encode()

    def events(self, record: Record) -> Iterator[Event]:
        """The events of one record. Exhaust it before the next."""
        match record:
            case CapturedRecord():
                yield self._event("i", f"captured {record.function}", _us(record.now_s), 0, s="p")
            case SubmittedRecord():
                yield from self._submitted(record)
            case StartedRecord():
                yield from self._started(record)
            case EndedRecord():
                yield from self._ended(record)

    def dropped(self, count: int, now_s: float) -> Event:
        """A mark that so many records are missing."""
        return self._event("i", f"{count} records dropped", _us(now_s), 0, s="p", args={"count": count})

    def _submitted(self, record: SubmittedRecord) -> Iterator[Event]:
        at_us = _us(record.submitted_s)
        args = {"function": record.function, "ticket": record.ticket}
        self._open.add(record.ticket)
        yield self._span("b", record.ticket, record.function, at_us, args)
        if not record.is_started:
            self._queued.add(record.ticket)
        yield from self._count(at_us, queued=len(self._queued), bytes=record.memory_bytes)

    def _started(self, record: StartedRecord) -> Iterator[Event]:
        at_us = _us(record.started_s)
        self._queued.discard(record.ticket)
        self._running.add(record.ticket)
        taken = set(self._lanes.values())
        self._lanes[record.ticket] = next(lane for lane in range(len(taken) + 1) if lane not in taken)
        if record.ticket in self._open:
            yield self._span("n", record.ticket, record.function, at_us, {"what": "started"})
        yield from self._count(at_us, queued=len(self._queued), in_flight=len(self._running))

    def _ended(self, record: EndedRecord) -> Iterator[Event]:
        submitted_s, started_s, done_s = record.times_s
        lane = self._lanes.pop(record.ticket, 0)
        calls = [] if record.measured is None else list(call_times(*record.measured))
        rows = [call.thread or self._virtual_row(f"{call.device} lane {lane} stream {call.stream}") for call in calls]
        for call, row in zip(calls, rows, strict=True):
            yield from self._slice(record, call, row)
        yield from self._arrows(record, calls, rows)
        if calls:
            last = max(range(len(calls)), key=lambda index: calls[index].done_s)
            self._last_calls[record.ticket] = _Slice(rows[last], _us(calls[last].started_s), calls[last].done_s)
            if len(self._last_calls) > FLOW_SOURCES_MAX:
                del self._last_calls[next(iter(self._last_calls))]
        args = {"ticket": record.ticket, "outcome": record.outcome, "after": list(record.predecessors)}
        args |= {"submitted_us": _us(submitted_s), "started_us": _us(started_s), "done_us": _us(done_s)}
        if record.error:
            args["error"] = record.error[:MESSAGE_LENGTH_MAX]
        if record.ticket in self._open:
            yield self._span("e", record.ticket, record.function, _us(done_s), args)
        self._open.discard(record.ticket)
        self._queued.discard(record.ticket)
        self._running.discard(record.ticket)
        yield from self._count(_us(done_s), queued=len(self._queued), in_flight=len(self._running))

    def _slice(self, record: EndedRecord, call: CallTimes, row: int) -> Iterator[Event]:
        if row not in self._named:
            self._named.add(row)
            yield self._event("M", "thread_name", 0.0, row, args={"name": self._row_name(row)})
        start_us = _us(call.started_s)
        args = {"ticket": record.ticket, "function": record.function, "call": call.call, "stream": call.stream}
        if call.source:
            args["source"] = call.source
        kind = "copy" if call.name == "copy" else "kernel"
        duration_us = round(_us(call.done_s) - start_us, 3)
        yield self._event("X", call.name, start_us, row, cat=kind, dur=duration_us, args=args)

    def _arrows(self, record: EndedRecord, calls: list[CallTimes], rows: list[int]) -> Iterator[Event]:
        order = sorted(range(len(calls)), key=lambda index: calls[index].started_s)
        for ticket in record.predecessors:
            source = self._last_calls.get(ticket)
            after = [index for index in order if source is not None and calls[index].started_s >= source.done_s]
            if source is None or not after:
                continue
            # Flows bind to slices, by row and time: the very starts of both are inside them, whatever is rounded.
            self._flows += 1
            common: Event = {"cat": "dependency", "id": self._flows}
            args = {"from": ticket, "to": record.ticket}
            yield self._event("s", "after", source.started_us, source.row, args=args, **common)
            target_us = _us(calls[after[0]].started_s)
            yield self._event("f", "after", target_us, rows[after[0]], bp="e", args=args, **common)

    def _count(self, at_us: float, **values: int) -> Iterator[Event]:
        """Counters whose value is a new one. Never back in time: of two values the one told later is the later one."""
        self._latest_us = max(self._latest_us, at_us)
        for name, value in values.items():
            if self._counts.get(name) != value:
                self._counts[name] = value
                yield self._event("C", name.replace("_", " "), self._latest_us, 0, args={name: value})

    def _span(self, phase: str, ticket: int, name: str, at_us: float, args: Event) -> Event:
        return self._event(phase, name, at_us, 0, cat="replay", id=ticket, args=args)

    def _event(self, phase: str, name: str, at_us: float, row: int, **more: Any) -> Event:
        return {"ph": phase, "name": name, "ts": at_us, "pid": self._process, "tid": row or self._process, **more}

    def _virtual_row(self, name: str) -> int:
        return self._virtual_rows.setdefault(name, VIRTUAL_ROWS_FROM + len(self._virtual_rows))

    def _row_name(self, row: int) -> str:
        if row < VIRTUAL_ROWS_FROM:
            return self._thread_name(row)
        return next(name for name, known in self._virtual_rows.items() if known == row)


def encoded(events: Iterable[Event], offset_bytes: int) -> bytes:
    """The events as members of a JSON array that has begun, to be written at ``offset_bytes``: each after a comma, on a
    line of its own, none across a page of the file.

    A process that is killed while it writes leaves the pages that were copied by then, so that whole events are left.
    """
    parts: list[bytes] = []
    for event in events:
        line = f",\n{json.dumps(event, separators=(',', ':'))}".encode()
        room_bytes = PAGE_BYTES - offset_bytes % PAGE_BYTES
        if room_bytes < len(line) <= PAGE_BYTES:
            parts.append(b" " * room_bytes)
            offset_bytes += room_bytes
        parts.append(line)
        offset_bytes += len(line)
    return b"".join(parts)


def _us(seconds: float | None) -> float:
    return 0.0 if seconds is None else round(seconds * 1e6, 3)
