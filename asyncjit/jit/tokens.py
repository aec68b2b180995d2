"""Tokens: one value of a call as part of a key, and the arrays in it.

Law: what counts by layout, what by value, what becomes an array, and what is refused. Knows no functions.

An array's token is its layout (an interned object, compared by identity), a container's is its type with the tokens
inside, everything else's is (type, value). Numbers with a fraction are *dynamic*: they become arrays without axes, so
that a new learning rate does not record anew; the rule "dynamic" does the same for integers and booleans, "static"
takes numbers by value and admits any hashable object.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeAlias

import numpy as np

from asyncjit.algebra import Symbol
from asyncjit.errors import CaptureError
from asyncjit.jit.words import in_words
from asyncjit.numpy import Array
from asyncjit.numpy._dispatch import dtype_of
from asyncjit.numpy._handle import ArraySpec
from asyncjit.replay import Replay
from asyncjit.variables import Bound, Variable

__all__ = [
    "ArgumentSpec",
    "HostArrays",
    "Reader",
    "Stand",
    "Token",
    "contents",
    "host_argument",
    "refilled",
    "replaced",
    "static_token",
]

Token: TypeAlias = Hashable

_PLAIN = (bool, int, str, bytes, type(None), np.dtype, enum.Enum)
_PYTHON_DTYPES = (bool, int, float, complex)


@dataclasses.dataclass(frozen=True, slots=True)
class ArgumentSpec:
    """Stands for an array argument in ``prepare``: C-contiguous, on ``device`` or on the engine's default one."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    device: str | None = None


class Stand:
    """An argument of ``prepare``: a layout without memory."""

    __slots__ = ("_spec",)

    def __init__(self, spec: ArraySpec) -> None:
        self._spec = spec


class HostArrays(Protocol):
    """Where host values of a call get their memory."""

    def from_host(self, host: np.ndarray[Any, Any]) -> Array: ...

    def from_number(self, value: complex, place: int) -> Array:
        """An array without axes that adapts to the dtypes around it, as the number does; a bool does not adapt.

        Nobody writes into it, so calls may share it; within one call each ``place`` has its own.

        Raises:
            OverflowError: an integer beyond int64.
        """
        ...

    def stand(self, spec: ArgumentSpec, name: str) -> Stand: ...

    def unbound(self, variable: Variable, name: str) -> None:
        """Whether a variable may stand without a value.

        Raises:
            ValueError: not here.
        """
        ...


def is_leaf(value: object, rule: str) -> bool:
    """Whether the function sees an array in its place."""
    if isinstance(value, Array | ArgumentSpec):
        return True
    if rule == "static" or isinstance(value, enum.Enum | str | bytes):
        return False
    if isinstance(value, np.ndarray | np.generic | float | complex):
        return True
    return rule == "dynamic" and isinstance(value, int)


def is_number(leaf: object) -> bool:
    """Whether a leaf is a Python number, which nobody can write into."""
    return not isinstance(leaf, Array | ArgumentSpec | np.ndarray | np.generic)


class Reader:
    """Makes tokens; appends the arrays to ``arrays`` as it meets them, and notes the values of variables."""

    __slots__ = ("_arrays", "_host", "values")

    def __init__(self, arrays: list[Any], host: HostArrays) -> None:
        self._arrays = arrays
        self._host = host
        self.values: dict[Symbol, int] = {}

    def token(self, value: Any, rule: str, name: str) -> Token:
        if type(value) is Array and rule != "static":
            self._arrays.append(value)
            return value._spec
        if is_leaf(value, rule):
            leaf = self._leaf(value, rule, name)
            self._arrays.append(leaf)
            return ("#", leaf._spec) if is_number(value) else leaf._spec
        if rule == "static":
            return static_token(int(value) if isinstance(value, Bound) else value, name)
        if isinstance(value, Bound | Variable):
            return self._variable(value, name)
        if isinstance(value, _PLAIN):
            return ("=", type(value), value)
        inside = contents(value)
        if inside is not None:
            labelled = inside if isinstance(value, dict) else ()
            labels: Hashable = tuple(("=", type(label), label) for label, _ in labelled)
            tokens = [self.token(each, rule, f"{name}[{label!r}]") for label, each in inside]
            kind: Any = type(value)
            return ("of", kind, labels, *tokens)
        if isinstance(value, type) and (issubclass(value, np.generic) or value in _PYTHON_DTYPES):
            return ("=", type, value)
        raise refusal(value, name)

    def _variable(self, value: Bound | Variable, name: str) -> Token:
        """A variable counts by name and range, whatever its value."""
        if isinstance(value, Variable):
            self._host.unbound(value, name)
            value = value.bind(value.min)
        symbol = value.variable.symbol
        for other, known in self.values.items():
            if other.name == symbol.name and (other != symbol or known != value):
                raise ValueError(
                    f"argument {name!r} is the variable {in_words(symbol)} with the value {int(value)}, but another "
                    f"one is {in_words(other)} with the value {known}; a variable has one range and one value in a "
                    "call: use two names"
                )
        self.values[symbol] = int(value)
        return ("$", *symbol)

    def _leaf(self, value: Any, rule: str, name: str) -> Array | Stand:
        if rule == "static":
            raise CaptureError(
                f"argument {name!r} is static, but was given an array; take it out of static=", name=name
            )
        if isinstance(value, ArgumentSpec):
            return self._host.stand(value, name)
        if isinstance(value, Array):
            return value
        if isinstance(value, np.ndarray | np.generic):
            return self._host.from_host(host_argument(value, name))
        try:
            return self._host.from_number(value, len(self._arrays))
        except OverflowError as error:
            raise CaptureError(f"argument {name!r} is dynamic, but {value} does not fit int64", name=name) from error


