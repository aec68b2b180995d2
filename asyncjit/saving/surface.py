"""``save`` and ``load``, and how functions and arrays pickle.

Law: which things go into one file under which names; what they are made of is in ``functions`` and ``pool``.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Generator, Sequence
from typing import Any, BinaryIO

from asyncjit.data_reader import DataReader
from asyncjit.engine import Engine, current_engine
from asyncjit.errors import AsyncJitError, HostReadError, LoadError, SaveError, WouldBlockError
from asyncjit.jit.body import inlining
from asyncjit.jit.function import JitFunction
from asyncjit.named import NamedModel
from asyncjit.numpy import Array, ShardedArray
from asyncjit.saving.container import Container, pack
from asyncjit.saving.functions import function_to_data, read_function
from asyncjit.saving.models import model_to_data, read_model
from asyncjit.saving.names import Names
from asyncjit.saving.pool import Pool, read_storages
from asyncjit.saving.structures import read_structure, structure_to_data
from asyncjit.saving.values import bytes_of, read_spec, spec_to_data
from asyncjit.storage import Storage
from asyncjit.streams import in_event_loop

__all__ = ["load", "save", "telling"]

Path = str | os.PathLike[str]


def save(path: Path, /, *things: Any, **named: Any) -> None:
    """Store captured functions, models, and arrays, in one file, such that they share what they share now.

    A function is stored with its captures on the current engine: their plans, and the arrays that they read or write,
    each once, however many captures and functions use it. All contents are of one moment, as of ``aj.snapshot``.
    Pass one thing, and ``load`` gives it back; pass several, and it gives a dict: by keyword, or by function name.
    Not stored are Python code, kernels of ``aj.kernel`` but for their names, and the graph of a model.

    Blocks until the arrays have their values, and while writing; the file appears whole or not at all.

    Raises:
        SaveError: a thing is no function, model or array, has no captures, or something in it cannot be stored.
        WouldBlockError: in a running event loop; `await anyio.to_thread.run_sync(aj.save, path, f)` there.
        DependencyError: a replay that should have written an array failed.
        OSError: the file cannot be written.
    """
    if in_event_loop():
        raise WouldBlockError(
            "saving waits for arrays and for the disk, which would freeze the running event loop; write "
            "`await anyio.to_thread.run_sync(aj.save, path, f)` here"
        )
    if (body := inlining.get()) is not None and body.active:
        raise SaveError("nothing can be saved while a function is recorded, since nothing has a value then")
    if len(things) == 1 and not named:
        content, arrays = _pack_things({"": things[0]}, is_one=True)
    else:
        content, arrays = _pack_things(_by_name(things, named), is_one=False)
    with _whole_file(path) as file:
        for piece in pack(content, arrays):
            file.write(piece)


def load(path: Path, /, *, imports: bool = False) -> Any:
    """What ``save`` has stored: a function or an array, or a dict of them. They belong to the current engine. A model
    comes back as a function of the same inputs by name, which gives the same dicts and needs no package but this one.

    Loaded functions replay what was captured, with the arrays that were stored, on memory of their own: nothing is
    shared with what was saved, or with another load. A call that was not captured is recorded anew where the function
    stands in an imported module, unchanged, and keeps no arrays outside; else it raises ReplayMismatchError.

    Never runs code from the file. Kernels, enums and classes are looked up in modules that are already imported;
    with ``imports`` those that the file names are imported, so allow that for files that you trust. Checksums tell
    damage, not who wrote a file: one made on purpose can hold other numbers and plans.

    Blocks while reading.

    Raises:
        LoadError: it is no such file, of another version, cut off, damaged, or needs a name that is not here.
        DeviceError: the current engine lacks a device or an operation; EngineBusyError: beyond its memory limit.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        container = Container(file, os.fstat(file.fileno()).st_size, f"file {os.fspath(path)!r}")
        with telling(container):
            engine, names = current_engine(), Names(imports)
            storages = read_storages(engine, container.content["storages"], container)
            things = container.content["things"].mapping(lambda it: _read_thing(it, storages, names, engine))
            return things[""] if container.content["is_one"].flag() and list(things) == [""] else things


def _by_name(things: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    found = dict(named)
    for thing in things:
        name = thing.name if isinstance(thing, NamedModel) else getattr(thing, "__name__", None)
        if not isinstance(name, str) or name in found:
            raise SaveError(
                f"{thing!r:.80} needs a name of its own in the file, and {name!r} is none or is taken; pass it by "
                "keyword: aj.save(path, train=f, infer=g)",
                given=type(thing),
            )
        found[name] = thing
    if not found:
        raise SaveError("save was given nothing; pass a captured function: aj.save(path, f)")
    return found


def _pack_things(things: dict[str, Any], is_one: bool) -> tuple[dict[str, Any], list[memoryview]]:
    pool, engine = Pool(), current_engine()
    packed = {name: _thing_to_data(thing, engine, pool) for name, thing in things.items()}
    content = {"is_one": is_one, "things": packed, "storages": pool.to_data()}
    return content, [bytes_of(host) for host in pool.read()]


def _thing_to_data(thing: Any, engine: Engine, pool: Pool) -> dict[str, Any]:
    if isinstance(thing, JitFunction):
        return {"function": function_to_data(thing, engine, pool)}
    if isinstance(thing, NamedModel):
        return {"model": model_to_data(thing.as_function(), engine, pool)}
    if isinstance(thing, Array) and isinstance(thing._storage, Storage):
        return {"array": [pool.number(thing._storage), thing._offset, spec_to_data(thing._spec)]}
    if isinstance(thing, ShardedArray):
        shards = [_thing_to_data(each, engine, pool)["array"] for each in thing.shards]
        return {"arrays": shards, "as": structure_to_data(thing, thing.shards, "an array in shards")}
    raise SaveError(
        "only captured functions, models and arrays can be saved, got "
        f"{thing!r:.80} of type {type(thing).__qualname__}",
        given=type(thing),
    )


def _read_thing(it: DataReader, storages: Sequence[Storage], names: Names, engine: Engine) -> Any:
    if "function" in it:
        return read_function(it["function"], storages, names, engine)
    if "model" in it:
        return read_model(it["model"], storages, names, engine)
    if "arrays" in it:
        return read_structure(it["as"], it["arrays"].each(lambda each: _read_array(each, storages)), names)
    return _read_array(it["array"], storages)


def _read_array(it: DataReader, storages: Sequence[Storage]) -> Array:
    storage = it[0].one_of(storages, "arrays")
    offset, spec = it[1].natural(), read_spec(it[2])
    low, high = spec.extent
    if offset + low < 0 or offset + high > storage.nbytes or spec.device != storage.device:
        it.fail(f"a view of {storage.nbytes} bytes on {storage.device}")
    return Array._of(storage, offset, spec)


@contextlib.contextmanager
def telling(container: Container) -> Generator[None, None, None]:
    """Whatever data from outside leads to is told as an error of that data."""
    try:
        yield
    except HostReadError as error:
        # A symbolic integer stands where its value counts.
        raise LoadError(f"{container.what} cannot be loaded: {error}", where=container.what) from error
    except AsyncJitError:
        raise
    except Exception as error:
        raise LoadError(f"{container.what} cannot be loaded: {error}", where=container.what) from error


@contextlib.contextmanager
def _whole_file(path: Path) -> Generator[BinaryIO, None, None]:
    """A file that takes its name when all of it has been written."""
    partial = f"{os.fspath(path)}.{os.getpid()}-{threading.get_ident()}.partial"
    try:
        with open(partial, "xb") as file:
            yield file
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
