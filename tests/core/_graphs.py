"""Schedules and graphs for the tests of the core.

Law: makes inputs; checks nothing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from asyncjit.ir import Access, Buffer, Call, Copy, Kernel, Operand, Schedule, Slot, View, new_buffer

READ, WRITE, BOTH = Access.READ, Access.WRITE, Access.READ_WRITE


def bytes_of(buffer: Buffer, start: int = 0, stop: int | None = None) -> Operand:
    """An operand of single bytes."""
    size = (buffer.nbytes if stop is None else stop) - start
    return Operand(View.contiguous(buffer, start, size), (size,), (1,), "uint8", start)


def column(buffer: Buffer, start: int, block: int, stride: int, count: int) -> Operand:
    """An operand of ``count`` blocks of single bytes."""
    view = View(buffer, start, (count - 1) * stride + block, block, stride, count)
    return Operand(view, (count, block), (stride, 1), "uint8", start)


def call(*operands: tuple[Operand, Access], name: str = "kernel") -> Call:
    return Call(Kernel(name, tuple(access for _, access in operands)), tuple(operand for operand, _ in operands))


def schedule_of(calls: Iterable[Call | Copy], slots: Sequence[Slot] = ()) -> Schedule:
    return Schedule(tuple(calls), tuple(slots), "test")


def golden_suite() -> dict[str, tuple[Schedule, dict[str, int]]]:
    """The benchmark graphs of GrCUDA, with the values that are known for them."""
    path = Path(__file__).parent.parent / "data" / "grcuda_suite.json"
    suite: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["suite"]
    found = {}
    for name, entry in suite.items():
        buffers: dict[str, Buffer] = {}
        calls = []
        for node in entry["calls"]:
            operands = []
            for key in dict.fromkeys(node["reads"] + node["writes"]):
                reads, writes = key in node["reads"], key in node["writes"]
                access = BOTH if reads and writes else WRITE if writes else READ
                operands.append((bytes_of(buffers.setdefault(key, new_buffer("cpu", 1))), access))
            calls.append(call(*operands, name=node["name"]))
        found[name] = (schedule_of(calls), entry["expected"])
    return found


def random_edges(dice: random.Random, count: int, density: float) -> list[tuple[int, int]]:
    return [(u, v) for v in range(count) for u in range(v) if dice.random() < density]


def layered_edges(dice: random.Random, layers: int, width: int) -> tuple[int, list[tuple[int, int]]]:
    """Layers of up to ``width`` calls, each fed by some of the layer before and at times by one further back."""
    rows: list[range] = []
    edges: list[tuple[int, int]] = []
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
