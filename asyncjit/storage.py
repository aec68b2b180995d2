"""Runtime storage: the memory behind arrays, and who writes it.

Law: one object a buffer; it knows its engine, not what computes. Arrays are views of storages; several may share one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

import numpy as np

from asyncjit.errors import WouldBlockError
from asyncjit.ir import new_serial
from asyncjit.streams import in_event_loop

__all__ = ["Owner", "Storage", "Writer"]


class Writer(Protocol):
    """What a storage knows of a replay that writes it."""

    def wait(self) -> object: ...

    def __await__(self) -> Generator[Any, Any, Any]: ...


class Owner(Protocol):
    """What a storage needs of its engine."""

    def note_freed(self, storage: Storage) -> None: ...

    def read_state(self, storage: Storage, start: int, stop: int, read: Callable[[], np.ndarray]) -> np.ndarray: ...


class Storage:
    """``nbytes`` bytes on ``device``, known by a serial number that is never used again.

    Only the engine writes the attributes. ``writer`` is the last replay that will write here and has not ended;
    ``awaited`` says that nothing was written since somebody waited for it.
    """

    __slots__ = (
        "__weakref__",
        "awaited",
        "device",
        "engine",
        "exported",
        "failure",
        "is_state",
        "memory",
        "nbytes",
        "poisoned",
        "serial",
        "staging",
        "writer",
    )

    def __init__(self, engine: Owner, device: str, nbytes: int, memory: Any, *, awaited: bool = False) -> None:
        self.serial = new_serial()
        self.engine = engine
        self.device = device
        self.nbytes = nbytes
        self.memory = memory
        self.awaited = awaited
        self.writer: Writer | None = None
        #: The copy from host memory that fills it, while that has not ended.
        self.staging: Writer | None = None
        #: What its producer ended with, when that was no success.
        self.failure: BaseException | None = None
        #: The scheduler remembers a failed write to it.
        self.poisoned = False
        #: Somebody has written here in place: reads give copies from now on.
        self.is_state = False
        #: A read-only view of the memory is out: it is moved before the first write in place.
        self.exported = False

    def __del__(self) -> None:
        self.engine.note_freed(self)

    def __repr__(self) -> str:
        return f"<storage {self.serial}: {self.nbytes} bytes on {self.device}>"

    def read_host(
        self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any], what: str
    ) -> np.ndarray:
        """The elements as a NumPy array: a read-only view where nobody writes in place, else a copy.

        Outside an event loop it waits for what is pending.

        Raises:
            WouldBlockError: in a running loop, before somebody has awaited the array.
            AsyncJitError: the replay that writes it failed.
        """
        if not self.awaited:
            if in_event_loop():
                raise WouldBlockError(
                    f"{what} reads an array of shape {shape} and dtype {dtype} that was not awaited, which could "
                    "freeze the event loop; await the array, or the replay that makes it, first",
                    shape=shape,
                    dtype=str(dtype),
                )
            writer = self.writer
            if writer is not None:
                writer.wait()
            self.awaited = True
        if self.failure is not None:
            raise self.failure
        if self.is_state or self.poisoned:
            low, high = _extent(offset, shape, strides, dtype.itemsize)
            return self.engine.read_state(self, low, high, lambda: self._view(offset, shape, strides, dtype).copy())
        view = self._view(offset, shape, strides, dtype)
        view.flags.writeable = False
        self.exported = True
        return view

    @property
    def is_ready(self) -> bool:
        """Whether ``read_host`` would give a value at once."""
        return self.writer is None and self.failure is None and (self.awaited or not in_event_loop())

    def _view(self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        return np.ndarray(shape, dtype, buffer=self.memory, offset=offset, strides=strides)

    def __await__(self) -> Generator[Any, Any, Storage]:
        """Wait for whoever writes it now.

        Raises:
            AsyncJitError: that replay failed, or the array was never made.
        """
        while self.writer is not None:
            yield from self.writer.__await__()
        if self.failure is not None:
            raise self.failure
        self.awaited = True
        return self


def _extent(offset: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """First byte and the byte after the last that the elements touch."""
    if 0 in shape:
        return offset, offset
    steps = [(count - 1) * stride for count, stride in zip(shape, strides, strict=True)]
    low = offset + sum(step for step in steps if step < 0)
    return low, offset + sum(step for step in steps if step > 0) + itemsize
