"""The storages of what is saved: each once, however many captures share it; read under one ticket, and made anew.

Law: memory in and out; knows no functions. On a device other than the CPU memory is copied through the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncjit.data_reader import DataReader
from asyncjit.engine import Engine
from asyncjit.jit.state import snapshot
from asyncjit.numpy import Array
from asyncjit.numpy._handle import c_strides
from asyncjit.ops import DTYPES, dtype_named
from asyncjit.saving.container import Container
from asyncjit.storage import Storage

__all__ = ["Pool", "read_storage", "whole"]


def whole(storage: Storage) -> Array:
    """All bytes of a storage as an array, with the dtype and shape that its memory was made for."""
    memory = storage.memory
    shape, dtype = (storage.nbytes,), DTYPES["uint8"]
    if (
        isinstance(memory, np.ndarray)
        and memory.nbytes == storage.nbytes
        and dtype_named(memory.dtype.name) is not None
    ):
        shape, dtype = memory.shape, memory.dtype
    return Array(storage, 0, shape, c_strides(shape, dtype.itemsize), dtype)


class Pool:
    """Storages by number, in the order in which they are met."""

    def __init__(self) -> None:
        self._index_of: dict[Storage, int] = {}

    def number(self, storage: Storage) -> int:
        return self._index_of.setdefault(storage, len(self._index_of))

    @property
    def storages(self) -> list[Storage]:
        return list(self._index_of)

    def to_data(self) -> list[object]:
        """Device, shape and dtype of each."""
        arrays = [whole(storage) for storage in self._index_of]
        return [[array.device, list(array.shape), array.dtype.name] for array in arrays]

    def read(self) -> list[np.ndarray[Any, Any]]:
        """Their contents, all of one moment: no replay's writes are in it in part. Blocks until they are there.

        Raises:
            DependencyError: a replay that should have written one of them failed.
        """
        arrays = [whole(storage) for storage in self._index_of]
        wanted = [array for array in arrays if array.nbytes]
        taken = iter(snapshot(*wanted).wait() if wanted else ())
        return [np.asarray(next(taken) if array.nbytes else array) for array in arrays]


def read_storage(engine: Engine, it: DataReader, container: Container, index: int) -> Storage:
    """A new storage of ``engine`` with the contents of an array of the file.

    Raises:
        ValueError: shape and dtype are not those of so many bytes.
        LoadError: the bytes are damaged.
        DeviceUnavailableError: the engine has no such device.
    """
    device, shape, name = it[0].text(), it[1].naturals(), it[2].text()
    dtype = dtype_named(name)
    if dtype is None:
        it[2].fail("a dtype")
    if int(np.prod(shape, dtype=object)) * dtype.itemsize != container.arrays_nbytes[index]:
        it.fail(f"the layout of {container.arrays_nbytes[index]} bytes")
    engine.device(device)
    host = np.frombuffer(container.array(index), dtype.newbyteorder("<")).reshape(shape)
    return engine.constant(host, device, at_once=True)


def read_storages(engine: Engine, it: DataReader, container: Container) -> Sequence[Storage]:
    """All of them."""
    count = len(container.arrays_nbytes)
    if len(it.each(lambda each: each)) != count:
        it.fail(f"a list of {count}")
    return [read_storage(engine, it[index], container, index) for index in range(count)]
