"""What stands for an array while a function is recorded.

Law: a traced storage has a buffer of the schedule and no memory; reading it is an error that names the line.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NoReturn, Protocol

import numpy as np

from asyncjit import ir
from asyncjit.errors import CaptureError, HostReadError
from asyncjit.storage import Storage
from asyncjit.user_code import line_of, where_in_user_code

__all__ = ["Traced", "host_read_error"]


class Owner(Protocol):
    """What a traced storage knows of its recorder."""

    @property
    def name(self) -> str: ...

    @property
    def dead(self) -> bool: ...


class Traced:
    """Storage of an array that is being recorded: a buffer of the schedule, no memory.

    ``constant`` is the storage of host data met during capture, until somebody writes to it. ``is_value`` marks what
    must be copied before it is written: such data, and numbers passed as arguments.
    """

    __slots__ = ("__weakref__", "buffer", "constant", "is_value", "made_at", "recorder", "what")

    def __init__(self, recorder: Owner, buffer: ir.Buffer, what: str = "", constant: Storage | None = None) -> None:
        self.recorder = recorder
        self.buffer = buffer
        self.what = what
        self.constant = constant
        self.is_value = constant is not None
        self.made_at = where_in_user_code()

    @property
    def device(self) -> str:
        return self.buffer.device

    @property
    def nbytes(self) -> int:
        return self.buffer.nbytes

    @property
    def is_ready(self) -> bool:
        return False

    def read_host(
        self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any], what: str
    ) -> NoReturn:
        """Refuse: there is no value.

        Raises:
            HostReadError: the function that is being recorded reads it.
            CaptureError: the capture has ended.
        """
        if self.recorder.dead:
            self._refuse_late()
        raise host_read_error(self.recorder.name, what, f"{dtype.name}{list(shape)}")

    def __await__(self) -> Generator[Any, None, None]:
        """Nothing to wait for: a recorded array has no value to become ready."""
        if self.recorder.dead:
            self._refuse_late()
        return
        yield

    def __getattr__(self, name: str) -> NoReturn:
        # Whoever treats this as real memory (a replay, an eager operation) holds an array that outlived its capture.
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse_late()

    def _refuse_late(self) -> NoReturn:
        function, where = self.recorder.name, self.made_at
        if not self.recorder.dead:
            raise CaptureError(
                f"an array made at {where or 'an unknown place'} in {function!r}, which is being recorded, is used "
                "outside of that recording, where it has no value; in aj.not_captured() use host data, arrays made in "
                "it, and state that was made before",
                function=function,
                where=where,
            )
        raise CaptureError(
            f"an array made at {where or 'an unknown place'} while {function!r} was recorded is used outside of that "
            f"recording, where it has no value; return it from {function!r} and use the result of the replay",
            function=function,
            where=where,
        )


def host_read_error(function: str, what: str, given: str) -> HostReadError:
    where = where_in_user_code()
    return HostReadError(
        f"{what} at {where}{line_of(where)} reads the value of an array ({given}) while {function!r} is recorded, when "
        "no array has a value; choose with anp.where, or pass the value as an argument named in static=, or return "
        "the array and read it outside",
        function=function,
        where=where,
        what=what,
    )
