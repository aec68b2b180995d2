"""Runtime storage: the memory behind arrays, and who writes it.

Law: one object a buffer; it knows its engine, not what computes. Arrays are views of storages; several may share one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

import numpy as np

from asyncjit.errors import WouldBlockError
from asyncjit.ir import new_serial
from asyncjit.streams import in_event_loop, pace

__all__ = ["Owner", "Storage", "Writer"]


class Writer(Protocol):
    """What a storage knows of a replay that writes it."""

    def done(self) -> bool: ...

    def until_done(self) -> Generator[Any, Any, None]:
        """Wait for its end, whatever that is, without a say in whether it is wanted."""
        ...

    def block_until_done(self) -> None: ...


class Owner(Protocol):
    """What a storage needs of its engine."""

    def note_freed(self, storage: Storage) -> None: ...

    def export(self, storage: Storage) -> bool: ...

    def read_state(self, storage: Storage, start: int, stop: int, read: Callable[[], np.ndarray]) -> np.ndarray: ...

    def failure_in(self, storage: Storage) -> BaseException | None: ...


class Storage:
    """``nbytes`` bytes on ``device``, known by a serial number that is never used again.

    Only the engine writes the attributes, but for ``awaited``, which says that nothing was written since somebody
    waited for it.
    """

    # Defaults stand in the class, so that an output, of which most replays make one, is quickly made.
    awaited = False
    #: The last replay that will write here and has not ended, and those before it, oldest first.
    writer: Writer | None = None
    earlier: list[Writer] | None = None
    #: The copy from host memory that fills it, and that memory, while the copy has not ended.
    staging: Writer | None = None
    source: np.ndarray | None = None
    #: What the last replay that wrote here ended with, when that was no success.
    failure: BaseException | None = None
    #: The scheduler may remember a failed write to it.
    poisoned = False
    #: Somebody has written here in place: reads give copies from now on.
    is_state = False
    #: A read-only view of the memory is out: it is moved before the first write in place.
    exported = False

    def __init__(self, engine: Owner, device: str, nbytes: int, memory: Any) -> None:
        self.serial = new_serial()
        self.engine = engine
        self.device = device
        self.nbytes = nbytes
        self.memory = memory

    def __del__(self) -> None:
        self.engine.note_freed(self)

    def __repr__(self) -> str:
        return f"<storage {self.serial}: {self.nbytes} bytes on {self.device}>"

    # Who writes; for the engine.

    def expect(self, writer: Writer) -> None:
        """``writer`` will write here, after all that were expected before."""
        if self.writer is not None:
            if self.earlier is None:
                self.earlier = []
            self.earlier.append(self.writer)
        self.writer = writer

    def leave(self, writer: Writer) -> None:
        """``writer`` has ended, or was taken out."""
        earlier = self.earlier
        if self.writer is writer:
            self.writer = earlier.pop() if earlier else None
        elif earlier and writer in earlier:
            earlier.remove(writer)
        if self.staging is writer:
            self.staging = self.source = None

    # Reading.

    def read_host(
        self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any], what: str
    ) -> np.ndarray:
        """The elements as a NumPy array: a read-only view where nobody writes in place, else a copy.

        Outside an event loop it waits for what is pending.

        Raises:
            WouldBlockError: in a running loop, before somebody has awaited the array.
            DependencyError: a replay that should have written it failed or was cancelled.
        """
        if not self.awaited:
            if in_event_loop():
                raise WouldBlockError(
                    f"{what} reads an array of shape {shape} and dtype {dtype} that was not awaited, which could "
                    "freeze the event loop; await the array, or the replay that makes it, first",
                    shape=shape,
                    dtype=str(dtype),
                )
            while (writer := self.writer) is not None:
                writer.block_until_done()
            self.awaited = True
        staging, source = self.staging, self.source
        if staging is not None and source is not None and not self.is_state:
            copy = _view(source, offset, shape, strides, dtype).copy()
            # Until then the host memory is ours to read, afterwards the storage is complete.
            if not staging.done():
                return copy
        if self.is_state or self.poisoned or not self.engine.export(self):
            low, high = _extent(offset, shape, strides, dtype.itemsize)

            def read() -> np.ndarray:
                return _view(self.memory, offset, shape, strides, dtype).copy()

            return self.engine.read_state(self, low, high, read)
        view = _view(self.memory, offset, shape, strides, dtype)
        view.flags.writeable = False
        return view

    @property
    def is_ready(self) -> bool:
        """Whether ``read_host`` would give a value at once."""
        return self.writer is None and self.failure is None and (self.awaited or not in_event_loop())

    def __await__(self) -> Generator[Any, Any, Storage]:
        """Wait for whoever writes it now.

        Cancelling the wait does not cancel the work: whoever awaits an array holds it.

        Raises:
            DependencyError: a replay that should have written some of it failed or was cancelled; the rest can be read.
        """
        if self.writer is None:
            yield from pace()
        while (writer := self.writer) is not None:
            yield from writer.until_done()
        self.awaited = True
        if self.poisoned:
            error = self.engine.failure_in(self)
            if error is not None:
                raise error
        return self


def _view(
    memory: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray:
    return np.ndarray(shape, dtype, buffer=memory, offset=offset, strides=strides)


def _extent(offset: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """First byte and the byte after the last that the elements touch."""
    if 0 in shape:
        return offset, offset
    steps = [(count - 1) * stride for count, stride in zip(shape, strides, strict=True)]
    low = offset + sum(step for step in steps if step < 0)
    return low, offset + sum(step for step in steps if step > 0) + itemsize
