"""Where in the user's code something happens.

Law: looks at the stack, changes nothing; imports nothing of the project. What is the user's is told by the name of the
module that a frame runs in: the package's own modules are not, the programs that come with it are.
"""

from __future__ import annotations

import linecache
import sys

__all__ = ["line_of", "user_stacklevel", "where_in_user_code"]

_PACKAGE = "asyncjit."
_PROGRAMS = "asyncjit.demo"


def where_in_user_code() -> str:
    """``file:line`` of the innermost frame outside asyncjit, or "" where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(_PACKAGE) or module.startswith(_PROGRAMS):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def user_stacklevel() -> int:
    """What ``warnings.warn`` takes, called by the caller, to speak of the innermost frame outside asyncjit."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def line_of(where: str) -> str:
    """The source line at ``file:line``, in brackets and backquotes, or ""."""
    file, _, line = where.rpartition(":")
    text = linecache.getline(file, int(line)).strip() if file else ""
    return f" (`{text}`)" if text else ""
