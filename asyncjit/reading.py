"""Reads from the host: views that never change, and copies of state under a ticket.

Law: a read is a run of the scheduler's that the reading thread carries out itself. It touches no device.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from asyncjit.errors import EngineClosedError, WouldBlockError
from asyncjit.inbox import Reading
from asyncjit.loading import Loader
from asyncjit.runs import STARTED, CancelRequested, Footprint, Reject, Run, RunDone, Start, State, Submit, Touch
from asyncjit.storage import Storage
from asyncjit.streams import in_event_loop, wait_blocking

__all__ = ["Reader"]

#: Reads run on no device: they wait for the end of what they follow, and what a lost device has finished can be read.
_HOST = "host"


class Reader(Loader):
    """Reads storages. Thread: any."""

    def check_process(self) -> None:
        """Whether waiting for this engine makes sense.

        Raises:
            EngineClosedError: it belongs to the process that this one was forked from.
        """
        if self._is_foreign:
            raise EngineClosedError(self._unusable or "")

    def export(self, storage: Storage) -> bool:
        """A read-only view of the memory is given out; False, and it must not be, where somebody writes in place."""
        with self._lock:
            if storage.is_state or storage.poisoned:
                return False
            storage.exported = True
            return True

    def read_state(self, storage: Storage, start: int, stop: int, read: Callable[[], np.ndarray]) -> np.ndarray:
        """Read bytes that replays write in place, under one ticket, when nothing earlier writes them any more.

        Raises:
            DependencyError: a replay that should have written them failed.
            WouldBlockError: a replay writes them since they were awaited, and a loop runs in this thread.
            EngineClosedError: it belongs to the process that this one was forked from.
        """
        self.check_process()
        reading, may_wait = Reading(), not in_event_loop()
        run = _run(self, storage, start, stop, reading)
        with self._lock:
            self._process_inbox()
            commands = self._scheduler.step(Submit(run, True))
            first = commands[0] if commands else None
            if isinstance(first, Reject):
                return self._read_closed(storage, run, read, first.error)
            if isinstance(first, Start) and first.inline:
                try:
                    return read()
                finally:
                    self._scheduler.step(RunDone(run))
            if run.state is State.FAILED:
                assert run.error is not None
                raise run.error
            if not may_wait:
                self._carry_out(self._scheduler.step(CancelRequested(run)))
                raise WouldBlockError(
                    "a replay that was called since the array was awaited writes it, or may do so when it has been "
                    "recorded; await the array again"
                )
            self._carry_out(commands)
        return self._read_later(run, reading, read)

    def _read_later(self, run: Run, reading: Reading, read: Callable[[], np.ndarray]) -> np.ndarray:
        """Wait until the run may read, on a plain thread."""
        try:
            wait_blocking(reading.settled)
            if run.error is not None:
                raise run.error
            return read()
        finally:
            # Ctrl-C may have come before it was started: then it is removed.
            self._step(CancelRequested(run))
            if run.state in STARTED:
                self.feed(RunDone(run))
            reading.fence.signal()

    def _read_closed(
        self, storage: Storage, run: Run, read: Callable[[], np.ndarray], refusal: BaseException
    ) -> np.ndarray:
        """The engine takes no reads any more. Where nobody writes any more either, none is needed."""
        if storage.writer is not None:
            raise refusal
        error = self._scheduler.failure_read_by(run)
        if error is not None:
            raise error
        return read()

    def failure_in(self, storage: Storage) -> BaseException | None:
        """What a read of all of the storage would fail with now, without waiting for anything."""
        if self._is_foreign:
            return storage.failure
        run = _run(self, storage, 0, storage.nbytes, Reading())
        with self._lock:
            self._process_inbox()
            commands = self._scheduler.step(Submit(run, True))
            first = commands[0] if commands else None
            if isinstance(first, Reject):
                return self._scheduler.failure_read_by(run)
            if isinstance(first, Start) and first.inline:
                self._scheduler.step(RunDone(run))
            elif run.state is State.FAILED:
                return run.error
            else:
                self._carry_out(self._scheduler.step(CancelRequested(run)))
        return None


def _run(engine: Loader, storage: Storage, start: int, stop: int, reading: Reading) -> Run:
    run = Run(engine.reading_group, reading)
    footprint = Footprint(((0, (Touch(0, start, stop, 0, 0),), ()),))
    run.bind(_HOST, footprint, [storage.serial], [0])
    return run
