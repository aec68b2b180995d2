"""Reads the project's own source: the files, their syntax trees, and who imports whom.

Law: syntax only; nothing here imports asyncjit, so that a broken import is reported by the test that looks for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = "asyncjit"
FOLDERS = ("asyncjit", "benchmarks", "docs", "examples", "tests")


@dataclass(frozen=True, order=True)
class Import:
    """One imported name: by which module, at which line, of which module (dotted, as far as it is known to be one)."""

    importer: str
    line: int
    imported: str


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders or FOLDERS:
        yield from sorted((CHECKOUT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(CHECKOUT).as_posix()


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def module_name(path: Path, root: Path = CHECKOUT) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    return {module_name(path): path for path in python_files(PACKAGE)}


def imports(name: str, path: Path, known: Iterable[str]) -> list[Import]:
    """All imports of a module, wherever they stand: at the top, in a function, under ``TYPE_CHECKING``.

    ``from package import name`` counts as an import of ``package.name`` where that is a module of ``known``, else of
    ``package``. A package is taken to import its own submodules when it names them, and nothing when it does not.
    """
    known = frozenset(known)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: list[Import] = []
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            found.extend(Import(name, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*anchor, base] if base else anchor)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.append(Import(name, node.lineno, inner if inner in known else base))
    return sorted(set(found))
