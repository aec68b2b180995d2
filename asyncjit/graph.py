"""A schedule with the order that its hazards force: edges, their reduction, and what a replay may leave out.

Law: pure functions on frozen data; knows nothing of streams, time or devices. Imports ``deps`` and below.

Edges run from earlier to later calls, so program order is topological. Sets of calls are integers used as bitsets
(bit ``i`` stands for call ``i``): a union of thousands of calls is one machine-speed operation. The transitive
reduction of an acyclic graph is unique (Aho, Garey and Ullman, 1972): an edge goes when another predecessor of its
target has its source among its ancestors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from asyncjit.deps import DepsTracker, Region, overlap, region_of
from asyncjit.errors import InternalError
from asyncjit.ir import Access, Buffer, Call, Copy, Kernel, Operand, Schedule, SlotKind, View, new_buffer
from asyncjit.variables import has_symbols

__all__ = [
    "Graph",
    "build_graph",
    "closure",
    "graph_from_edges",
    "prune",
    "successors",
    "transitive_reduction",
    "verify_graph",
]

Edges = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """``schedule`` and, for each call, the earlier calls that it must follow.

    ``predecessors`` holds every hazard edge, ascending. ``reduced`` is the least set of edges with the same
    closure. ``ancestors[i]`` is that closure: bit ``j`` is set when call ``j`` must be done before call ``i``.
    """

    schedule: Schedule
    predecessors: Edges
    reduced: Edges
    ancestors: tuple[int, ...] = field(repr=False)


def accesses_of(call: Call | Copy) -> tuple[list[Region], list[Region]]:
    """The regions that ``call`` reads, and those that it writes; read-write operands stand in both."""
    reads: list[Region] = []
    writes: list[Region] = []
    for view, access in call.accesses():
        region = region_of(view)
        if access.reads:
            reads.append(region)
        if access.writes:
            writes.append(region)
    return reads, writes


def build_graph(schedule: Schedule) -> Graph:
    """Hazard edges of ``schedule``: for each call the last writers and, where it writes, the readers since."""
    tracker: DepsTracker[int] = DepsTracker()
    predecessors: list[tuple[int, ...]] = []
    for index, call in enumerate(schedule.calls):
        reads, writes = accesses_of(call)
        found = tracker.access(reads, writes, index, index)
        predecessors.append(tuple(sorted({*found.raw, *found.war, *found.waw})))
    ancestors = closure(predecessors)
    return Graph(schedule, tuple(predecessors), _reduce(predecessors, ancestors), tuple(ancestors))


def closure(predecessors: Sequence[Sequence[int]]) -> list[int]:
    """Ancestors of each call, as bitsets. Edges must run from lower to higher index."""
    ancestors: list[int] = []
    for parents in predecessors:
        before = 0
        for parent in parents:
            before |= ancestors[parent] | 1 << parent
        ancestors.append(before)
    return ancestors


def transitive_reduction(predecessors: Sequence[Sequence[int]]) -> Edges:
    """The least edges with the same closure, ascending for each call. Edges must run from lower to higher index."""
    return _reduce(predecessors, closure(predecessors))


def _reduce(predecessors: Sequence[Sequence[int]], ancestors: Sequence[int]) -> Edges:
    reduced: list[tuple[int, ...]] = []
    for parents in predecessors:
        kept: list[int] = []
        implied = 0
        # Only a later parent can imply an earlier one, so one pass from the latest down sees every implication.
        for parent in sorted(parents, reverse=True):
            if not implied >> parent & 1:
                kept.append(parent)
                implied |= ancestors[parent] | 1 << parent
        reduced.append(tuple(reversed(kept)))
    return tuple(reduced)


def successors(predecessors: Sequence[Sequence[int]]) -> Edges:
    """The same edges seen from their sources, ascending."""
    children: list[list[int]] = [[] for _ in predecessors]
    for index, parents in enumerate(predecessors):
        for parent in parents:
            children[parent].append(index)
    return tuple(map(tuple, children))


def graph_from_edges(count: int, edges: Iterable[tuple[int, int]], device: str = "cpu") -> Graph:
    """A graph of ``count`` calls whose hazards are exactly ``edges`` (earlier, later): for tests and benchmarks.

    Each call writes a byte of its own and reads those of its predecessors.
    """
    parents: list[set[int]] = [set() for _ in range(count)]
    for source, target in edges:
        if not 0 <= source < target < count:
            raise ValueError(
                f"an edge must lead from an earlier call to a later one below {count}, got {source, target}"
            )
        parents[target].add(source)
    cells = [Operand(View.contiguous(new_buffer(device, 1)), (1,), (1,), "uint8", 0) for _ in range(count)]
    calls = tuple(
        Call(
            Kernel("node", (Access.READ,) * len(mine) + (Access.WRITE,)),
            (*(cells[parent] for parent in sorted(mine)), cells[index]),
        )
        for index, mine in enumerate(parents)
    )
    return build_graph(Schedule(calls, name="edges"))


# --- pruning --------------------------------------------------------------------------------------------------------


def prune(schedule: Schedule, needed: AbstractSet[Buffer]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split the calls into those that every replay must run and those whose result nothing can change.

    A call is kept when it touches a buffer of ``needed``, an input or an output (bound anew at each replay); when it is
    symbolic; when it writes state; when it touches bytes that a kept call writes; or when it overwrites bytes that an
    earlier kept call reads. The others may run once, before the first replay, in program order; what they write must
    then be held. State that only they read is read once: a later change to it is not seen.

    Returns:
        Indices of the kept calls and of the calls to run once, both ascending.
    """
    kinds = {slot.buffer: slot.kind for slot in schedule.slots}
    bound_anew = needed | {buffer for buffer, kind in kinds.items() if kind is not SlotKind.STATE}
    accesses = [accesses_of(call) for call in schedule.calls]
    pending: list[int] = []
    undecided: dict[int, list[tuple[int, Region, bool]]] = {}
    for index, call in enumerate(schedule.calls):
        if has_symbols(call.layout) or any(
            view.buffer in bound_anew or (access.writes and kinds.get(view.buffer) is SlotKind.STATE)
            for view, access in call.accesses()
        ):
            pending.append(index)
        for regions, writes in zip(accesses[index], (False, True), strict=True):
            for region in regions:
                undecided.setdefault(region.key, []).append((index, region, writes))
    kept = set(pending)
    while pending:
        index = pending.pop()
        drawn_in = _drawn_in(index, accesses[index], undecided, kept)
        kept |= drawn_in
        pending += drawn_in
    return tuple(sorted(kept)), tuple(index for index in range(len(schedule.calls)) if index not in kept)


