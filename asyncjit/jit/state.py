"""State under one ticket: assign several arrays, copy several arrays; and specs, which stand for arrays in ``prepare``.

Law: small captured functions over the ordinary machinery; nothing here orders anything itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from asyncjit.errors import CaptureError
from asyncjit.jit.body import inlining
from asyncjit.jit.function import JitFunction
from asyncjit.jit.options import Options
from asyncjit.jit.tokens import ArgumentSpec
from asyncjit.numpy import Array, ShardedArray, asarray
from asyncjit.numpy._dispatch import dtype_of
from asyncjit.replay import Replay

__all__ = ["assign", "snapshot", "spec"]

#: What has elements that can be copied and written: an array, or one in shards, which is a container of them.
AnyArray: TypeAlias = Array | ShardedArray
_ARRAYS = (Array, ShardedArray)


def spec(shape: int | Sequence[int], dtype: Any = "float32", device: str | None = None) -> ArgumentSpec:
    """An array argument without values, for ``prepare``: C-contiguous, on ``device`` or the engine's default one.

    Raises:
        TypeError: the dtype is none that arrays can have.
        ValueError: an extent is negative.
    """
    extents = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
    if any(extent < 0 for extent in extents):
        raise ValueError(f"a shape has no negative extents, got {extents}")
    return ArgumentSpec(extents, dtype_of(dtype), device)


def _assign(targets: list[AnyArray], values: list[Any]) -> None:
    # All values are read before anything is written: assign({a: b, b: a}) swaps.
    several = len(targets) > 1
    read = [value.copy() if several and isinstance(value, _ARRAYS) else value for value in values]
    for target, value in zip(targets, read, strict=True):
        target[...] = value


_assigned: JitFunction[[list[AnyArray], list[Any]], None] = JitFunction(
    _assign, Options(dynamic=("values",), captures_max=256, in_flight_max=64, exempt=True, admits_aliases=True)
)


def _copy(arrays: tuple[AnyArray, ...]) -> tuple[AnyArray, ...]:
    return tuple(array.copy() for array in arrays)


_copied: JitFunction[[tuple[AnyArray, ...]], tuple[AnyArray, ...]] = JitFunction(
    _copy, Options(captures_max=64, in_flight_max=64, exempt=True, admits_aliases=True)
)


def assign(values: Mapping[Any, Any]) -> Replay[None]:
    """Write values into arrays, all under one ticket: no reader sees some of them old and some new.

    Values are arrays, NumPy arrays, numbers or nested lists; they are broadcast and cast as ``array[...] = value``
    does; arrays in shards are written whole. All are read before any is written. Inside the recording of a function it
    is part of that function.

    Raises:
        CaptureError: there is nothing to assign, or a target is no array.
        ValueError, TypeError: a value does not fit its array.
    """
    if not values:
        raise CaptureError("assign was given no arrays; pass a dict {array: value, …}")
    for target in values:
        if not isinstance(target, _ARRAYS):
            raise CaptureError(
                f"assign writes into arrays, got a {type(target).__qualname__} as a key", given=type(target)
            )
    given = [
        value if isinstance(value, (*_ARRAYS, bool, int, float, complex)) else _host(value) for value in values.values()
    ]
    return _assigned(list(values), given)


def _host(value: Any) -> Any:
    """Nested lists and the like as NumPy arrays; inside a recording they become constants of it."""
    body = inlining.get()
    return asarray(value) if body is not None and body.active else np.asarray(value)


A = TypeVar("A", bound=AnyArray)


def snapshot(*arrays: A) -> Replay[tuple[A, ...]]:
    """Copies of arrays, in shards too, all under one ticket: no write falls between two of them. The result is a tuple.

    Raises:
        CaptureError: there is nothing to copy, or an argument is no array.
    """
    if not arrays:
        raise CaptureError("snapshot was given no arrays")
    for index, array in enumerate(arrays):
        if not isinstance(array, _ARRAYS):
            raise CaptureError(
                f"snapshot copies arrays, argument {index} is a {type(array).__qualname__}", given=type(array)
            )
    copies: Any = _copied(arrays)
    return cast("Replay[tuple[A, ...]]", copies)
