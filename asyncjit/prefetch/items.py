"""Items: what is in them, and how host arrays in them become arrays of a device.

Law: containers are those that captured functions take; nothing here waits, but for ``settled``.

Host arrays: NumPy arrays, and whatever says ``__array__`` or speaks DLPack. Arrays of a device pass as they are,
pending or not, and so does everything else: numbers and NumPy scalars, text, masked arrays, arrays of a dtype that no
device has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncjit.engine import Engine
from asyncjit.jit.tokens import contents, refilled
from asyncjit.numpy import Array
from asyncjit.numpy._dispatch import dtype_of
from asyncjit.numpy._handle import c_strides

__all__ = ["Staging", "mapped"]

Host = np.ndarray[Any, Any]

_PASSING = (Array, np.generic, np.ma.MaskedArray, type, str, bytes, int, float, complex, type(None))


def _host_of(value: object) -> Host | None:
    """The NumPy array to put on a device; None for what passes as it is."""
    if isinstance(value, _PASSING):
        return None
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        host = np.asarray(value)
    elif hasattr(value, "__dlpack__"):
        host = np.from_dlpack(value)
    else:
        return None
    try:
        dtype_of(host.dtype)
    except TypeError:
        return None
    return host


def mapped(value: Any, leaf: Callable[[Any], Any], leaf_of: Callable[[object], Any] = _host_of) -> Any:
    """``value`` with ``leaf(found)`` for everything in it for which ``leaf_of`` finds something (without it: a host
    array); itself where there is nothing."""
    found = leaf_of(value)
    if found is not None:
        return leaf(found)
    inside = contents(value)
    if inside is None:
        return value
    new = [mapped(each, leaf, leaf_of) for _, each in inside]
    return value if all(a is b for a, (_, b) in zip(new, inside, strict=True)) else refilled(value, new)


class Staging:
    """Copies host arrays of items into arrays of ``device``. Any thread.

    They are ordinary arrays of the engine, without a pool: docs/decisions/0006-prefetch-has-no-memory-pool.md.
    """

    def __init__(self, engine: Engine, device: str) -> None:
        self._engine = engine
        self._device = device

    def staged(self, item: Any) -> Any:
        """The item on the device. All copies are made now, on this thread: its memory may be written again.

        Raises:
            EngineBusyError: beyond ``memory_bytes_max``. EngineClosedError: the engine was closed.
        """
        return mapped(item, lambda host: self._array(host, at_once=True))

    async def settled(self, item: Any) -> Any:
        """The same on an event loop: copies of more than 1 MiB are made by workers of the engine, and awaited."""
        copying: list[Array] = []

        def put(host: Host) -> Array:
            copying.append(self._array(host, at_once=False))
            return copying[-1]

        staged = mapped(item, put)
        for array in copying:
            await array
        return staged

    def _array(self, host: Host, *, at_once: bool) -> Array:
        dtype = dtype_of(host.dtype)
        storage = self._engine.constant(host, self._device, at_once=at_once)
        return Array(storage, 0, host.shape, c_strides(host.shape, dtype.itemsize), dtype)
