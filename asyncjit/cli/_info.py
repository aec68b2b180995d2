"""``asyncjit info MODEL``.

Law: reads, runs nothing. A model with operators that are not supported can still be looked at.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncjit.cli import _loading
from asyncjit.cli._problems import EXIT_FAILED, EXIT_GOOD
from asyncjit.cli._tables import byte_count, columns

if TYPE_CHECKING:
    from asyncjit.onnx._reading import Source

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _loading.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one line of JSON")


def run(options: argparse.Namespace) -> int:
    """Show what is in a file. Returns 1 when it uses operators that are not supported."""
    from asyncjit.named import describe
    from asyncjit.onnx._preparing import unsupported
    from asyncjit.onnx._reading import read_model

    source = read_model(options.model, 2**31)
    lacking = sorted({_title(node.domain, node.op) for node in unsupported(source.graph)})
    facts = _facts(options.model, source)
    facts["inputs"] = [describe(each) for each in source.graph.inputs]
    facts["outputs"] = [describe(each) for each in source.graph.outputs]
    facts["unsupported"] = lacking
    if not lacking:
        facts |= _as_run(options)
    print(json.dumps(facts) if options.json else "\n".join(_lines(facts)))
    return EXIT_FAILED if lacking else EXIT_GOOD


def _title(domain: str, op: str) -> str:
    return f"{domain}::{op}" if domain else op


def _facts(path: str, source: Source) -> dict[str, Any]:
    nodes = source.graph.all_nodes()
    graphs = [source.graph, *(inner for node in nodes for inner in node.graphs)]
    weights = [value for each in graphs for value in each.initializers.values()]
    weights += [value for node in nodes if node.op == "Constant" for value in _arrays(node.attributes)]
    counts = Counter(_title(node.domain, node.op) for node in nodes)
    return {
        "file": str(path),
        "file_bytes": Path(path).stat().st_size,
        "name": source.name,
        "producer": source.producer,
        "ir_version": source.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in source.opsets.items()},
        "weight_bytes": sum(value.nbytes for value in weights),
        "parameters": sum(math.prod(value.shape) for value in weights if value.dtype.kind == "f"),
        "nodes": len(nodes),
        "operators": dict(counts.most_common()),
    }


def _arrays(attributes: dict[str, Any]) -> list[Any]:
    return [value for value in attributes.values() if hasattr(value, "nbytes")]


def _as_run(options: argparse.Namespace) -> dict[str, Any]:
    model = _loading.load(options)
    return {"static": list(model.static), "is_one_replay": model.is_recorded}


def _lines(facts: dict[str, Any]) -> list[str]:
    opsets = ", ".join(f"{domain} {version}" for domain, version in facts["opsets"].items())
    rows = [
        ("file", f"{facts['file']} ({byte_count(facts['file_bytes'])})"),
        ("name", facts["name"]),
        ("made by", f"{facts['producer'] or 'unknown'}, format {facts['ir_version']}"),
        ("opsets", opsets),
        *(("input", each) for each in facts["inputs"]),
        *(("output", each) for each in facts["outputs"]),
        ("weights", f"{byte_count(facts['weight_bytes'])}, {facts['parameters']:,} parameters"),
        ("nodes", f"{facts['nodes']:,} of {len(facts['operators'])} operators"),
        *(("", line) for line in _wrapped([f"{count} {name}" for name, count in facts["operators"].items()])),
    ]
    if facts["unsupported"]:
        rows.append(("unsupported", ", ".join(facts["unsupported"])))
    else:
        rows.append(("unsupported", "nothing"))
        rows.append(("a call is", "one replay" if facts["is_one_replay"] else "several steps, see asyncjit explain"))
        if facts["static"]:
            rows.append(("static", f"{', '.join(facts['static'])} (each value is recorded by itself)"))
    return columns(rows)


def _wrapped(words: list[str], width: int = 100) -> list[str]:
    lines = [""]
    for word in words:
        joined = f"{lines[-1]}, {word}" if lines[-1] else word
        if len(joined) > width:
            lines.append(word)
        else:
            lines[-1] = joined
    return lines
