"""The tables of one function, by engine, and what is said about calls that make more and more captures.

Law: which table, not which capture; messages about captures that should not be made.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from asyncjit.engine import Engine
from asyncjit.errors import CaptureError, ReplayMismatchError
from asyncjit.jit.captures import Key, Table
from asyncjit.jit.options import Options
from asyncjit.jit.signature import Parameters, Values
from asyncjit.jit.words import describe_token
from asyncjit.numpy import Array
from asyncjit.user_code import user_stacklevel

__all__ = ["Tables", "refuse_foreign", "refuse_second"]


class Tables:
    """The captures of one function, or of one instance's method, by engine."""

    __slots__ = ("_by_engine", "_lock", "_warning", "latest", "told", "warm_ups_left")

    def __init__(self, warm_ups: int) -> None:
        self._lock = threading.Lock()
        self._by_engine: dict[Engine, Table] = {}
        self.latest: Table | None = None
        self.warm_ups_left = warm_ups
        #: The warning about integers has been found necessary; it is given once.
        self.told = False
        self._warning = ""

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

    def note_integers(self, parameters: Parameters, key: Key, others: Sequence[Key], captures_max: int) -> None:
        if not self.told:
            self._warning = _integer_warning(parameters.function, parameters, key, others, captures_max)
            self.told = bool(self._warning)

    def tell(self) -> None:
        """Give the warning that has been found necessary, once, in the user's name."""
        if self._warning:
            warning, self._warning = self._warning, ""
            warnings.warn(warning, UserWarning, stacklevel=user_stacklevel())

    def take_warm_up(self) -> bool:
        """Whether this call is one of those that run eagerly."""
        with self._lock:
            self.warm_ups_left -= 1
            return self.warm_ups_left >= 0


def refuse_foreign(name: str, parameters: Parameters, values: Values, engine: Engine) -> NoReturn:
    """Arrays of another engine: this one does not know who else uses them.

    Raises:
        CaptureError: always; names the argument.
    """
    found: list[str] = []

    def look(leaf: object, path: str) -> object:
        if isinstance(leaf, Array) and leaf._storage.engine is not engine:  # type: ignore[attr-defined]
            found.append(path)
        return leaf

    parameters.rebuild(values, look)
    raise CaptureError(
        f"argument {found[0]!r} of {name!r} belongs to another engine than the one that is in use here; make arrays "
        "and call functions inside the same `async with aj.Engine(...)`, or copy it with "
        "anp.asarray(np.asarray(array))",
        function=name,
        name=found[0],
    )


def refuse_second(table: Table, key: Key, parameters: Parameters) -> None:
    """With ``strict`` the first capture is the only one.

    Raises:
        ReplayMismatchError: the table holds another one; names the first difference.
    """
    other = next(iter(table), None)
    if other is None:
        return
    what, name, captured, given = _difference(table, other.key, key, parameters)
    raise ReplayMismatchError(
        f"{what} of {table.name!r} was captured as {captured}, but this call gives {given}; pass what was captured, "
        "jit a second function for the new kind of call, or leave out strict=True",
        function=table.name,
        name=name,
        captured=captured,
        given=given,
    )


def _difference(table: Table, old: Key, new: Key, parameters: Parameters) -> tuple[str, str, str, str]:
    for index, (was, now) in enumerate(zip(old, new, strict=False)):
        if was != now:
            name = parameters.name_of(index)
            return f"argument {name!r}", name, describe_token(was), describe_token(now)
    if len(old) != len(new):
        name = parameters.names[-1]
        return f"the number of arguments in *{name}", name, str(len(old)), str(len(new))
    for other in table.epochs():
        changed = other.guards.first_difference()
        if changed is not None:
            name, captured, given = changed
            return f"the name {name!r} outside", name, repr(captured), repr(given)
    return "the overlap of arguments", "", "another one", "this one"


def _integer_warning(name: str, parameters: Parameters, key: Key, others: Sequence[Key], captures_max: int) -> str:
    """What to say when this is the third capture that differs from two others in one integer alone; else ""."""
    counts: dict[int, int] = {}
    for other in others:
        where = _one_integer_apart(key, other)
        if where is not None:
            counts[where] = counts.get(where, 0) + 1
    index = next((index for index, count in counts.items() if count >= 2), None)
    if index is None:
        return ""
    argument = parameters.name_of(index)
    return (
        f"{name!r} was captured a third time for calls that differ only in the integer {argument!r}; each capture "
        f"takes time and one of captures_max={captures_max} places: pass it as the value of an aj.Variable, if it is a "
        f"size or a position; make it an array with dynamic=({argument.partition('[')[0]!r},), if the function only "
        "computes with it; or pass few different values"
    )


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
