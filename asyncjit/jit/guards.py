"""Guards: the names outside a function that its recording depends on, compared by identity.

Law: plain Python introspection; no arrays, no engine. Imports the standard library only.

A recording freezes every Python value that the function met. Arguments are part of the signature; what is left are
**closure cells** and **globals**. ``watch`` finds those that a function reads, and those that the plain functions it
refers to read in turn, as long as they come from the same top-level package; code of other packages is taken as fixed.
A name that the function itself rebinds while it is recorded (a counter, say) is a side effect, not something that the
recording depends on, and is dropped: otherwise every call would record anew.

Not seen: attributes (``self.scale``), and what functions of other packages read.
"""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["MISSING", "Guards", "plain_function"]

_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_STORES = frozenset({"STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_DEREF"})


class _Missing:
    def __repr__(self) -> str:
        return "(not defined)"


#: Stands for a global that is not defined or a cell that is empty.
MISSING = _Missing()


class Guards:
    """The outside names of one function and what they were bound to, when ``Guards`` was made."""

    __slots__ = ("cells", "names", "stored")

    def __init__(self, function: object, ignored: frozenset[tuple[int, str]] = frozenset()) -> None:
        #: (namespace, name, value) of globals, and (cell, name, value) of closure cells.
        self.names: list[tuple[dict[str, Any], str, object]] = []
        self.cells: list[tuple[types.CellType, str, object]] = []
        #: Names that some function among those watched rebinds.
        self.stored: set[str] = set()
        root = plain_function(function)
        if root is not None:
            self._watch(root, ignored)

    def _watch(self, root: types.FunctionType, ignored: frozenset[tuple[int, str]]) -> None:
        package = _package(root)
        seen: set[types.FunctionType] = set()
        known: set[tuple[int, str]] = set(ignored)
        waiting = [root]
        while waiting:
            function = waiting.pop()
            if function in seen:
                continue
            seen.add(function)
            self.stored.update(_names(function.__code__, _STORES))
            values: list[object] = []
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                if (id(cell), name) not in known:
                    known.add((id(cell), name))
                    values.append(cell_value(cell))
                    self.cells.append((cell, name, values[-1]))
            namespace = function.__globals__
            for name in _names(function.__code__, _LOADS):
                if (id(namespace), name) not in known and not _is_builtin(namespace, name):
                    known.add((id(namespace), name))
                    values.append(namespace.get(name, MISSING))
                    self.names.append((namespace, name, values[-1]))
            reached = (plain_function(value) for value in values)
            waiting += [each for each in reached if each is not None and _package(each) == package]

    def hold(self) -> bool:
        """Whether every name is still bound to the very same object."""
        for namespace, name, value in self.names:
            if namespace.get(name, MISSING) is not value:
                return False
        for cell, _, value in self.cells:  # noqa: SIM110  a generator would cost as much as the loop does
            if cell_value(cell) is not value:
                return False
        return True

    def rebound(self) -> set[tuple[int, str]]:
        """Keys, as ``ignored`` takes them, of the names that the functions rebind and that have changed by now."""
        found = {(id(names), name) for names, name, value in self.names if names.get(name, MISSING) is not value}
        found |= {(id(cell), name) for cell, name, value in self.cells if cell_value(cell) is not value}
        return {(owner, name) for owner, name in found if name in self.stored}

    def drop(self, keys: set[tuple[int, str]]) -> None:
        """Stop watching these names."""
        self.names = [each for each in self.names if (id(each[0]), each[1]) not in keys]
        self.cells = [each for each in self.cells if (id(each[0]), each[1]) not in keys]

    def first_difference(self) -> tuple[str, object, object] | None:
        """The first name that changed, with the value it had and the value it has."""
        for namespace, name, value in self.names:
            if (given := namespace.get(name, MISSING)) is not value:
                return name, value, given
        for cell, name, value in self.cells:
            if (given := cell_value(cell)) is not value:
                return name, value, given
        return None

    def bindings(self) -> Iterator[tuple[str, object]]:
        """Every watched name with its value, to find out what an object is called."""
        for _, name, value in (*self.cells, *self.names):
            yield name, value


def cell_value(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def plain_function(value: object) -> types.FunctionType | None:
    """The Python function behind ``value``: a function, a method, a partial, a jitted function, a callable object."""
    for _ in range(16):
        if isinstance(value, types.FunctionType):
            return value
        if isinstance(value, types.ModuleType | type):
            return None
        if isinstance(value, types.MethodType):
            value = value.__func__
        elif isinstance(value, functools.partial):
            value = value.func
        elif inspect.getattr_static(value, "__wrapped__", None) is not None:
            value = value.__wrapped__  # type: ignore[attr-defined]
        else:
            break
    call: Callable[..., object] | None = getattr(type(value), "__call__", None)  # noqa: B004
    return call if isinstance(call, types.FunctionType) else None


def _package(function: types.FunctionType) -> str:
    """What counts as "the same code": the top-level package, but in asyncjit itself the module."""
    module = function.__module__ or ""
    top = module.partition(".")[0]
    return module if top == "asyncjit" else top


def _is_builtin(namespace: dict[str, Any], name: str) -> bool:
    if name in namespace:
        return False
    builtins = namespace.get("__builtins__", {})
    return name in (vars(builtins) if isinstance(builtins, types.ModuleType) else builtins)


@functools.lru_cache(maxsize=1024)
def _names(code: types.CodeType, instructions: frozenset[str]) -> tuple[str, ...]:
    """Names that ``code``, or code nested in it, uses in one of ``instructions``."""
    names: dict[str, None] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in instructions:
            names.setdefault(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(dict.fromkeys(_names(constant, instructions)))
    return tuple(names)
