"""A schedule with the order that its hazards force: edges, their reduction, and what a replay may leave out.

Law: pure functions on frozen data; knows nothing of streams, time or devices. Imports ``deps`` and below.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from asyncjit.ir import Schedule


@dataclass(frozen=True, slots=True)
class Graph:
    """``schedule`` and, for each call, the earlier calls that it must follow.

    ``predecessors`` holds every hazard edge, ascending. ``reduced`` is the least set of edges with the same
    closure. ``ancestors[i]`` is that closure: bit ``j`` is set when call ``j`` must be done before call ``i``.
    """

    schedule: Schedule
    predecessors: tuple[tuple[int, ...], ...]
    reduced: tuple[tuple[int, ...], ...]
    ancestors: tuple[int, ...] = field(repr=False)
