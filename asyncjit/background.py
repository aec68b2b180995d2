"""One helper thread of an engine: lowering, captures that waited their turn, frames that take long to make.

Law: jobs run one after another, in order; a job that raises is our mistake and is logged, never lost.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["Background"]

_logger = logging.getLogger("asyncjit.engine")


class Background:
    """Runs jobs on a thread that starts with the first one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, job: Callable[[], object]) -> bool:
        """Have the job run soon. False, and nothing is done, after ``close`` or where no thread can be started."""
        with self._lock:
            if self._closed:
                return False
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    _logger.warning("the thread %s cannot be started", self._name, exc_info=True)
                    return False
                self._thread = thread
            self._jobs.put(job)
        return True

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except BaseException:
                _logger.exception("a background job of %s failed", self._name)
            del job

    def close(self, timeout_s: float) -> bool:
        """Finish what was taken and join the thread; True when that took at most ``timeout_s``."""
        with self._lock:
            self._closed = True
            thread = self._thread
            self._jobs.put(None)
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout_s)
        return not thread.is_alive()
