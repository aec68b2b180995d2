"""How functions and arrays pickle: in the format of the files, with storages as objects of the pickle.

Law: what ``pickle`` is told; importing this module tells it.

A pickle remembers the objects that it has met, so a storage that several functions and arrays of one pickle use is in
it once, and is one storage again afterwards: a model that holds its weights and the functions on them comes back whole.
"""

from __future__ import annotations

import copyreg
import io
from typing import Any

import numpy as np

from asyncjit.engine import current_engine
from asyncjit.jit.function import JitFunction, MethodFunction
from asyncjit.saving.container import Container, pack
from asyncjit.saving.functions import function_to_data, read_function
from asyncjit.saving.names import Names
from asyncjit.saving.pool import Pool, whole
from asyncjit.saving.surface import telling
from asyncjit.storage import Storage

__all__ = ["restore_function", "restore_storage"]


def _reduce_function(function: JitFunction[Any, Any]) -> tuple[Any, ...]:
    pool = Pool()
    content = {"function": function_to_data(function, current_engine(), pool)}
    return restore_function, (b"".join(pack(content, [])), tuple(pool.storages))


def _reduce_storage(storage: Storage) -> tuple[Any, ...]:
    return restore_storage, (np.asarray(whole(storage)), storage.device)


def restore_function(data: bytes, storages: tuple[Storage, ...]) -> JitFunction[..., Any]:
    """The function that was pickled. A pickle runs code anyway, so modules that it names are imported.

    Raises:
        LoadError: the bytes are of another version, or damaged.
    """
    container = Container(io.BytesIO(data), len(data), "pickle")
    with telling(container):
        return read_function(container.content["function"], storages, Names(imports=True), current_engine())


def restore_storage(host: np.ndarray[Any, Any], device: str) -> Storage:
    """The storage that was pickled, on the current engine; on its default device where it has none of that name."""
    engine = current_engine()
    return engine.constant(host, device if device in engine.statistics().devices else None, at_once=True)


copyreg.pickle(JitFunction, _reduce_function)
copyreg.pickle(MethodFunction, _reduce_function)
copyreg.pickle(Storage, _reduce_storage)
