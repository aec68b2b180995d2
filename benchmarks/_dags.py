"""Random task graphs, and the suite of golden ones, as edges (earlier, later); seeded, nothing else random."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

__all__ = ["Edges", "layered", "sparse", "suite"]

Edges = list[tuple[int, int]]

SUITE = Path(__file__).resolve().parent.parent / "tests" / "data" / "grcuda_suite.json"


def sparse(dice: random.Random, count: int, density: float) -> Edges:
    """Each earlier call precedes each later one with probability ``density``."""
    return [(u, v) for v in range(count) for u in range(v) if dice.random() < density]


def layered(dice: random.Random, layers: int, width: int) -> tuple[int, Edges]:
    """Layers of up to ``width`` calls, each fed by about a third of the layer before and at times from further back."""
    rows: list[range] = []
    edges: Edges = []
    count = 0
    for _ in range(layers):
        row = range(count, count + dice.randint(1, width))
        count = row.stop
        for target in row:
            if rows:
                sources = {u for u in rows[-1] if dice.random() < 0.3} or {dice.choice(rows[-1])}
                if len(rows) > 1 and dice.random() < 0.2:
                    sources.add(dice.choice(rows[-2]))
                edges += [(u, target) for u in sorted(sources)]
        rows.append(row)
    return count, edges


def suite() -> list[tuple[int, Edges]]:
    """The golden graphs: an edge wherever two calls touch one buffer and at least one of them writes it."""
    entries: dict[str, Any] = json.loads(SUITE.read_text(encoding="utf-8"))["suite"]
    found: list[tuple[int, Edges]] = []
    for entry in entries.values():
        reads = [set(call["reads"]) for call in entry["calls"]]
        writes = [set(call["writes"]) for call in entry["calls"]]
        edges = [
            (u, v)
            for v in range(len(reads))
            for u in range(v)
            if writes[u] & (reads[v] | writes[v]) or reads[u] & writes[v]
        ]
        found.append((len(reads), edges))
    return found
