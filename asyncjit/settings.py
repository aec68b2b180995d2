"""Settings of the process: what somebody may want to change without touching a program.

Law: the one place that reads ``ASYNCJIT_*`` from the environment, once, at import. Everything else asks ``settings()``.
Standard library and ``errors`` only.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["Settings", "override_settings", "settings"]

PREFIX = "ASYNCJIT_"

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set, by field or by the variable of the environment that is named after it.

    jit (``ASYNCJIT_JIT``): "on"; "off": jitted functions are not captured, every call runs their Python code and its
        operations one by one, and still returns a Replay; "no_graphs": captured, but a device is given each call of a
        plan by itself. To find out which of the two makes a difference.
    graph_batch_size (``ASYNCJIT_GRAPH_BATCH_SIZE``): calls in the first segment of a stream, which a device launches in
        one go; each full one doubles the next. None leaves it to the device; the CPU gains nothing from a limit, for a
        device that has to build a graph of each segment 32 is a good one.
    log_level (``ASYNCJIT_LOG_LEVEL``): of the logger "asyncjit", such as "DEBUG", which then also writes to stderr
        where the program has set up no logging. None leaves it alone.

    Raises:
        ValueError: a value that makes no sense.
    """

    jit: str = "on"
    graph_batch_size: int | None = None
    log_level: str | None = None

    def __post_init__(self) -> None:
        size = self.graph_batch_size
        if self.jit not in ("on", "off", "no_graphs"):
            raise _error("jit", "'on', 'off' or 'no_graphs'", self.jit)
        if size is not None and (not isinstance(size, int) or size < 1):
            raise _error("graph_batch_size", "None or an int of at least 1", size)
        if self.log_level is not None and self.log_level not in _LEVELS:
            raise _error("log_level", f"None or one of {', '.join(_LEVELS)}", self.log_level)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Settings by variables; those that are not there, or empty, keep their defaults. Case does not matter. A
        variable ``ASYNCJIT_…`` that is none of these gets a UserWarning: it may be a slip.

        Raises:
            ValueError: a value that makes no sense.
        """
        given: dict[str, Any] = {}
        for variable, text in environment.items():
            if not variable.startswith(PREFIX):
                continue
            name = variable.removeprefix(PREFIX).lower()
            if name not in cls.__dataclass_fields__:
                known = ", ".join(PREFIX + each.upper() for each in cls.__dataclass_fields__)
                warnings.warn(f"{variable} is set, but asyncjit has no such setting; there are {known}", stacklevel=2)
            elif text.strip():
                given[name] = _parsed(name, text.strip())
        return cls(**given)


def _parsed(name: str, text: str) -> object:
    if name == "graph_batch_size":
        # What is no number is refused with the rest.
        return int(text) if text.isdecimal() else text
    return text.upper() if name == "log_level" else text.lower()


def _error(name: str, expected: str, given: object) -> ValueError:
    return ValueError(f"setting {name} ({PREFIX}{name.upper()}) must be {expected}, got {given!r}")


def _apply_log_level(level: str | None) -> None:
    logger = logging.getLogger("asyncjit")
    logger.setLevel(logging.NOTSET if level is None else level)
    if level is not None and not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())


_of_process = Settings.from_environment(os.environ)
if _of_process.log_level is not None:
    _apply_log_level(_of_process.log_level)

_current: ContextVar[Settings] = ContextVar("asyncjit.settings", default=_of_process)


def settings() -> Settings:
    """The settings that hold in this task: those of the process, unless ``override_settings`` has changed them."""
    return _current.get()


@contextmanager
def override_settings(**changes: Any) -> Iterator[Settings]:
    """Other settings inside the block, in this task and in tasks and threads that take over its context. For tests.

    Captures keep the form that they were made in. ``log_level`` is the process's, and put back at the end.

    Raises:
        ValueError, TypeError: a value that makes no sense, or no setting of that name.
    """
    before = _current.get()
    now = replace(before, **changes)
    token = _current.set(now)
    if now.log_level != before.log_level:
        _apply_log_level(now.log_level)
    try:
        yield now
    finally:
        _current.reset(token)
        if now.log_level != before.log_level:
            _apply_log_level(before.log_level)
