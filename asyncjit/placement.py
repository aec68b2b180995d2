"""Streams for the calls of a graph, and the waits between them.

Law: pure functions on frozen data; no clocks, no devices. Imports ``graph`` and below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asyncjit.graph import Graph


@dataclass(frozen=True, slots=True)
class Placement:
    """``stream_of[call]``; ``streams[stream]``: its calls in order; ``order``: all calls in issue order, topological;
    ``waits[call]``: calls of other streams whose event must have fired before it, beyond what stream order implies.
    """

    stream_of: tuple[int, ...]
    streams: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    waits: tuple[tuple[int, ...], ...]


def place(
    graph: Graph, *, streams_max: int | None, costs: Sequence[float] | None = None, hop_cost: float = 0.0
) -> Placement:
    raise NotImplementedError
