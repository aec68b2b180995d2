"""Things that are stored by name: where a class, a kernel or a function stands in its module, and finding it again.

Law: looks things up and calls nothing. A name in a file may come from anybody, so only what is already imported is
looked at, and through plain dictionaries, unless the reader has allowed imports.
"""

from __future__ import annotations

import contextlib
import importlib
import sys

from asyncjit.data_reader import DataReader
from asyncjit.errors import SaveError

__all__ = ["Names", "name_of", "named"]


def name_of(thing: object, what: str) -> list[str]:
    """Module and qualified name, as ``Names.find`` takes them.

    Raises:
        SaveError: it does not stand there; only what a module holds can be found again.
    """
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or named(module, name) is not thing:
        raise SaveError(
            f"{what} {name or thing!r} is stored by its name, but {module}.{name} is not it; define it at the top "
            "level of a module, under its own name",
            what=what,
            name=name,
        )
    return [module, name]


def named(module: str, name: str) -> object | None:
    """What an imported module holds under a qualified name, or None. Runs no code: no ``__getattr__``, no property."""
    found: object = sys.modules.get(module)
    for part in name.split("."):
        namespace = getattr(found, "__dict__", None) if isinstance(found, type | type(sys)) else None
        found = None if namespace is None else namespace.get(part)
    return found


class Names:
    """Finds things by name; with ``imports`` it imports their modules first, which runs code."""

    def __init__(self, imports: bool) -> None:
        self.imports = imports

    def find(self, it: DataReader, what: str) -> object:
        """The thing named here.

        Raises:
            ValueError: there is none.
        """
        module, name = it[0].text(), it[1].text()
        self.reach(module)
        found = named(module, name)
        if found is None:
            is_here = module in sys.modules
            remedy = "it is not there any more" if is_here else f"import {module} before loading, or pass imports=True"
            raise ValueError(f"{what} {name!r} of module {module!r} is needed; {remedy}")
        return found

    def reach(self, module: str) -> None:
        """Import the module, where that is allowed and can be done."""
        if self.imports and module and module not in sys.modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
