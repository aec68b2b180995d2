"""Plain values, layouts and keys as data, and back, each with its exact type.

Law: one function each way for each kind of thing; whatever would come back as something else is refused. Readers raise
ValueError with the path of what is wrong.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import prod
from typing import Any

import numpy as np

from asyncjit.data_reader import DataReader
from asyncjit.errors import SaveError
from asyncjit.int_data import int_from_data, int_to_data
from asyncjit.named import Known
from asyncjit.numpy import ShardedArray
from asyncjit.numpy._handle import ArraySpec, array_spec
from asyncjit.numpy._sharded import sharded_type
from asyncjit.ops import DTYPES, dtype_named
from asyncjit.saving.names import Names, name_of
from asyncjit.symbols import Int, lower
from asyncjit.variables import Bound, Variable

__all__ = [
    "bytes_of",
    "read_shape",
    "read_spec",
    "read_token",
    "read_type",
    "read_value",
    "spec_to_data",
    "token_to_data",
    "type_to_data",
    "value_to_data",
]

#: Types that have a name here; others are named by module.
_TYPES: dict[str, type] = {
    **{kind.__name__: kind for kind in (bool, int, float, complex, str, bytes, list, tuple, dict)},
    "None": type(None),
    "OrderedDict": OrderedDict,
    **{f"numpy.{name}": dtype.type for name, dtype in DTYPES.items()},
}
_NAMES = {kind: name for name, kind in _TYPES.items()}

#: Axes that an array can have, of which NumPy has 64 at most.
AXES_MAX = 64

# What JSON readers elsewhere keep exactly; longer ones are text.
_INT_MAX = 1 << 53


# Values.


def value_to_data(value: object, what: str) -> object:
    """A value that counts by type and value.

    Raises:
        SaveError: it is none of None, bool, int, float, complex, str, bytes, enum, dtype, type, variable, and tuples of
            these.
    """
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if isinstance(value, int) and kind is int:
        return value if abs(value) <= _INT_MAX else {"int": hex(value)}
    if isinstance(value, float) and kind is float:
        return {"float": value.hex()}
    if isinstance(value, complex) and kind is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, bytes) and kind is bytes:
        return {"bytes": value.hex()}
    if isinstance(value, tuple) and kind is tuple:
        return {"tuple": [value_to_data(each, what) for each in value]}
    if isinstance(value, enum.Enum):
        return {"enum": [*name_of(kind, f"the class of {what},"), value.name]}
    if isinstance(value, np.dtype) and dtype_named(value.name) is value:
        return {"dtype": value.name}
    if isinstance(value, type):
        return {"type": type_to_data(value, what)}
    if isinstance(value, Known):
        return {"known": _host_to_data(value.value, what)}
    if isinstance(value, Variable):
        return {"variable": list(value.symbol)}
    if isinstance(value, Bound):
        return {"variable": [*value.variable.symbol, int(value)]}
    raise SaveError(
        f"{what} is {value!r} of {kind.__module__}.{kind.__qualname__}, which cannot be stored; stored are None, bool, "
        "int, float, complex, str, bytes, enum members, dtypes, types, variables, and tuples of these",
        what=what,
        given=kind,
    )


def read_value(it: DataReader, names: Names) -> Any:
    """The value again."""
    data = it.data
    if data is None or isinstance(data, bool | int | str):
        return data
    tag = _tag(it)
    inner = it[tag]
    if tag == "tuple":
        return inner.each(lambda each: read_value(each, names))
    if tag == "type":
        return read_type(inner, names)
    if tag == "known":
        return Known(_read_host(inner))
    if tag == "variable":
        variable = _read_variable(inner)
        return variable if len(inner.each(lambda each: each)) == 3 else variable.bind(inner[3].integer())
    if tag == "enum":
        kind = names.find(inner, "the enum")
        member = getattr(kind, "__members__", {}).get(inner[2].text()) if isinstance(kind, enum.EnumMeta) else None
        return member if member is not None else inner.fail("a member of an enum")
    return _read_atom(inner, tag)


def bytes_of(host: np.ndarray[Any, Any]) -> memoryview:
    """The elements in C order, little-endian."""
    data = np.ascontiguousarray(host, host.dtype.newbyteorder("<"))
    return data.reshape(-1).view(np.uint8).data


def _host_to_data(value: Any, what: str) -> object:
    if value is None:
        return None
    if isinstance(value, list):
        return [_host_to_data(each, what) for each in value]
    dtype: np.dtype[Any] = value.dtype
    if dtype_named(dtype.name) != dtype:
        raise SaveError(f"{what} counts by elements of {dtype}, which cannot be stored", given=dtype)
    return {"dtype": dtype.name, "shape": list(value.shape), "data": bytes_of(value).hex()}


def _read_host(it: DataReader) -> Any:
    if it.data is None:
        return None
    if isinstance(it.data, list):
        return list(it.each(_read_host))
    dtype, shape, data = it["dtype"].word(_dtype), it["shape"].naturals(), it["data"].word(bytes.fromhex)
    if prod(shape) * dtype.itemsize != len(data):
        it.fail(f"{len(data)} bytes of {dtype} in such a shape")
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def _read_variable(it: DataReader) -> Variable:
    return Variable(it[0].text(), it[1].integer(), it[2].integer())


def _read_atom(it: DataReader, tag: str) -> Any:
    if tag == "float":
        return it.real()
    if tag == "complex":
        return complex(it[0].real(), it[1].real())
    readers: dict[str, Callable[[str], Any]] = {"dtype": _dtype, "int": _integer, "bytes": bytes.fromhex}
    if tag not in readers:
        it.fail("of a known kind")
    return it.word(readers[tag])


def _integer(text: str) -> int:
    return int(text, 16)


def _tag(it: DataReader) -> str:
    if not isinstance(it.data, dict) or len(it.data) != 1:
        it.fail("null, true, false, an integer, text or one tagged value")
    (tag,) = it.data
    return str(tag)


def _dtype(name: str) -> Any:
    dtype = dtype_named(name)
    if dtype is None:
        raise ValueError(name)
    return dtype


def type_to_data(kind: type, what: str) -> object:
    """A class by name.

    Raises:
        SaveError: it does not stand there.
    """
    if issubclass(kind, ShardedArray):
        return {"sharded": kind.axis}
    return _NAMES[kind] if kind in _NAMES else name_of(kind, f"the class of {what},")


def read_type(it: DataReader, names: Names) -> type:
    """The class again."""
    if isinstance(it.data, str):
        return it.word(_known_type)
    if "sharded" in it:
        axis = it["sharded"]
        return sharded_type(None if axis.data is None else axis.one_of(range(AXES_MAX), "axes"))
    kind = names.find(it, "the class")
    return kind if isinstance(kind, type) else it.fail("a class")


def _known_type(name: str) -> type:
    if name not in _TYPES:
        raise ValueError(name)
    return _TYPES[name]


# Layouts.


def spec_to_data(spec: ArraySpec) -> object:
    """The layout of an array; extents and strides may be symbolic."""
    shape, strides = ([int_to_data(each) for each in numbers] for numbers in (spec.shape, spec.strides))
    return [shape, strides, spec.dtype.name, spec.weak, spec.device]


def read_shape(it: DataReader) -> tuple[Int, ...]:
    """Extents, each of which may be symbolic; none may become negative."""
    shape = it.each(int_from_data)
    if any(lower(extent) < 0 for extent in shape):
        it.fail("a list of integers of 0 or more")
    return shape


def read_spec(it: DataReader, *, symbolic: bool = False) -> ArraySpec:
    """The layout again, interned; ``symbolic`` where extents and strides may be."""
    shape: tuple[Int, ...] = read_shape(it[0]) if symbolic else it[0].naturals()
    strides: tuple[Int, ...] = it[1].each(int_from_data if symbolic else DataReader.integer)
    if len(shape) != len(strides):
        it.fail("a shape and as many strides")
    return array_spec(shape, strides, it[2].word(_dtype), it[3].flag(), it[4].text())


# Keys.


def token_to_data(token: Any, name: str) -> object:
    """One token of a key; see ``jit.tokens``."""
    what = f"argument {name!r}"
    if isinstance(token, ArraySpec):
        return {"array": spec_to_data(token)}
    if token[0] == "#":
        return {"number": spec_to_data(token[1])}
    if token[0] == "$":
        return {"variable": list(token[1:])}
    if token[0] == "of":
        _, kind, labels, *inside = token
        return {
            "of": type_to_data(kind, what),
            "labels": [value_to_data(label, what) for _, _, label in labels],
            "inside": [token_to_data(each, name) for each in inside],
        }
    _, kind, value = token
    if kind is tuple:
        return {"tuple": [token_to_data(each, name) for each in value]}
    # Floats stand in a token by their hexadecimal text.
    if kind is float:
        return {"value": {"float": value}}
    if kind is complex:
        return {"value": {"complex": list(value)}}
    if kind is not type and type(value) is not kind:
        raise SaveError(f"{what} counts by {value!r} of {kind.__qualname__}, which cannot be stored", given=kind)
    return {"value": value_to_data(value, what)}


def read_token(it: DataReader, names: Names) -> Hashable:
    """The token again."""
    if "array" in it:
        return read_spec(it["array"])
    if "number" in it:
        return ("#", read_spec(it["number"]))
    if "variable" in it:
        return ("$", *_read_variable(it["variable"]).symbol)
    if "tuple" in it:
        return ("=", tuple, it["tuple"].each(lambda each: read_token(each, names)))
    if "of" in it:
        labels = it["labels"].each(lambda each: read_value(each, names))
        inside = it["inside"].each(lambda each: read_token(each, names))
        return ("of", read_type(it["of"], names), tuple(("=", type(label), label) for label in labels), *inside)
    value = read_value(it["value"], names)
    if isinstance(value, float):
        return ("=", float, value.hex())
    if isinstance(value, complex):
        return ("=", complex, (value.real.hex(), value.imag.hex()))
    return ("=", type if isinstance(value, type) else type(value), value)
