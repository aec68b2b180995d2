"""What a user passes, by name: kinds and dtypes checked against what the model says.

Law: one check a call, cheap; shapes are looked at where a call is recorded, since each shape is recorded once.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from asyncjit.errors import OnnxError
from asyncjit.jit import ArgumentSpec
from asyncjit.numpy import Array
from asyncjit.replay import Replay

__all__ = ["Dim", "ValueType", "bind", "check_shapes", "describe", "identifiers", "listed"]

#: An extent that is fixed, one that has a name, or one of which nothing is said.
Dim: TypeAlias = "int | str | None"


@dataclass(frozen=True, slots=True)
class ValueType:
    """What a model says of an input or output. ``shape`` is None where it does not say how many axes there are."""

    name: str
    #: "tensor", "sequence", "optional", or "" where nothing is said.
    kind: str = "tensor"
    #: None for text, and where nothing is said.
    dtype: np.dtype[Any] | None = None
    shape: tuple[Dim, ...] | None = None
    is_text: bool = False


def bind(types: Sequence[ValueType], args: tuple[Any, ...], kwargs: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Values by name: positional ones in the order of the model's inputs; one dict is all of them by name.

    Raises:
        OnnxError: an input is missing, unknown, given twice, or has another kind or dtype than the model declares.
    """
    if len(args) == 1 and not kwargs and isinstance(args[0], dict):
        return bind(types, (), args[0], model)
    if len(args) > len(types):
        raise OnnxError(f"{model!r} takes {len(types)} inputs ({listed(types)}), got {len(args)}")
    given = dict(zip((each.name for each in types), args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise OnnxError(f"input {name!r} of {model!r} is given twice, by position and by name", name=name)
        given[name] = value
    values: dict[str, Any] = {}
    for kind in types:
        if kind.name not in given:
            if kind.kind == "optional":
                values[kind.name] = None
                continue
            raise OnnxError(f"{model!r} needs the input {kind.name!r}; its inputs are {listed(types)}", name=kind.name)
        values[kind.name] = _value(kind, given[kind.name], kind.kind)
    if len(given) > len(values) or any(name not in values for name in given):
        unknown = next(name for name in given if name not in values)
        raise OnnxError(f"{model!r} has no input {unknown!r}; its inputs are {listed(types)}", name=unknown)
    return values


def identifiers(names: Sequence[str]) -> dict[str, str]:
    """A name for each that a Python parameter can have."""
    taken: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"\W", "_", name)
        plain = plain if plain.isidentifier() and not keyword.iskeyword(plain) else f"_{plain}"
        while plain in taken.values():
            plain += "_"
        taken[name] = plain
    return taken


def listed(types: Iterable[ValueType]) -> str:
    """All of them in words."""
    return ", ".join(map(describe, types)) or "none"


def describe(kind: ValueType) -> str:
    """``x: float32[batch, 3, ?, ?]``."""
    what = "text" if kind.is_text else "?" if kind.dtype is None else kind.dtype.name
    shape = "" if kind.shape is None else f"[{', '.join('?' if d is None else str(d) for d in kind.shape)}]"
    whole = f"{what}{shape}"
    return f"{kind.name}: {whole}" if kind.kind in ("tensor", "") else f"{kind.name}: {kind.kind} of {whole}"


def _value(kind: ValueType, value: Any, form: str) -> Any:
    if value is None and form == "optional":
        return None
    if form == "sequence" or (form == "optional" and isinstance(value, list | tuple)):
        if not isinstance(value, list | tuple):
            raise OnnxError(f"input {describe(kind)} takes a list of arrays, got {_kind(value)}", name=kind.name)
        return [_value(kind, each, "tensor") for each in value]
    if isinstance(value, Replay):
        raise OnnxError(
            f"input {kind.name!r} is a Replay; pass `replay.result[...]`, which does not wait, or await it first",
            name=kind.name,
        )
    if isinstance(value, Array | ArgumentSpec):
        array: Any = value
    elif isinstance(value, np.ndarray | np.generic) or kind.dtype is None:
        array = np.asarray(value)
        if kind.is_text and array.dtype.kind in "US":
            array = array.astype(object)
    else:
        array = _converted(kind, value)
    if kind.dtype is not None and array.dtype != kind.dtype:
        raise OnnxError(
            f"input {describe(kind)} was given {array.dtype.name}; convert it with .astype({kind.dtype.name!r})",
            name=kind.name,
            given=array.dtype,
        )
    return array


def _converted(kind: ValueType, value: Any) -> Any:
    """A Python number or a nested list of numbers, in the dtype that the model wants."""
    try:
        return np.asarray(value, kind.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise OnnxError(f"input {describe(kind)} cannot be made of {_kind(value)}: {error}", name=kind.name) from None


def _kind(value: Any) -> str:
    return f"an object of type {type(value).__name__}"


def check_shapes(types: Sequence[ValueType], values: Mapping[str, Any]) -> None:
    """Whether shapes are those that the model declares, and equal names stand for equal extents.

    Raises:
        OnnxError: they are not.
    """
    seen: dict[str, tuple[int, str]] = {}
    for kind in types:
        value = values.get(kind.name)
        if kind.kind != "tensor" or kind.shape is None or value is None:
            continue
        shape = tuple(value.shape)
        if len(shape) != len(kind.shape):
            raise OnnxError(f"input {describe(kind)} was given the shape {shape}", name=kind.name, shape=shape)
        for wanted, extent in zip(kind.shape, shape, strict=True):
            if isinstance(wanted, int) and wanted != extent:
                raise OnnxError(f"input {describe(kind)} was given the shape {shape}", name=kind.name, shape=shape)
            if isinstance(wanted, str) and isinstance(extent, int):
                first, name = seen.setdefault(wanted, (extent, kind.name))
                if first != extent:
                    raise OnnxError(
                        f"input {describe(kind)} was given the shape {shape}, where {wanted!r} is {extent}; "
                        f"in {name!r} it is {first}",
                        name=kind.name,
                        shape=shape,
                    )
