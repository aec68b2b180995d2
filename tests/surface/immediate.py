"""A sink that runs each call at once on NumPy memory: the array surface without an engine.

New memory is filled with a pattern, which is no number where it is floats, so an element that a kernel does not write
shows, in results and in what is made from scratch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from asyncjit.errors import DeviceUnavailableError
from asyncjit.ir import Cost, Kernel, new_buffer, operand_of
from asyncjit.numpy._dispatch import recording
from asyncjit.numpy._handle import ArraySpec, StorageLike
from asyncjit.ops import numpy_kernel

PATTERN = 0xFF


class ImmediateStorage:
    def __init__(self, memory: np.ndarray, device: str = "cpu") -> None:
        self.memory = memory
        self.device = device
        self.nbytes = memory.nbytes
        self.is_ready = True

    def view(self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        return np.ndarray(shape, dtype, buffer=self.memory, offset=offset, strides=strides)

    def read_host(
        self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any], what: str
    ) -> np.ndarray:
        host = self.view(offset, shape, strides, dtype).copy()
        host.flags.writeable = False
        return host

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


class ImmediateSink:
    """Keeps what it ran in ``calls``."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.calls: list[tuple[Kernel, list[tuple[StorageLike, int, ArraySpec]], Cost]] = []

    def _known(self, device: str | None) -> str:
        if device not in (None, self.device, "cpu"):
            raise DeviceUnavailableError(f"no device {device!r}")
        return device or self.device

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: str | None = None) -> ImmediateStorage:
        where = self._known(device)
        memory = np.empty(shape, dtype)
        memory.reshape(-1).view(np.uint8).fill(PATTERN)
        return ImmediateStorage(memory, where)

    def constant(self, host: np.ndarray, device: str | None = None) -> ImmediateStorage:
        assert host.flags.c_contiguous
        assert host.dtype.isnative
        return ImmediateStorage(host.copy(), self._known(device))

    def emit(self, kernel: Kernel, operands: Sequence[tuple[StorageLike, int, ArraySpec]], cost: Cost) -> None:
        assert len(operands) == len(kernel.access)
        views, described = [], []
        for storage, offset, spec in operands:
            assert isinstance(storage, ImmediateStorage)
            views.append(storage.view(offset, spec.shape, spec.strides, spec.dtype))
            buffer = new_buffer(storage.device, storage.nbytes)
            described.append(operand_of(buffer, spec.shape, spec.strides, spec.dtype.name, spec.itemsize, offset))
        self.calls.append((kernel, list(operands), cost))
        with np.errstate(all="ignore"):
            numpy_kernel(kernel, tuple(described))(*views)


@contextmanager
def immediate(device: str = "cpu") -> Iterator[ImmediateSink]:
    """Operations of this context run at once through the sink that it gives."""
    sink = ImmediateSink(device)
    token = recording.set(sink)
    try:
        yield sink
    finally:
        recording.reset(token)
