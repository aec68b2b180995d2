"""Imports go down only: the house of ARCHITECTURE.md, held as data.

Law: the table below is the rule; a module that is not in it fails, so whoever adds one decides where it lives.
"""

from __future__ import annotations

import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests._source import CHECKOUT, Import, imports, module_name, modules, relative

#: From the bottom up. A module may import what stands on lower lines. A package stands for its modules, and these may
#: import each other as long as no circle arises.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("asyncjit.errors",),
    ("asyncjit.user_code",),
    ("asyncjit.polynomials",),
    ("asyncjit.algebra",),
    ("asyncjit.symbols",),
    ("asyncjit.variables",),
    ("asyncjit.views",),
    ("asyncjit.ir",),
    ("asyncjit.regions",),
    ("asyncjit.tracks",),
    ("asyncjit.deps",),
    ("asyncjit.graph",),
    ("asyncjit.listing",),
    ("asyncjit.matching",),
    ("asyncjit.placement",),
    ("asyncjit.memory",),
    ("asyncjit.segments",),
    ("asyncjit.plan",),
    ("asyncjit.parts",),
    ("asyncjit.data_reader",),
    ("asyncjit.int_data",),
    ("asyncjit.plan_data",),
    ("asyncjit.records",),
    ("asyncjit.runs",),
    ("asyncjit.refusals",),
    ("asyncjit.stains",),
    ("asyncjit.ledger",),
    ("asyncjit.flow",),
    ("asyncjit.arrival",),
    ("asyncjit.scheduler",),
    # ------------------------------------------------------------------------------------------------ the pure line
    ("asyncjit.settings",),
    ("asyncjit.ops",),
    ("asyncjit.fences",),
    ("asyncjit.ports",),
    ("asyncjit.streams",),
    ("asyncjit.clock",),
    ("asyncjit.instruments",),
    ("asyncjit.background",),
    ("asyncjit.guard",),
    ("asyncjit.storage",),
    ("asyncjit.sources",),
    ("asyncjit.driving",),
    ("asyncjit.times",),
    ("asyncjit.replay",),
    ("asyncjit.devices",),
    ("asyncjit.specialised",),
    ("asyncjit.program",),
    ("asyncjit.watches",),
    ("asyncjit.failures",),
    ("asyncjit.inbox",),
    ("asyncjit.conductor",),
    ("asyncjit.loading",),
    ("asyncjit.reading",),
    ("asyncjit.calling",),
    ("asyncjit.engine",),
    ("asyncjit.trace_events",),
    ("asyncjit.tracing",),
    ("asyncjit.numpy",),
    ("asyncjit.random",),
    ("asyncjit.nn",),
    ("asyncjit.capture",),
    ("asyncjit.jit",),
    ("asyncjit.pipeline",),
    ("asyncjit.prefetch",),
    ("asyncjit.named",),
    ("asyncjit.saving",),
    ("asyncjit.onnx",),
    ("asyncjit",),
    ("asyncjit.testing",),
    ("asyncjit.demo",),
    ("asyncjit.cli",),
    ("asyncjit.__main__",),
)

#: Everything below the pure line.
CORE = frozenset(name for layer in LAYERS[: LAYERS.index(("asyncjit.scheduler",)) + 1] for name in layer)

#: What the core may not touch: whatever waits, threads, tells the time, rolls dice or reaches the machine.
BANNED_IN_CORE = frozenset(
    {
        *("_thread", "asyncio", "concurrent", "contextvars", "multiprocessing", "queue", "signal", "threading"),
        *("datetime", "time", "random", "secrets", "uuid"),
        *("ctypes", "gc", "io", "logging", "mmap", "os", "pathlib", "platform", "shutil", "subprocess", "tempfile"),
        *("select", "selectors", "socket", "ssl", "weakref"),
    }
)

#: Libraries from outside, by the layer that may use them; everything else lives on the standard library.
LIBRARIES: dict[str, frozenset[str]] = {
    "asyncjit.ops": frozenset({"numpy"}),
    "asyncjit.ports": frozenset({"anyio"}),
    "asyncjit.storage": frozenset({"numpy"}),
    "asyncjit.devices": frozenset({"numpy", "threadpoolctl"}),
    "asyncjit.conductor": frozenset({"numpy"}),
    "asyncjit.loading": frozenset({"numpy"}),
    "asyncjit.reading": frozenset({"numpy"}),
    "asyncjit.numpy": frozenset({"numpy"}),
    "asyncjit.random": frozenset({"numpy"}),
    "asyncjit.nn": frozenset({"numpy"}),
    "asyncjit.capture": frozenset({"numpy"}),
    "asyncjit.jit": frozenset({"numpy", "anyio"}),
    "asyncjit.pipeline": frozenset({"anyio"}),
    "asyncjit.prefetch": frozenset({"numpy", "anyio"}),
    "asyncjit.testing": frozenset({"numpy", "anyio"}),
    "asyncjit.named": frozenset({"numpy"}),
    "asyncjit.saving": frozenset({"numpy"}),
    "asyncjit.onnx": frozenset({"numpy", "anyio", "onnx", "google", "ml_dtypes", "PIL"}),
    "asyncjit.demo": frozenset({"numpy", "rich", "sklearn", "threadpoolctl"}),
    "asyncjit.cli": frozenset({"numpy", "threadpoolctl", "onnx", "onnxruntime", "matplotlib"}),
}


