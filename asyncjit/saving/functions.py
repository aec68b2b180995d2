"""A jitted function as data, and back: parameters, options, and the captures on one engine.

Law: what is in a function, not how bytes are laid out; see ``surface`` for what users call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from asyncjit.data_reader import DataReader
from asyncjit.engine import Engine
from asyncjit.errors import SaveError
from asyncjit.jit.function import JitFunction
from asyncjit.jit.options import Options
from asyncjit.saving.captures import capture_to_data, has_state, read_capture
from asyncjit.saving.names import Names
from asyncjit.saving.pool import Pool
from asyncjit.saving.sources import (
    Sourceless,
    find_source,
    read_signature,
    read_source,
    signature_to_data,
    source_to_data,
)
from asyncjit.storage import Storage

__all__ = ["function_to_data", "read_function"]


def function_to_data(function: JitFunction[Any, Any], engine: Engine, pool: Pool) -> dict[str, Any]:
    """A function with its captures on ``engine``; its storages by their numbers in ``pool``.

    Raises:
        SaveError: it has no captures there, or something in them cannot be stored.
    """
    name, parameters = function._name, function._parameters
    tables = [table for table in function._tables.all() if table.engine is engine]
    entries = [entry for table in tables for entry in table.current()]
    if not entries:
        raise SaveError(
            f"{name!r} has no captures on this engine, and captures are what is saved; call it, or "
            f"`await {name}.prepare(…)`, before saving, and save inside of the same `async with aj.Engine(…)`",
            function=name,
        )
    captures = []
    for entry in entries:
        labels = [parameters.name_of(index) for index in range(len(entry.key))]
        try:
            captures.append(capture_to_data(entry, engine, pool, labels))
        except (SaveError, ValueError) as error:
            raise SaveError(f"{name!r} cannot be saved: {error}", function=name) from error
    return {
        **source_to_data(function),
        "signature": signature_to_data(parameters.signature),
        "options": dataclasses.asdict(function._options),
        "captures": captures,
    }


def read_function(
    it: DataReader, storages: Sequence[Storage], names: Names, engine: Engine, sourceless: str | None = None
) -> JitFunction[..., Any]:
    """The function again, its captures loaded in ``engine``. ``sourceless``: why it cannot be recorded anew, where that
    is known.

    Raises:
        ValueError: the data contradicts itself, or needs what is not here; the message names the piece.
        DeviceError: the engine lacks the device or an operation.
    """
    captures = it["captures"].each(lambda each: each)
    keeps_state = any(map(has_state, captures))
    options = _read_options(it["options"])
    found = sourceless or find_source(it, keeps_state, names)
    if isinstance(found, str):
        found = Sourceless(read_source(it), read_signature(it["signature"], names), found)
    function: JitFunction[..., Any] = JitFunction(found, options)
    # A capture is there, so what it takes a warm-up for has been.
    function._tables.warm_ups_left = 0
    if isinstance(found, Sourceless):
        found._captures = lambda: function.captures
    table = function._tables.of(engine, function._name, function._guarded(), options)
    for each in captures:
        entry = read_capture(each, storages, names, engine, function._name, options)
        if len(entry.key) < function._parameters.row:
            each["key"].fail(f"of {function._parameters.row} parameters or more")
        table.add(table.current(), entry)
    return function


def _read_options(it: DataReader) -> Options:
    given: dict[str, Any] = {}
    for field in dataclasses.fields(Options):
        piece, default = it[field.name], field.default
        if isinstance(default, tuple):
            given[field.name] = piece.each(DataReader.text)
        elif isinstance(default, bool):
            given[field.name] = piece.flag()
        elif isinstance(default, int):
            given[field.name] = piece.integer()
        else:
            given[field.name] = None if default is None and piece.data is None else piece.text()
    return Options(**given)
