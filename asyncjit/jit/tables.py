"""The tables of one function, by engine, and what is said about calls that make more and more captures.

Law: which table, not which capture; messages about captures that should not be made.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from asyncjit.engine import Engine
from asyncjit.errors import ReplayMismatchError
from asyncjit.jit.captures import Key, Table
from asyncjit.jit.options import Options
from asyncjit.jit.signature import Parameters
from asyncjit.jit.tokens import describe_token

__all__ = ["Tables", "refuse_second", "warn_of_integers"]


class Tables:
    """The captures of one function, or of one instance's method, by engine."""

    __slots__ = ("_by_engine", "_lock", "latest", "warm_ups_left", "warned")

    def __init__(self, warm_ups: int) -> None:
        self._lock = threading.Lock()
        self._by_engine: dict[Engine, Table] = {}
        self.latest: Table | None = None
        self.warm_ups_left = warm_ups
        self.warned = False

    def of(self, engine: Engine, name: str, function: object, options: Options) -> Table:
        with self._lock:
            table = self._by_engine.get(engine)
            if table is None:
                self._by_engine = {other: kept for other, kept in self._by_engine.items() if other._unusable is None}
                table = self._by_engine[engine] = Table(engine, name, function, options)
            self.latest = table
            return table

    def all(self) -> list[Table]:
        with self._lock:
            return list(self._by_engine.values())

    def clear(self) -> None:
        with self._lock:
            self._by_engine = {}
            self.latest = None

    def take_warm_up(self) -> bool:
        """Whether this call is one of those that run eagerly."""
        with self._lock:
            self.warm_ups_left -= 1
            return self.warm_ups_left >= 0


def refuse_second(table: Table, key: Key, parameters: Parameters) -> None:
    """With ``strict`` the first capture is the only one.

    Raises:
        ReplayMismatchError: the table holds another one; names the first difference.
    """
    other = next(iter(table), None)
    if other is None:
        return
    name, captured, given = _difference(table, other.key, key, parameters)
    raise ReplayMismatchError(
        f"{name} of {table.name!r} was captured as {captured}, but this call gives {given}; pass what was captured, "
        "jit a second function for the new kind of call, or leave out strict=True",
        function=table.name,
        name=name,
        captured=captured,
        given=given,
    )


def _difference(table: Table, old: Key, new: Key, parameters: Parameters) -> tuple[str, str, str]:
    for index, (was, now) in enumerate(zip(old, new, strict=False)):
        if was != now:
            return f"argument {parameters.name_of(index)!r}", describe_token(was), describe_token(now)
    if len(old) != len(new):
        return "the number of arguments", str(len(old)), str(len(new))
    for other in table.epochs():
        changed = other.guards.first_difference()
        if changed is not None:
            name, captured, given = changed
            return f"the name {name!r} outside", repr(captured), repr(given)
    return "the overlap of arguments", "another one", "this one"


def warn_of_integers(name: str, parameters: Parameters, key: Key, others: Sequence[Key], captures_max: int) -> bool:
    """Whether this is the third capture that differs from two others in one integer alone; warns if so."""
    counts: dict[int, int] = {}
    for other in others:
        where = _one_integer_apart(key, other)
        if where is not None:
            counts[where] = counts.get(where, 0) + 1
    index = next((index for index, count in counts.items() if count >= 2), None)
    if index is None:
        return False
    argument = parameters.name_of(index)
    warnings.warn(
        f"{name!r} was captured a third time for calls that differ only in the integer {argument!r}; each capture "
        f"takes time and one of captures_max={captures_max} places: make the integer an array with dynamic=("
        f"{argument.partition('[')[0]!r},), if the function only computes with it, or pass few different values",
        UserWarning,
        stacklevel=2,
    )
    return True


def _one_integer_apart(key: Key, other: Key) -> int | None:
    """The index of the one token in which two keys differ, when it differs in one plain integer only."""
    if len(key) != len(other):
        return None
    different = [index for index, (a, b) in enumerate(zip(key, other, strict=True)) if a != b]
    if len(different) != 1:
        return None
    a, b = list(_atoms(key[different[0]])), list(_atoms(other[different[0]]))
    atoms = [(x, y) for x, y in zip(a, b, strict=False) if x != y]
    if len(a) == len(b) and len(atoms) == 1 and all(type(each) is int for each in atoms[0]):
        return different[0]
    return None


def _atoms(token: Any) -> Iterator[Any]:
    if isinstance(token, tuple):
        for each in token:
            yield from _atoms(each)
    else:
        yield token
