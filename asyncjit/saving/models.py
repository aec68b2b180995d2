"""A model as data, and back: its captures, and the names and kinds of its inputs and outputs.

Law: what is in a ``NamedFunction``; graphs and files of models are not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asyncjit.data_reader import DataReader
from asyncjit.engine import Engine
from asyncjit.errors import OnnxError
from asyncjit.named import Buckets, Dim, NamedFunction, ValueType, identifiers
from asyncjit.ops import dtype_named
from asyncjit.saving.functions import function_to_data, read_function
from asyncjit.saving.names import Names
from asyncjit.saving.pool import Pool
from asyncjit.storage import Storage

__all__ = ["model_to_data", "read_model"]


def model_to_data(model: NamedFunction, engine: Engine, pool: Pool) -> dict[str, Any]:
    """A model with its captures on ``engine``; its storages by their numbers in ``pool``.

    Raises:
        SaveError: it has no captures there, or something in them cannot be stored.
    """
    return {
        "name": model.name,
        "parameters": list(model.parameters),
        "static": sorted(model.statics),
        "inputs": list(map(_kind_to_data, model.inputs)),
        "outputs": list(map(_kind_to_data, model.outputs)),
        "bucket": {name: list(sizes) for name, sizes in model.buckets.sizes.items()},
        "function": function_to_data(model.function, engine, pool),
    }


def _kind_to_data(kind: ValueType) -> list[object]:
    dtype = None if kind.dtype is None or kind.is_text else kind.dtype.name
    return [kind.name, kind.kind, dtype, None if kind.shape is None else list(kind.shape), kind.is_text]


def read_model(it: DataReader, storages: Sequence[Storage], names: Names, engine: Engine) -> NamedFunction:
    """The model again, its captures loaded in ``engine``.

    Raises:
        ValueError: the data contradicts itself, or needs what is not here; the message names the piece.
        DeviceError: the engine lacks the device or an operation.
    """
    inputs, outputs = it["inputs"].each(_read_kind), it["outputs"].each(_read_kind)
    parameters, statics = it["parameters"].each(DataReader.text), it["static"].each(DataReader.text)
    function = read_function(
        it["function"], storages, names, engine, "a file has the captures of a model, and not its graph"
    )
    known = [each.name for each in inputs]
    if not set(parameters).issubset(known) or len(set(parameters)) < len(parameters):
        it["parameters"].fail("names of inputs, each once")
    wanted = identifiers(parameters)
    if not set(statics).issubset(parameters) or list(wanted.values()) != function._parameters.names:
        it["parameters"].fail("those of the function, and all that are static")
    if sorted(function._options.static) != sorted(wanted[name] for name in statics):
        it["static"].fail("the static parameters of the function")
    try:
        buckets = Buckets(it["bucket"].mapping(DataReader.naturals), inputs, outputs)
    except OnnxError as error:
        it["bucket"].fail(f"sizes of dimensions that have names ({error})")
    return NamedFunction(it["name"].text(), function, parameters, frozenset(statics), inputs, outputs, buckets)


def _read_kind(it: DataReader) -> ValueType:
    dtype = None if it[2].data is None else dtype_named(it[2].text())
    if dtype is None and it[2].data is not None:
        it[2].fail("a dtype; those that NumPy lacks are known once asyncjit.onnx is imported")
    shape = None if it[3].data is None else it[3].each(_read_dim)
    return ValueType(it[0].text(), it[1].text(), dtype, shape, it[4].flag())


def _read_dim(it: DataReader) -> Dim:
    return it.data if it.data is None or isinstance(it.data, str) else it.natural()
