"""Streams for the calls of a graph, and the waits between them.

Law: pure functions on frozen data; no clocks, no devices. Imports ``listing`` and below.

Only calls of the same device and lane, a **group** here, may share a stream.

*With a limit on streams* it is the list schedule of ``listing``.

*Without a limit*, calls with no order between them get streams of their own, with the fewest waits that this allows,
and then the fewest streams (Kwon, Yu, Jeong and Chun, "Nimble", NeurIPS 2020). An edge of the reduced graph E' costs
no wait only between neighbours on a stream, so the edges saved are a matching M of it, and the waits are |E'| - |M|
with the largest M. Its least vertex cover C is an optimal dual solution: the matchings that save as many edges are
exactly those that touch all of C and use only edges of E' with one end in C and other edges of the closure with no end
in C. Enlarging M over those keeps C touched and joins the most chains, so it leaves the fewest streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asyncjit.errors import InternalError
from asyncjit.graph import Graph
from asyncjit.listing import Group, groups_of, list_schedule
from asyncjit.matching import UNMATCHED, maximise_matching, vertex_cover

__all__ = ["Placement", "place", "verify_placement"]


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
    """Give each call of ``graph`` a stream, and the waits that make up every order that its edges demand.

    Args:
        graph: what to place.
        streams_max: streams of one device, at most; each lane in use gets at least one. None: no limit, every call
            that could run beside another does, with provably the fewest waits and then the fewest streams.
        costs: time of each call, in any unit; 1 each by default. Not used without a limit.
        hop_cost: time until another stream sees a call done, and until a second stream starts, in the same unit. With
            0 no stream is idle while a call that it may run is ready.

    Deterministic. Takes milliseconds for 1,000 calls.
    """
    if streams_max is None:
        return _place_unlimited(graph)
    count = len(graph.schedule.calls)
    if streams_max < 1:
        raise ValueError(f"streams_max must be at least 1 or None, got {streams_max}")
    if costs is None:
        costs = [1.0] * count
    elif len(costs) != count:
        raise ValueError(f"costs must hold one number for each of {count} calls, got {len(costs)}")
    return _wrap(*list_schedule(graph, streams_max, costs, hop_cost))


def _wrap(calls_of_streams: Sequence[Sequence[int]], order: Sequence[int], waits: Sequence[Sequence[int]]) -> Placement:
    """A placement without its empty streams."""
    streams = tuple(tuple(calls) for calls in calls_of_streams if calls)
    stream_of = [0] * len(order)
    for stream, calls in enumerate(streams):
        for call in calls:
            stream_of[call] = stream
    return Placement(tuple(stream_of), streams, tuple(order), tuple(map(tuple, waits)))


# --- without a limit ------------------------------------------------------------------------------------------------


def _place_unlimited(graph: Graph) -> Placement:
    count = len(graph.reduced)
    groups = groups_of(graph)
    members: dict[Group, int] = {}
    for call, group in enumerate(groups):
        members[group] = members.get(group, 0) | 1 << call
    edges, reach = [0] * count, [0] * count
    for call in reversed(range(count)):
        bit = 1 << call
        for parent in graph.reduced[call]:
            reach[parent] |= reach[call] | bit
            edges[parent] |= bit
    for call, group in enumerate(groups):
        edges[call] &= members[group]
        reach[call] &= members[group]
    next_call, previous = [UNMATCHED] * count, [UNMATCHED] * count
    maximise_matching(edges, next_call, previous)
    cover_left, cover_right = vertex_cover(edges, next_call, previous)
    tight = [
        edges[call] & ~cover_right if cover_left >> call & 1 else edges[call] & cover_right | reach[call] & ~cover_right
        for call in range(count)
    ]
    maximise_matching(tight, next_call, previous)
    streams: list[list[int]] = []
    stream_of = [0] * count
    for head in range(count):
        if previous[head] == UNMATCHED:
            chain, call = [], head
            while call != UNMATCHED:
                stream_of[call] = len(streams)
                chain.append(call)
                call = next_call[call]
            streams.append(chain)
    waits = [
        [parent for parent in parents if stream_of[parent] != stream_of[call]]
        for call, parents in enumerate(graph.reduced)
    ]
    return _wrap(streams, range(count), waits)


# --- verification ---------------------------------------------------------------------------------------------------


def verify_placement(graph: Graph, placement: Placement) -> None:
    """Check that a placement keeps the order of its graph.

    Raises:
        InternalError: a call is missing or stands twice, a stream mixes devices or lanes, a wait stays on its own
            stream or points forward, or an edge is not implied by stream order and waits.
    """

    def check(condition: bool, message: str) -> None:
        if not condition:
            raise InternalError(f"placement of {graph.schedule.name!r}: {message}")

    count = len(graph.schedule.calls)
    groups = groups_of(graph)
    check(sorted(placement.order) == list(range(count)), "the issue order is not a permutation of the calls")
    placed = sorted(call for calls in placement.streams for call in calls)
    check(placed == list(range(count)), "the streams do not hold each call once")
    check(len(placement.stream_of) == len(placement.waits) == count, "stream_of and waits must cover each call")
    previous: dict[int, int] = {}
    for stream, calls in enumerate(placement.streams):
        check(len({groups[call] for call in calls}) == 1, f"stream {stream} is empty or mixes devices or lanes")
        check(all(placement.stream_of[call] == stream for call in calls), f"stream_of does not match stream {stream}")
        previous.update(zip(calls[1:], calls, strict=False))
    before: dict[int, int] = {}
    for call in placement.order:
        done = 0
        for source in (*placement.waits[call], *((previous[call],) if call in previous else ())):
            check(source in before, f"call {call} follows call {source}, which is issued later")
            done |= before[source] | 1 << source
        for source in placement.waits[call]:
            check(placement.stream_of[source] != placement.stream_of[call], f"call {call} waits on its own stream")
        before[call] = done
        for parent in graph.predecessors[call]:
            check(bool(done >> parent & 1), f"nothing makes call {call} follow call {parent}")