def entry_of(module: str) -> str | None:
    """The name in the table that covers ``module``: itself, or the nearest package above it."""
    names = {name for layer in LAYERS for name in layer} - {"asyncjit"}
    while module not in names:
        module, dot, _ = module.rpartition(".")
        if not dot:
            return None
    return module


def layer_of(module: str) -> int | None:
    entry = "asyncjit" if module == "asyncjit" else entry_of(module)
    return next((level for level, layer in enumerate(LAYERS) if entry in layer), None)


def complaint(edge: Import) -> str | None:
    """Why an import is forbidden, or None where it is allowed."""
    where = f"{edge.importer}:{edge.line} imports {edge.imported}"
    top = edge.imported.partition(".")[0]
    mine = layer_of(edge.importer)
    if mine is None:
        return f"{edge.importer} is not in LAYERS: decide where it lives"
    if top == "asyncjit":
        theirs = layer_of(edge.imported)
        if theirs is None:
            return f"{where}, which is not in LAYERS"
        return f"{where}, which stands above it" if theirs > mine else None
    if top in sys.stdlib_module_names:
        return f"{where}, which the core may not touch" if edge.importer in CORE and top in BANNED_IN_CORE else None
    allowed = LIBRARIES.get(entry_of(edge.importer) or "", frozenset())
    return None if top in allowed else f"{where}, a library this layer may not use"


def all_imports() -> list[Import]:
    known = modules()
    return [edge for name, path in known.items() for edge in imports(name, path, known)]


def cycle_in(edges: list[Import]) -> list[str] | None:
    graph: dict[str, set[str]] = {}
    for edge in edges:
        if edge.imported.partition(".")[0] == "asyncjit" and edge.importer != edge.imported:
            graph.setdefault(edge.importer, set()).add(edge.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return None


def test_every_module_has_a_place_in_the_table() -> None:
    assert [name for name in modules() if layer_of(name) is None] == []


def test_the_table_names_nothing_that_is_not_there() -> None:
    known = modules()
    assert [name for layer in LAYERS for name in layer if name not in known] == []


def test_imports_go_down_only_and_core_touches_nothing_that_waits() -> None:
    assert [problem for edge in all_imports() if (problem := complaint(edge))] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert cycle_in(all_imports()) is None


@pytest.mark.parametrize(
    ("module", "source", "problem"),
    [
        ("asyncjit.ir", "from asyncjit import graph", "stands above it"),
        ("asyncjit.ir", "def late():\n    from asyncjit.plan import Plan", "stands above it"),
        ("asyncjit.plan", "if TYPE_CHECKING:\n    import asyncjit.jit", "stands above it"),
        ("asyncjit.errors", "from .ir import Buffer", "stands above it"),
        ("asyncjit.devices.cpu", "from .. import engine", "stands above it"),
        ("asyncjit.scheduler", "import time", "core may not touch"),
        ("asyncjit.deps", "from concurrent.futures import Future", "core may not touch"),
        ("asyncjit.graph", "import numpy as np", "library this layer may not use"),
        ("asyncjit.engine", "import scipy.sparse", "library this layer may not use"),
        ("asyncjit.novelty", "import enum", "not in LAYERS"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True)
    path.write_text(source)
    found = imports(
        module_name(path, tmp_path), path, {*modules(), "asyncjit.graph", "asyncjit.engine", "asyncjit.jit"}
    )
    assert [text for edge in found if (text := complaint(edge)) and problem in text], found


def test_a_circle_is_found() -> None:
    edges = [Import("asyncjit.numpy.a", 1, "asyncjit.numpy.b"), Import("asyncjit.numpy.b", 1, "asyncjit.numpy.a")]
    assert cycle_in(edges)


def test_the_map_has_a_line_for_every_entry_of_the_table() -> None:
    text = (CHECKOUT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    files = [relative(path) for path in (modules()[name] for layer in LAYERS for name in layer)]
    lines = [file.removesuffix("__init__.py") if file.count("/") > 1 else file for file in files]
    assert [line for line in lines if f"`{line}`" not in text] == []
