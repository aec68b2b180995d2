"""Values that are part of a signature: host data as an argument that counts by value.

Law: equality and reading; knows no model.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

__all__ = ["Known", "to_host"]

#: A NumPy array, None, or a list of values.
Value: TypeAlias = Any


class Known:
    """The value of a static input, as an argument that counts by value."""

    __slots__ = ("_key", "value")

    def __init__(self, value: Value) -> None:
        self.value = value
        self._key = _key_of(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value.tolist()) if isinstance(self.value, np.ndarray) else repr(self.value)


def _key_of(value: Value) -> Any:
    if isinstance(value, list):
        return tuple(map(_key_of, value))
    return None if value is None else (value.dtype.str, value.shape, value.tobytes())


def to_host(value: Value) -> Value:
    """``value`` with every array in it read."""
    if isinstance(value, list):
        return [to_host(each) for each in value]
    return value if value is None else np.asarray(value)
