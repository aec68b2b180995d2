"""What runs in a process of ``executor="process"``: one transform, applied to items as they come.

Law: one side of a conversation; the other is ``processes``. Arrays go back through shared memory, the rest of a result
through the pipe.

The parent sends an item, pickled, or nothing, which means the end. The answer is ``(VALUE, pickled)``, with an
``ArrayAt`` for each array in it; ``(NEED, nbytes)`` when the arrays do not fit, upon which the parent sends the name of
a larger block and gets the answer; or ``(ERROR, Story)``.
"""

from __future__ import annotations

import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from asyncjit.prefetch.items import mapped

__all__ = ["ERROR", "NEED", "VALUE", "ArrayAt", "Story", "error_of", "main", "refill"]

VALUE, NEED, ERROR = "value", "need", "error"

ALIGNMENT_BYTES = 64


class ArrayAt:
    """Stands for an array in a result: where it lies in the block. (No dataclass, which would be a container.)"""

    __slots__ = ("dtype", "offset", "shape")

    def __init__(self, offset: int, shape: tuple[int, ...], dtype: str) -> None:
        self.offset, self.shape, self.dtype = offset, shape, dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayAt, (self.offset, self.shape, self.dtype)

    def view(self, block: Any) -> np.ndarray[Any, Any]:
        """The array, in the block's memory."""
        return np.ndarray(self.shape, self.dtype, block, self.offset)


@dataclass(frozen=True, slots=True)
class Story:
    """An error on its way to another process: pickled, with what pickle leaves out: its cause and its traceback."""

    pickled: bytes | None
    text: str
    cause: Story | None

    @classmethod
    def of(cls, error: BaseException) -> Story:
        cause = None if error.__cause__ is None else cls.of(error.__cause__)
        text = "".join(traceback.format_exception(error, chain=False))
        try:
            pickled = pickle.dumps(error)
            pickle.loads(pickled)
        except Exception:
            # Errors with constructors of their own often cannot be taken apart or put together.
            return cls(None, text, cause)
        return cls(pickled, text, cause)


def error_of(story: Story) -> BaseException:
    """The error, with its cause, and a note that holds the traceback of the other process."""
    if story.pickled is None:
        last = story.text.strip().splitlines()[-1]
        error: BaseException = RuntimeError(f"{last} (an error that cannot be sent from one process to another)")
    else:
        error = pickle.loads(story.pickled)
    error.add_note(f"In the process of the transform:\n{story.text}")
    error.__cause__ = None if story.cause is None else error_of(story.cause)
    return error


def refill(value: Any, leaf: Callable[[ArrayAt], Any]) -> Any:
    """``value`` with ``leaf(place)`` for every ``ArrayAt`` in it."""
    return mapped(value, leaf, _place_of)


def _place_of(value: object) -> ArrayAt | None:
    return value if isinstance(value, ArrayAt) else None


class _Writer:
    """Puts results into the block, which the parent owns and names."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection
        self._block: SharedMemory | None = None

    def answer(self, value: Any) -> tuple[str, Any]:
        arrays: list[tuple[int, np.ndarray[Any, Any]]] = []
        end = 0

        def place(host: np.ndarray[Any, Any]) -> ArrayAt:
            nonlocal end
            offset = -(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            arrays.append((offset, host))
            end = offset + host.nbytes
            return ArrayAt(offset, host.shape, host.dtype.str)

        pickled = pickle.dumps(mapped(value, place))
        if arrays and (self._block is None or self._block.size < end):
            # Empty arrays need a block as well, and there are none of 0 bytes.
            self._connection.send((NEED, max(end, 1)))
            self._attach(self._connection.recv())
        for offset, host in arrays:
            assert self._block is not None
            np.copyto(np.ndarray(host.shape, host.dtype, self._block.buf, offset), host)
        return VALUE, pickled

    def _attach(self, name: str) -> None:
        if self._block is not None:
            self._block.close()
        # Until 3.13 whoever attaches also registers the block with the resource tracker, which parent and child share:
        # it stays one entry, and the parent, who owns the block, takes it out.
        if sys.version_info >= (3, 13):
            self._block = SharedMemory(name, track=False)
        else:
            self._block = SharedMemory(name)


def main(connection: Connection[Any, Any], transform_pickled: bytes) -> None:
    """Serve until the parent says so, or is gone."""
    # Ctrl-C reaches every process of a terminal; what becomes of this one is for the parent to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    writer = _Writer(connection)
    transform: Callable[[Any], Any] | None = None
    while True:
        try:
            item_pickled = connection.recv_bytes()
        except EOFError:
            return
        if not item_pickled:
            return
        try:
            transform = transform or pickle.loads(transform_pickled)
            answer = writer.answer(transform(pickle.loads(item_pickled)))
        except BaseException as error:
            answer = ERROR, Story.of(error)
        connection.send(answer)
        del answer