def _drawn_in(
    index: int,
    accesses: tuple[list[Region], list[Region]],
    undecided: dict[int, list[tuple[int, Region, bool]]],
    kept: AbstractSet[int],
) -> set[int]:
    """Calls that must be kept because call ``index`` is."""
    found: set[int] = set()
    for regions, writes in zip(accesses, (False, True), strict=True):
        for region in regions:
            # Calls that are decided leave the list, so a buffer with many accesses is not walked again for each.
            others = [other for other in undecided[region.key] if other[0] not in kept]
            undecided[region.key] = others
            for other, other_region, other_writes in others:
                if (writes or (other_writes and other > index)) and overlap(region, other_region):
                    found.add(other)
    return found


# --- verification ---------------------------------------------------------------------------------------------------


def verify_graph(graph: Graph) -> None:
    """Check a graph against its schedule, pair by pair: quadratic in the accesses of a buffer.

    Raises:
        InternalError: an edge does not run forwards, is not a conflict, or two conflicting calls are unordered; or
            closure or reduction are not those of the edges.
    """
    name, count = graph.schedule.name, len(graph.schedule.calls)

    def check(condition: bool, message: str) -> None:
        if not condition:
            raise InternalError(f"graph {name!r}: {message}")

    check(
        len(graph.predecessors) == len(graph.reduced) == len(graph.ancestors) == count,
        f"edges for {len(graph.predecessors)} calls, the schedule has {count}",
    )
    for index, parents in enumerate(graph.predecessors):
        check(list(parents) == sorted(set(parents)), f"the predecessors of call {index} are not ascending: {parents}")
        check(all(0 <= parent < index for parent in parents), f"call {index} has predecessors {parents}")
    check(list(graph.ancestors) == closure(graph.predecessors), "the ancestors are not the closure of the edges")
    check(graph.reduced == transitive_reduction(graph.predecessors), "the reduction is not that of the edges")
    conflicts = _conflicts(graph.schedule)
    for earlier, later in sorted(conflicts):
        check(bool(graph.ancestors[later] >> earlier & 1), f"calls {earlier} and {later} conflict and are not ordered")
    for index, parents in enumerate(graph.predecessors):
        for parent in parents:
            check((parent, index) in conflicts, f"the edge from call {parent} to call {index} is no conflict")


def _conflicts(schedule: Schedule) -> set[tuple[int, int]]:
    """Pairs (earlier, later) that share bytes which at least one of them writes."""
    by_key: dict[int, list[tuple[int, Region, bool]]] = {}
    found: set[tuple[int, int]] = set()
    for index, call in enumerate(schedule.calls):
        for regions, writes in zip(accesses_of(call), (False, True), strict=True):
            for region in regions:
                others = by_key.setdefault(region.key, [])
                found |= {
                    (other, index)
                    for other, other_region, other_writes in others
                    if other != index and (writes or other_writes) and overlap(region, other_region)
                }
                others.append((index, region, writes))
    return found
