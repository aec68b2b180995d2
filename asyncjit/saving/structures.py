"""Containers of arrays as data, and back: what functions return.

Law: types and labels; what stands for the arrays is the caller's.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from asyncjit.data_reader import DataReader
from asyncjit.jit.tokens import contents, refilled
from asyncjit.numpy import Array, ShardedArray
from asyncjit.saving.names import Names
from asyncjit.saving.values import read_type, read_value, type_to_data, value_to_data

__all__ = ["read_structure", "structure_to_data"]


def structure_to_data(value: Any, arrays: Sequence[object], what: str) -> object:
    """What a function returns, with ``arrays`` standing for the arrays in it."""
    if value is None:
        return None
    for index, array in enumerate(arrays):
        if value is array:
            return index
    inside = contents(value)
    assert inside is not None
    labels = [value_to_data(label, what) for label, _ in inside] if isinstance(value, dict) else []
    return {
        "of": type_to_data(type(value), what),
        "labels": labels,
        "inside": [structure_to_data(each, arrays, what) for _, each in inside],
    }


def read_structure(it: DataReader, arrays: Sequence[object], names: Names) -> Any:
    """The same again, with other arrays."""
    if it.data is None:
        return None
    if not isinstance(it.data, dict):
        return it.one_of(arrays, "arrays")
    kind = read_type(it["of"], names)
    inside = list(it["inside"].each(lambda each: read_structure(each, arrays, names)))
    if kind is dict or kind is OrderedDict:
        labels = it["labels"].each(lambda each: read_value(each, names))
        if len(labels) != len(inside):
            it.fail("as many labels as values")
        return kind(zip(labels, inside, strict=True))
    shell: Any = _shell(kind, len(inside))
    known = None if shell is None else contents(shell)
    if known is None or len(known) != len(inside):
        it.fail(f"a container of {len(inside)} things")
    return _whole(it, refilled(shell, inside))


def _whole(it: DataReader, value: Any) -> Any:
    """Shards fit each other; every other container may hold anything."""
    if isinstance(value, ShardedArray):
        shards: Any = value.shards if isinstance(value.shards, tuple) else ()
        layouts = {_layout(each, value.axis) for each in shards}
        if len(layouts) != 1 or None in layouts:
            it.fail("of arrays that are shards of one")
    return value


def _layout(shard: Any, axis: int | None) -> object:
    """What all shards along ``axis`` have in common; None for what is none."""
    if not isinstance(shard, Array) or (axis is not None and axis >= shard.ndim):
        return None
    return shard.dtype, tuple(extent for place, extent in enumerate(shard.shape) if place != axis)


def _shell(kind: type, count: int) -> Any:
    """A container of this type with ``count`` places; None where it is no type of container."""
    if kind in (list, tuple):
        return kind([None] * count)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return tuple.__new__(kind, [None] * count) if len(kind._fields) == count else None
    if not dataclasses.is_dataclass(kind):
        return None
    shell = object.__new__(kind)
    for field in dataclasses.fields(kind):
        object.__setattr__(shell, field.name, None)
    return shell
