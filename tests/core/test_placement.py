"""Without a limit: the theorem's minimum. With one: the limit, the order, the checks."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from asyncjit.errors import InternalError
from asyncjit.graph import Graph, build_graph, graph_from_edges
from asyncjit.ir import Copy, new_buffer
from asyncjit.placement import Placement, place, verify_placement
from tests.core._graphs import READ, WRITE, bytes_of, call, golden_suite, layered_edges, random_edges, schedule_of

SUITE = golden_suite()


def waits_and_streams(placement: Placement) -> tuple[int, int]:
    return sum(map(len, placement.waits)), len(placement.streams)


def best_by_trying_everything(graph: Graph) -> tuple[int, int]:
    """Fewest waits, then fewest streams, over every way to cut the calls into chains of the closure."""
    best: list[tuple[int, int]] = []
    cross = {(u, v) for v, parents in enumerate(graph.reduced) for u in parents}

    def extend(index: int, chains: list[list[int]]) -> None:
        if index == len(graph.reduced):
            together = {pair for chain in chains for pair in itertools.combinations(chain, 2)}
            best.append((len(cross - together), len(chains)))
            return
        for chain in chains:
            if graph.ancestors[index] >> chain[-1] & 1:
                chain.append(index)
                extend(index + 1, chains)
                chain.pop()
        extend(index + 1, [*chains, [index]])

    extend(0, [])
    return min(best)


def best_by_assignment(graph: Graph) -> tuple[int, int]:
    """The same by one assignment on the closure: an edge of the reduction outweighs all others together."""
    count = len(graph.reduced)
    groups = [(each.device, each.lane) for each in graph.schedule.calls]
    weights = np.zeros((count, count))
    for v, parents in enumerate(graph.reduced):
        for u in range(v):
            if graph.ancestors[v] >> u & 1 and groups[u] == groups[v]:
                weights[u, v] = count + 2 if u in parents else 1
    taken = [weights[u, v] for u, v in zip(*linear_sum_assignment(weights, maximize=True), strict=True)]
    saved, joined = sum(weight > 1 for weight in taken), sum(weight > 0 for weight in taken)
    return sum(map(len, graph.reduced)) - saved, count - joined


@pytest.mark.parametrize("name", SUITE)
def test_the_golden_graphs_reach_their_known_minimum(name: str) -> None:
    schedule, expected = SUITE[name]
    graph = build_graph(schedule)
    placement = place(graph, streams_max=None)
    verify_placement(graph, placement)
    assert waits_and_streams(placement) == (expected["waits_min"], expected["streams_min"])


def test_small_graphs_reach_the_minimum_of_all_possibilities() -> None:
    dice = random.Random(11)
    for _ in range(200):
        count = dice.randint(1, 7)
        graph = graph_from_edges(count, random_edges(dice, count, dice.choice([0.2, 0.4, 0.6])))
        placement = place(graph, streams_max=None)
        verify_placement(graph, placement)
        assert waits_and_streams(placement) == best_by_trying_everything(graph) == best_by_assignment(graph)


def test_large_graphs_reach_the_minimum_of_an_assignment() -> None:
    dice = random.Random(12)
    for _ in range(60):
        count, edges = layered_edges(dice, dice.randint(3, 9), dice.randint(2, 9))
        for graph in (graph_from_edges(count, edges), graph_from_edges(30, random_edges(dice, 30, 0.12))):
            placement = place(graph, streams_max=None)
            verify_placement(graph, placement)
            assert waits_and_streams(placement) == best_by_assignment(graph)


def test_streams_are_not_joined_at_the_price_of_a_wait() -> None:
    """Enlarging the matching over all of the closure would trade a wait for a stream here."""
    parents = [
        (),
        (),
        (),
        (2,),
        (0,),
        (0,),
        (0,),
        (3, 6),
        (4,),
        (4,),
        (4,),
        (4,),
        (8, 10),
        (5, 7, 9),
        (5, 8, 9),
        (7, 9),
    ]
    parents += [(11,), (13, 15), (14, 16), (12, 13, 14, 15), (14, 18, 19), (18,), (19,), (18,)]
    graph = graph_from_edges(24, [(u, v) for v, sources in enumerate(parents) for u in sources])
    assert waits_and_streams(place(graph, streams_max=None)) == best_by_assignment(graph) == (20, 8)


def graph_with_copies(dice: random.Random) -> Graph:
    """Kernels and copies on two devices, each reading what some earlier ones wrote."""
    results = []
    calls = []
    for _ in range(dice.randint(4, 24)):
        target = bytes_of(new_buffer(dice.choice(["cpu", "sim"]), 4))
        sources = dice.sample(results, min(len(results), dice.randint(0, 2)))
        if len(sources) == 1 and dice.random() < 0.5:
            calls.append(Copy(target, sources[0]))
        else:
            calls.append(call((target, WRITE), *((source, READ) for source in sources)))
        results.append(target)
    return build_graph(schedule_of(calls))


def test_devices_and_lanes_reach_the_minimum_that_keeping_them_apart_allows() -> None:
    dice = random.Random(13)
    for _ in range(60):
        graph = graph_with_copies(dice)
        placement = place(graph, streams_max=None)
        verify_placement(graph, placement)
        assert waits_and_streams(placement) == best_by_assignment(graph)


@pytest.mark.parametrize("streams_max", [1, 2, 4, 100])
@pytest.mark.parametrize("hop_cost", [0.0, 2.5])
def test_a_limit_is_kept_and_the_order_too(streams_max: int, hop_cost: float) -> None:
    dice = random.Random(14)
    for _ in range(20):
        count, edges = layered_edges(dice, 6, 6)
        graph = graph_from_edges(count, edges)
        costs = [float(dice.randint(0, 5)) for _ in range(count)]
        placement = place(graph, streams_max=streams_max, costs=costs, hop_cost=hop_cost)
        verify_placement(graph, placement)
        assert len(placement.streams) <= streams_max


def test_lanes_are_kept_apart_under_a_limit() -> None:
    dice = random.Random(15)
    for hop_cost in (0.0, 3.0):
        for _ in range(30):
            graph = graph_with_copies(dice)
            verify_placement(graph, place(graph, streams_max=2, hop_cost=hop_cost))


def test_an_empty_graph_needs_no_stream() -> None:
    for streams_max in (None, 1, 4):
        placement = place(graph_from_edges(0, []), streams_max=streams_max)
        verify_placement(graph_from_edges(0, []), placement)
        assert placement == Placement((), (), (), ())


def test_arguments_that_make_no_sense_are_refused() -> None:
    graph = graph_from_edges(2, [])
    with pytest.raises(ValueError, match="at least 1 or None, got 0"):
        place(graph, streams_max=0)
    with pytest.raises(ValueError, match="each of 2 calls, got 3"):
        place(graph, streams_max=1, costs=[1.0, 2.0, 3.0])


# --- verification ----------------------------------------------------------------------------------------------------

#: 0 → 1 on one stream, 2 on another; 2 follows 0.
FORK = graph_from_edges(3, [(0, 1), (0, 2)])
SOUND = Placement((0, 0, 1), ((0, 1), (2,)), (0, 1, 2), ((), (), (0,)))


def test_a_sound_placement_passes() -> None:
    verify_placement(FORK, SOUND)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": (0, 1, 1)}, "not a permutation"),
        ({"streams": ((0, 1),)}, "do not hold each call once"),
        ({"waits": ((), ())}, "must cover each call"),
        ({"streams": ((0, 1), (2,), ())}, "stream 2 is empty or mixes"),
        ({"stream_of": (0, 1, 1)}, "stream_of does not match stream 0"),
        ({"order": (1, 0, 2)}, "call 1 follows call 0, which is issued later"),
        ({"order": (2, 0, 1)}, "call 2 follows call 0, which is issued later"),
        ({"waits": ((), (0,), (0,))}, "call 1 waits on its own stream"),
        ({"waits": ((), (), ())}, "nothing makes call 2 follow call 0"),
    ],
)
def test_a_placement_that_breaks_a_rule_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InternalError, match=message):
        verify_placement(FORK, replace(SOUND, **change))


def test_a_stream_that_mixes_lanes_is_refused() -> None:
    here, there = bytes_of(new_buffer("cpu", 4)), bytes_of(new_buffer("cpu", 4))
    graph = build_graph(schedule_of([call((here, WRITE)), Copy(there, here)]))
    with pytest.raises(InternalError, match="stream 0 is empty or mixes devices or lanes"):
        verify_placement(graph, Placement((0, 0), ((0, 1),), (0, 1), ((), ())))
