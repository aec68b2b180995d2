"""``python -m benchmarks NAME [--json]``: run one benchmark and print its figures.

With ``--json`` one line of JSON, else a small table. Each is a module here with ``run() -> dict``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import Any

NAMES = (
    "overhead",
    "match",
    "await_one",
    "placement",
    "makespan",
    "concurrent",
    "lag",
    "memory",
    "lower",
    "weights",
    "overlap",
    "symbolic",
    "pipeline3",
    "server",
    "cancel_storm",
    "memory_endless",
    "models",
    "pickle",
)


#: Modules that cannot have the name of their benchmark, which is one of the standard library.
MODULES = {"pickle": "pickle_"}


def module_of(name: str) -> str:
    return f"benchmarks.{MODULES.get(name, name)}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure one thing.")
    parser.add_argument("name", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of a table")
    options = parser.parse_args(arguments)
    try:
        figures = importlib.import_module(module_of(options.name)).run()
    except ModuleNotFoundError as error:
        print(f"{options.name} needs {error.name}: pip install '.[bench]'", file=sys.stderr)
        return 2
    print(json.dumps(figures) if options.json else table(figures))
    return 0


def table(figures: dict[str, Any]) -> str:
    """Figures as lines, and rows as columns under their names."""
    lines = [f"{name}: {value}" for name, value in figures.items() if name != "rows"]
    rows = figures.get("rows", [])
    if rows:
        names = list(dict.fromkeys(name for row in rows for name in row))
        cells = [names, *([str(row.get(name, "")) for name in names] for row in rows)]
        widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
        lines += ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
