"""Instruments: hooks for whoever wants to watch replays, without a print or a switch in the engine.

Law: an instrument sees and never steers. Hooks run at once on the thread where the thing happened (any thread), so
they must be quick and must not wait. A hook that raises is logged once, with its traceback, and its instrument is
removed: a broken observer never breaks what it observes. With none installed the engine tests one attribute,
``Instruments.active``.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

__all__ = ["Instrument", "Instruments"]

_logger = logging.getLogger("asyncjit.instruments")


class Instrument:
    """Base of instruments: override the hooks you want. ``replay`` is the ``asyncjit.Replay`` in question.

    The hooks of one replay come in the order in which they stand here: submitted, perhaps started, and one of done,
    failed and cancelled. Hooks of different replays may come at the same time from different threads.
    """

    #: Whether this instrument wants the time of every call: ``replay.call_times`` of replays that start from now on is
    #: then filled when ``replay_done`` or ``replay_failed`` comes. Costs two clock readings a call, so it is asked for.
    takes_times: bool = False

    def captured(self, name: str, program: Any) -> None:
        """The function ``name`` was captured as ``program``; its first replay follows."""

    def replay_submitted(self, replay: Any) -> None:
        """A call took its ticket."""

    def replay_started(self, replay: Any) -> None:
        """The replay was handed to its device, or began inline; ``replay.predecessors`` is known."""

    def replay_done(self, replay: Any) -> None:
        """The replay finished and its outputs hold their values."""

    def replay_failed(self, replay: Any, error: BaseException) -> None:
        """The replay ended with ``error``; readers of what it writes fail too."""

    def replay_cancelled(self, replay: Any) -> None:
        """The replay was removed before it started, as if never called."""


class Instruments(Instrument):
    """The instruments of one engine, and the hooks that pass everything on to each of them in order of addition.

    Callable from any thread. ``active`` is False when there is none: hot paths test it and call no hook.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Replaced, never changed in place, so that a hook under way on another thread keeps the tuple it began with.
        self._installed: tuple[Instrument, ...] = ()
        self.active = False

    def add(self, instrument: Instrument) -> None:
        """Have its hooks called from now on. Adding it twice changes nothing."""
        with self._lock:
            if not any(known is instrument for known in self._installed):
                self._replace((*self._installed, instrument))

    def remove(self, instrument: Instrument) -> None:
        """Call its hooks no more; one that runs on another thread right now is not waited for. Unknown ones are
        fine."""
        with self._lock:
            self._replace(tuple(known for known in self._installed if known is not instrument))

    def _replace(self, installed: tuple[Instrument, ...]) -> None:
        self._installed = installed
        self.takes_times = any(instrument.takes_times for instrument in installed)
        self.active = bool(installed)

    def _call(self, hook: str, *arguments: object) -> None:
        for instrument in self._installed:
            try:
                getattr(instrument, hook)(*arguments)
            except Exception:
                # Two threads may fail in it at the same time: whoever removes it is the one who logs.
                with self._lock:
                    known = any(other is instrument for other in self._installed)
                    self._replace(tuple(other for other in self._installed if other is not instrument))
                if known:
                    _logger.exception("%r raised in %s and is disabled", instrument, hook)

    def captured(self, name: str, program: Any) -> None:
        self._call("captured", name, program)

    def replay_submitted(self, replay: Any) -> None:
        self._call("replay_submitted", replay)

    def replay_started(self, replay: Any) -> None:
        self._call("replay_started", replay)

    def replay_done(self, replay: Any) -> None:
        self._call("replay_done", replay)

    def replay_failed(self, replay: Any, error: BaseException) -> None:
        self._call("replay_failed", replay, error)

    def replay_cancelled(self, replay: Any) -> None:
        self._call("replay_cancelled", replay)