def host_argument(value: Any, name: str) -> np.ndarray[Any, Any]:
    """A NumPy value as an argument; its dtype is one that arrays can have."""
    if isinstance(value, np.ma.MaskedArray):
        raise CaptureError(
            f"argument {name!r} is a masked array, whose mask would be lost; pass its data and its mask", name=name
        )
    try:
        dtype = dtype_of(value.dtype)
    except TypeError as error:
        raise CaptureError(f"argument {name!r}: {error}", name=name) from error
    return np.asarray(value, dtype=dtype, order="C")


def contents(value: object) -> list[tuple[Any, Any]] | None:
    """Label and value of what is in a container, in order; None for what is no container."""
    kind = type(value)
    if kind is list or kind is tuple or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return list(enumerate(value))  # type: ignore[arg-type]
    if isinstance(value, dict) and kind in (dict, OrderedDict):
        return list(value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return None


def refilled(value: Any, inside: list[Any]) -> Any:
    """A container like ``value`` with other contents, in the order of ``contents``."""
    kind = type(value)
    if isinstance(value, dict):
        return kind(zip(value, inside, strict=True))
    if isinstance(value, list | tuple):
        return kind(*inside) if hasattr(kind, "_fields") else kind(inside)
    copy = object.__new__(kind)
    for field, each in zip(dataclasses.fields(value), inside, strict=True):
        # Frozen dataclasses too, and without the checks of their constructors, which may read values.
        object.__setattr__(copy, field.name, each)
    return copy


def replaced(value: Any, rule: str, name: str, stand_in: Callable[[Any, str], Any]) -> Any:
    """``value`` with every leaf replaced by ``stand_in(leaf, name)``, in the order in which tokens are made.

    So are the values of variables where they count as such; elsewhere they are plain integers.
    """
    if isinstance(value, Bound):
        return stand_in(value, name) if rule == "auto" else replaced(int(value), rule, name, stand_in)
    if is_leaf(value, rule):
        return stand_in(value, name)
    if rule == "static" or isinstance(value, _PLAIN):
        return value
    inside = contents(value)
    if inside is None:
        return value
    return refilled(value, [replaced(each, rule, f"{name}[{label!r}]", stand_in) for label, each in inside])


def static_token(value: Any, name: str) -> Token:
    """By (type, value), in tuples too: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(value, float):
        return ("=", type(value), value.hex())
    if isinstance(value, complex):
        return ("=", type(value), (value.real.hex(), value.imag.hex()))
    if isinstance(value, tuple):
        return ("=", type(value), tuple(static_token(each, name) for each in value))
    try:
        hash(value)
    except TypeError:
        raise CaptureError(
            f"argument {name!r} counts by value, but {_shown(value)} cannot be hashed; pass a tuple or a "
            "frozen dataclass, or an array",
            name=name,
            given=type(value),
        ) from None
    return ("=", type(value), value)


def refusal(value: object, name: str) -> CaptureError:
    if isinstance(value, Replay):
        return CaptureError(
            f"argument {name!r} is a Replay; pass `replay.result`, which does not wait, or await it first", name=name
        )
    return CaptureError(
        f"argument {name!r} is {_shown(value)}, which is neither an array, a number, text, an enum, a dtype, nor a "
        f"list, tuple, dict or dataclass of these; convert it with anp.asarray, or name its parameter in static= if it "
        "is hashable",
        name=name,
        given=type(value),
    )


def _shown(value: object) -> str:
    kind = type(value)
    return f"an object of type {kind.__module__}.{kind.__qualname__}".replace("builtins.", "")
