"""The host sink: array operations on NumPy memory, computed at once on the calling thread.

Law: a third sink beside engine and recorder, so that what is known at the recording is folded by the very handlers that
record the rest. Nothing of it outlives the folding.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from math import prod
from typing import Any

import numpy as np

from asyncjit import ir
from asyncjit.errors import OnnxError
from asyncjit.numpy import Array
from asyncjit.numpy._dispatch import TRANSFER, recording
from asyncjit.numpy._handle import ArraySpec, c_strides
from asyncjit.onnx._model_data import Host
from asyncjit.ops import numpy_kernel

__all__ = ["HostSink", "fold", "hosted", "of_host"]


class HostStorage:
    """NumPy memory behind an array."""

    __slots__ = ("device", "is_shared", "memory")

    def __init__(self, memory: Host, device: str, is_shared: bool) -> None:
        self.memory = memory
        self.device = device
        #: Whether it is somebody else's, to be copied before a write.
        self.is_shared = is_shared

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes

    @property
    def is_ready(self) -> bool:
        return True

    def read_host(
        self, offset: Any, shape: tuple[Any, ...], strides: tuple[Any, ...], dtype: np.dtype[Any], what: str
    ) -> Host:
        return np.ndarray(shape, dtype, self.memory.data, offset, strides)

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


class HostSink:
    """Computes each call as it comes. ``nbytes_max`` bounds what one value may take."""

    device = "cpu"

    def __init__(self, nbytes_max: int) -> None:
        self._nbytes_max = nbytes_max

    def new(self, shape: Any, dtype: np.dtype[Any], device: str | None = None) -> HostStorage:
        nbytes = prod(shape) * dtype.itemsize
        if nbytes > self._nbytes_max:
            raise OnnxError(
                f"a constant of shape {shape} and dtype {dtype} takes {nbytes} bytes, more than {self._nbytes_max}; "
                "raise value_bytes_max if that is meant",
                shape=shape,
            )
        return HostStorage(np.empty(nbytes, np.uint8), self.device, False)

    def constant(self, host: Host, device: str | None = None) -> HostStorage:
        return HostStorage(_bytes_of(host), self.device, True)

    def emit(self, kernel: ir.Kernel, operands: Sequence[tuple[Any, Any, ArraySpec]], cost: ir.Cost) -> None:
        views, described = [], []
        for (storage, offset, spec), access in zip(operands, kernel.access, strict=True):
            assert isinstance(storage, HostStorage), "an array of elsewhere among constants"
            if access.writes and storage.is_shared:
                storage.memory, storage.is_shared = storage.memory.copy(), False
            views.append(storage.read_host(offset, spec.shape, spec.strides, spec.dtype, kernel.name))
            buffer = ir.new_buffer(storage.device, storage.nbytes)
            described.append(ir.operand_of(buffer, spec.shape, spec.strides, spec.dtype.name, spec.itemsize, offset))
        if kernel is TRANSFER:
            np.copyto(views[1], views[0])
            return
        with np.errstate(all="ignore"):
            numpy_kernel(kernel, tuple(described))(*views)


def _bytes_of(host: Host) -> Host:
    contiguous = np.ascontiguousarray(host)
    flat = contiguous.reshape(-1).view(np.uint8) if contiguous.size else np.empty(0, np.uint8)
    flat = flat.view()
    flat.flags.writeable = False
    return flat


def hosted(host: Host) -> Array:
    """``host`` as an array for operations inside ``fold``; not copied."""
    storage = HostStorage(_bytes_of(host), HostSink.device, True)
    return Array(storage, 0, host.shape, c_strides(host.shape, host.itemsize), host.dtype)


def of_host(array: Array) -> Host:
    """The elements of an array that was made inside ``fold``."""
    return np.asarray(array._host("folding"))


def fold(sink: HostSink, function: Callable[[], Any]) -> Any:
    """``function`` with every array operation in it computed at once; arrays in its result come as NumPy arrays."""
    token = recording.set(sink)
    try:
        result = function()
        if isinstance(result, tuple):
            return tuple(of_host(each) if isinstance(each, Array) else each for each in result)
        return of_host(result) if isinstance(result, Array) else result
    finally:
        recording.reset(token)
