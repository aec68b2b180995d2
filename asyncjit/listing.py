"""The list schedule: calls on a limited number of streams, the most urgent first.

Law: pure functions on frozen data; times are virtual. Imports ``graph`` and below.

A list schedule (Graham, 1966) is played through on the given costs: whenever a stream is free and a call is ready, the
most urgent ready call goes to the stream that needs the fewest new waits for it. A hop between streams costs
``hop_cost``: a call is then ready at once only on its home, the stream of its latest predecessor, and another stream
takes it only where that pays.

A call is due when its turn comes in program order, or earlier where the longest path that begins with it, its rank in
HEFT (Topcuoglu, Hariri and Wu, 2002), would otherwise end too late. Rank alone works through a graph level by level and
keeps all of a level alive: on random graphs its frames are 2.6 times as large on average, and up to 9 times, as those
of the program order, which mostly uses a value soon after it is made.

Waits come from a vector clock for each stream (Fidge, Mattern, 1988), the newest dependencies first; one that an
earlier wait implies is dropped. For the streams and the issue order given, no fewer waits are possible: each one kept
is an edge of the reduction of hazards and stream order together.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from asyncjit.graph import Graph, successors

__all__ = ["Group", "groups_of", "list_schedule"]

#: Device and lane: only calls of one group may share a stream.
Group = tuple[str, str]

# How much earlier than by the least possible time paths should end, so that long ones are begun before their turn: this
# share of that time, but not more than this many mean calls, or large graphs would be worked through level by level
# after all. Measured on random graphs on 2 and 4 streams, bytes over those of the program order and bound over time
# reached, on average. 400 calls: 0 ahead 1.40 and 0.963, 16: 1.49 and 0.980, 32: 1.56 and 0.983, rank alone 2.62 and
# 0.987. 3,000 calls: 0 ahead 1.44 and 0.955, 16: 1.49 and 0.959, 32: 1.63 and 0.963, 64: 1.95 and 0.972, the whole
# share 3.36 and 0.982.
_AHEAD_SHARE = 0.15
_AHEAD_CALLS = 32

#: Calls of each stream in order, some maybe empty; all calls in issue order; the waits of each call.
Listing = tuple[list[list[int]], list[int], list[list[int]]]


def groups_of(graph: Graph) -> list[Group]:
    """Device and lane of each call."""
    return [(call.device, call.lane) for call in graph.schedule.calls]


def list_schedule(graph: Graph, streams_max: int, costs: Sequence[float], hop_cost: float) -> Listing:
    """Calls of each stream, the issue order, and the waits of each call.

    Each device gets ``streams_max`` streams, or one for each lane in use where these are more. With ``hop_cost`` 0 no
    stream is idle while a call that it may run is ready, so the time played through is at most
    ``work / streams + (1 - 1 / streams) * longest path`` on one device and lane (Graham's bound).
    """
    return _ListSchedule(graph, streams_max, costs, hop_cost).run()


class _Clocks:
    """What each stream knows to be done: ``known[s][t]`` calls of stream ``t``. Finds the waits that a call needs."""

    def __init__(self, graph: Graph, streams: int) -> None:
        self.parents = graph.reduced
        self.known = [[0] * streams for _ in range(streams)]
        #: What a stream that waits for the event of a call knows afterwards.
        self.after: list[list[int]] = [[] for _ in graph.reduced]
        self.stream_of = [0] * len(graph.reduced)
        self.position = [0] * len(graph.reduced)
        self.issued = [0] * len(graph.reduced)
        self.order: list[int] = []

    def missing(self, call: int, stream: int) -> list[int]:
        """Predecessors that ``stream`` does not know to be done."""
        known = self.known[stream]
        return [parent for parent in self.parents[call] if known[self.stream_of[parent]] <= self.position[parent]]

    def issue(self, call: int, stream: int) -> list[int]:
        """Append ``call`` to ``stream``; returns the waits that it needs, ascending.

        A wait can only imply what was issued earlier, so going from the newest back none is taken in vain.
        """
        waits: list[int] = []
        known = self.known[stream]
        for parent in sorted(self.missing(call, stream), key=self.issued.__getitem__, reverse=True):
            if known[self.stream_of[parent]] <= self.position[parent]:
                waits.append(parent)
                known[:] = map(max, known, self.after[parent])
        self.stream_of[call] = stream
        self.position[call] = known[stream]
        self.issued[call] = len(self.order)
        self.order.append(call)
        known[stream] += 1
        self.after[call] = [*known]
        return sorted(waits)


@dataclass(slots=True, eq=False)
class _Stream:
    """A stream while it is filled, and the ready calls whose home it is, the first due first."""

    index: int
    group: Group
    free_at: float
    calls: list[int] = field(default_factory=list)
    ready: list[tuple[float, int]] = field(default_factory=list)
    #: Work that hangs on the ready calls alone.
    backlog: float = 0.0


class _ListSchedule:
    """One play-through in virtual time. ``agenda``: moments at which a call gets ready, or (-1) a stream free."""

    def __init__(self, graph: Graph, streams_max: int, costs: Sequence[float], hop_cost: float) -> None:
        self.parents = graph.reduced
        self.costs = costs
        self.hop_cost = hop_cost
        self.children = successors(graph.reduced)
        rank, self.tail = _ranks(self.parents, self.children, costs)
        self.groups = groups_of(graph)
        self.streams = _open_streams(self.groups, streams_max, costs, hop_cost)
        self.by_group: dict[Group, list[_Stream]] = {}
        for stream in self.streams:
            self.by_group.setdefault(stream.group, []).append(stream)
        self.due = _due_times(self.groups, {group: len(them) for group, them in self.by_group.items()}, costs, rank)
        #: Ready calls without a home, the first due first.
        self.anywhere: dict[Group, list[tuple[float, int]]] = {group: [] for group in self.by_group}
        self.clocks = _Clocks(graph, len(self.streams))
        self.done_at = [0.0] * len(costs)
        self.unmet = [len(parents) for parents in self.parents]
        self.unplaced = [len(children) for children in self.children]
        self.waits: list[list[int]] = [[] for _ in costs]
        self.agenda = [(stream.free_at, -1) for stream in self.streams]
        self.agenda += [(0.0, call) for call, unmet in enumerate(self.unmet) if not unmet]

    def run(self) -> Listing:
        heapq.heapify(self.agenda)
        while self.agenda:
            now = self.agenda[0][0]
            while self.agenda and self.agenda[0][0] == now:
                call = heapq.heappop(self.agenda)[1]
                if call >= 0:
                    self._queue(call)
            for streams in self.by_group.values():
                while self._start_one(streams, now):
                    pass
        return [stream.calls for stream in self.streams], self.clocks.order, self.waits

    def _home(self, call: int) -> _Stream | None:
        """The stream of the latest predecessor; None where ``call`` has none or may not run there."""
        if not self.parents[call]:
            return None
        latest = max(self.parents[call], key=lambda parent: (self.done_at[parent], self.clocks.issued[parent]))
        home = self.streams[self.clocks.stream_of[latest]]
        return home if home.group == self.groups[call] else None

    def _queue(self, call: int) -> None:
        """Put a call that is ready in line."""
        home = self._home(call)
        if home is not None:
            home.backlog += self.tail[call]
        heapq.heappush(self.anywhere[self.groups[call]] if home is None else home.ready, (self.due[call], call))

    def _start_one(self, streams: list[_Stream], now: float) -> bool:
        """Start the most urgent ready call that a free stream of one group may take; False if there is none."""
        free = [stream for stream in streams if stream.free_at <= now]
        if not free:
            return False
        common = self.anywhere[streams[0].group]
        best, best_home = (common[0] if common else None), None
        for home in streams:
            if home.ready and (best is None or home.ready[0] < best) and self._may_start(home, now):
                best, best_home = home.ready[0], home
        if best is None:
            return False
        call = best[1]
        if best_home is None:
            heapq.heappop(common)
        else:
            heapq.heappop(best_home.ready)
            best_home.backlog -= self.tail[call]
            if self.hop_cost and best_home.free_at <= now:
                free = [best_home]
        self._start(call, min(free, key=lambda stream: self._preference(call, stream)), now)
        return True

    def _may_start(self, home: _Stream, now: float) -> bool:
        """Whether the first in line at ``home`` may start somewhere: there, or where moving it pays.

        The other stream must have seen the predecessors by now; the work at stake must not be less than a hop; and the
        result must be back not later than home alone would be through with all that waits for it.
        """
        if not self.hop_cost or home.free_at <= now:
            return True
        call = home.ready[0][1]
        seen_at = max(self.done_at[parent] for parent in self.parents[call]) + self.hop_cost
        back_at = now + self.tail[call] + self.hop_cost
        return seen_at <= now and home.backlog >= self.hop_cost and back_at <= home.free_at + home.backlog

    def _preference(self, call: int, stream: _Stream) -> tuple[int, bool, int]:
        """Fewest new waits; then a stream whose last call nobody would follow; then the first."""
        followed = bool(stream.calls) and self.unplaced[stream.calls[-1]] > 0
        return len(self.clocks.missing(call, stream.index)), followed, stream.index

    def _start(self, call: int, stream: _Stream, now: float) -> None:
        self.waits[call] = self.clocks.issue(call, stream.index)
        stream.calls.append(call)
        stream.free_at = self.done_at[call] = now + self.costs[call]
        heapq.heappush(self.agenda, (stream.free_at, -1))
        for parent in self.parents[call]:
            self.unplaced[parent] -= 1
        for child in self.children[call]:
            self.unmet[child] -= 1
            if not self.unmet[child]:
                self._announce(child)

    def _announce(self, call: int) -> None:
        """Note when ``call``, whose predecessors have all started, gets ready at its home, and when elsewhere."""
        home = self._home(call)
        seen_at = max(self.done_at[parent] for parent in self.parents[call]) + self.hop_cost
        ready_at = max(
            self.done_at[parent]
            + (0.0 if home is not None and self.clocks.stream_of[parent] == home.index else self.hop_cost)
            for parent in self.parents[call]
        )
        heapq.heappush(self.agenda, (ready_at, call))
        if ready_at < seen_at:
            heapq.heappush(self.agenda, (seen_at, -1))


def _ranks(
    parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]], costs: Sequence[float]
) -> tuple[list[float], list[float]]:
    """For each call the longest path that begins with it, and the work that hangs on it alone, itself included."""
    rank, tail = [*costs], [*costs]
    for call in reversed(range(len(costs))):
        rank[call] += max((rank[child] for child in children[call]), default=0.0)
        tail[call] += sum(tail[child] for child in children[call] if len(parents[child]) == 1)
    return rank, tail


def _due_times(
    groups: Sequence[Group], streams: Mapping[Group, int], costs: Sequence[float], rank: Sequence[float]
) -> list[float]:
    """When each call is due: at its turn in program order, or earlier where the path that begins with it presses.

    A group with one stream keeps the program order: there nothing could run beside what is urgent.
    """
    work = dict.fromkeys(streams, 0.0)
    turns = []
    for group, cost in zip(groups, costs, strict=True):
        turns.append(work[group] / streams[group])
        work[group] += cost
    least = max([*rank, *(work[group] / streams[group] for group in work)], default=0.0)
    horizon = least - min(_AHEAD_SHARE * least, _AHEAD_CALLS * sum(costs) / max(len(costs), 1))
    return [
        turn if streams[group] == 1 else min(turn, horizon - path)
        for group, turn, path in zip(groups, turns, rank, strict=True)
    ]


def _open_streams(groups: Sequence[Group], streams_max: int, costs: Sequence[float], hop_cost: float) -> list[_Stream]:
    """Streams for each device: one a lane, the rest where the most work a stream is. The first of a lane is warm."""
    work: dict[Group, float] = {}
    calls: dict[Group, int] = {}
    for group, cost in zip(groups, costs, strict=True):
        work[group] = work.get(group, 0.0) + cost
        calls[group] = calls.get(group, 0) + 1
    number = dict.fromkeys(work, 1)
    for device in {device: None for device, _ in work}:
        lanes = [group for group in work if group[0] == device]
        for _ in range(streams_max - len(lanes)):
            open_to_more = [lane for lane in lanes if number[lane] < calls[lane]]
            if not open_to_more:
                break
            number[max(open_to_more, key=lambda lane: work[lane] / number[lane])] += 1
    streams: list[_Stream] = []
    for group, wanted in number.items():
        streams += [_Stream(len(streams) + k, group, hop_cost if k else 0.0) for k in range(wanted)]
    return streams
