"""Traces: ``aj.trace(path)`` writes what an engine does to a file that Perfetto and chrome://tracing show.

Law: an instrument like any other; it sees and never steers. Hooks append a small record and return; a thread of the
trace's own makes events of them and writes these, so that nothing waits for a disk. What the events look like stands in
``trace_events``.

The file is a JSON array that is only ever appended to, in whole events, about every FLUSH_PERIOD_S while something
happens. A process that dies in the middle leaves an array without its closing bracket, which both viewers load.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from asyncjit.engine import Engine, current_engine
from asyncjit.instruments import Instrument
from asyncjit.replay import Replay
from asyncjit.trace_events import (
    CapturedRecord,
    EndedRecord,
    EventMaker,
    Record,
    StartedRecord,
    SubmittedRecord,
    encoded,
)

__all__ = ["Trace", "trace"]

_logger = logging.getLogger("asyncjit.tracing")

#: Records are written this long after the first one that waits, or when so many wait, whichever comes first. What a
#: process that is killed had not written is at most that.
FLUSH_PERIOD_S = 0.05
FLUSH_RECORDS = 1_000

#: Beyond this many that wait, records are dropped and counted: about 300 bytes each.
RECORDS_MAX = 100_000

#: For hooks that other threads are calling, and for the disk, when a trace is stopped.
TOLD_TIMEOUT_S = 1.0
WRITTEN_TIMEOUT_S = 10.0


class Trace(Instrument):
    """A trace of one engine into one file; see ``trace``. Used once: from ``start`` to ``stop``."""

    takes_times = True

    def __init__(self, path: str | os.PathLike[str], engine: Engine | None = None) -> None:
        self.path = Path(path)
        self._engine = engine
        self._records: deque[Record] = deque()
        self._dropped = 0
        self._written_bytes = 0
        self._some = threading.Event()
        self._many = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._process = 0

    def start(self) -> Trace:
        """Open the file, emptying it, and begin.

        Raises:
            OSError: the file cannot be written.
            RuntimeError: it was started before, or there is no thread to be had.
        """
        if self._thread is not None:
            raise RuntimeError(f"the trace into {self.path} was started before; make another one with aj.trace(path)")
        self._engine = self._engine or current_engine()
        self._process = os.getpid()
        maker = EventMaker(self._process, _thread_name)
        file = self.path.open("wb")
        thread = threading.Thread(target=self._write, args=(file, maker), name="asyncjit-trace", daemon=True)
        try:
            self._append(file, maker.head())
            thread.start()
        except BaseException:
            file.close()
            raise
        self._thread = thread
        self._engine.instruments.add(self)
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Write what has happened up to now and close the file; blocks for that long, normally some milliseconds.

        What still runs leaves its span open. Again, before ``start``, and in a forked child: does nothing. Not from a
        hook of an instrument, which it would wait for.
        """
        thread, engine = self._thread, self._engine
        if thread is None or engine is None or self._stopping or os.getpid() != self._process:
            return
        # Waiters are woken before instruments are told, so the end of what was just awaited may not be known here yet.
        if not engine.wait_until_told(TOLD_TIMEOUT_S):
            _logger.warning(
                "another instrument of the engine is slow; the end of the trace %s may be missing", self.path
            )
        engine.instruments.remove(self)
        self._stopping = True
        self._some.set()
        self._many.set()
        thread.join(WRITTEN_TIMEOUT_S)
        if thread.is_alive():
            _logger.warning("the disk of the trace %s is slow; writing goes on in the background", self.path)
        atexit.unregister(self.stop)

    def __enter__(self) -> Trace:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "new" if self._thread is None else "stopped" if self._stopping else "running"
        return f"<Trace into {str(self.path)!r}: {state}>"

    # Hooks: quick, on the thread where it happened; one at a time for one engine. They keep nothing of the replay that
    # holds arrays.

    def captured(self, name: str, program: Any) -> None:
        assert self._engine is not None
        self._put(CapturedRecord(name, self._engine.clock.now_s()))

    def replay_submitted(self, replay: Replay[Any]) -> None:
        assert self._engine is not None
        assert replay.submitted_s is not None
        is_started = replay.started_s is not None
        memory_bytes = self._engine.memory_bytes
        self._put(SubmittedRecord(replay.ticket, replay.program.name, replay.submitted_s, is_started, memory_bytes))

    def replay_started(self, replay: Replay[Any]) -> None:
        assert replay.started_s is not None
        self._put(StartedRecord(replay.ticket, replay.program.name, replay.started_s))

    def replay_done(self, replay: Replay[Any]) -> None:
        self._end(replay, "done", "")

    def replay_failed(self, replay: Replay[Any], error: BaseException) -> None:
        self._end(replay, "failed", f"{type(error).__name__}: {error}")

    def replay_cancelled(self, replay: Replay[Any]) -> None:
        self._end(replay, "cancelled", "")

    def _end(self, replay: Replay[Any], outcome: str, error: str) -> None:
        assert replay.done_s is not None
        times_s = (replay.submitted_s, replay.started_s, replay.done_s)
        name = replay.program.name
        self._put(EndedRecord(replay.ticket, name, outcome, error, times_s, replay.predecessors, replay.measured))

    def _put(self, record: Record) -> None:
        records = self._records
        if len(records) >= RECORDS_MAX:
            self._dropped += 1
            return
        records.append(record)
        if not self._some.is_set():
            self._some.set()
        if len(records) >= FLUSH_RECORDS and not self._many.is_set():
            self._many.set()

    # The writer's thread.

    def _write(self, file: BinaryIO, maker: EventMaker) -> None:
        try:
            with file:
                while not self._stopping:
                    self._some.wait()
                    self._many.wait(FLUSH_PERIOD_S)
                    self._write_records(file, maker)
                self._write_records(file, maker)
                if self._dropped:
                    assert self._engine is not None
                    mark = maker.dropped(self._dropped, self._engine.clock.now_s())
                    self._append(file, encoded([mark], self._written_bytes))
                self._append(file, b"\n]\n")
        except Exception:
            _logger.exception("the trace %s ends here; free space on its disk, or give another path", self.path)
            # Without a writer records would only pile up.
            if self._engine is not None:
                self._engine.instruments.remove(self)
            self._records.clear()

    def _write_records(self, file: BinaryIO, maker: EventMaker) -> None:
        # Cleared first: what is put in from here on is taken below, or sets them again.
        self._some.clear()
        self._many.clear()
        records = self._records
        while records:
            count = min(len(records), FLUSH_RECORDS)
            events = (event for _ in range(count) for event in maker.events(records.popleft()))
            self._append(file, encoded(events, self._written_bytes))

    def _append(self, file: BinaryIO, data: bytes) -> None:
        file.write(data)
        file.flush()
        self._written_bytes += len(data)


def trace(path: str | os.PathLike[str], *, engine: Engine | None = None) -> Trace:
    """Write a timeline of an engine to ``path``, to be opened in https://ui.perfetto.dev or chrome://tracing.

    ``with aj.trace("out.json"):`` traces what happens inside the block, in async code too; or call ``start`` and
    ``stop``. ``engine`` is, where None, the one that is current at the start. The timeline shows kernels and copies, a
    row for each thread; replays as spans by ticket, with when they were submitted, started and done, and how they
    ended; whom a replay had to follow, as arrows; replays queued and in flight, and bytes, as counters. Replays that
    have their ticket before the start have no span. Times are microseconds of the engine's clock; a device with another
    clock has its calls on that one.

    A traced engine reads the clock twice a call, and runs no replay by the shortest way; the file grows by about 1 KiB
    a replay and 200 bytes a call. After a crash the file holds all but the last 50 ms, and loads.
    """
    return Trace(path, engine)


def _thread_name(number: int) -> str:
    names = (thread.name for thread in threading.enumerate() if thread.native_id == number)
    return next(names, f"thread {number}")
