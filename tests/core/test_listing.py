"""The list schedule: bounds that any such schedule keeps, waits that cannot be fewer, hops that must pay."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from asyncjit.graph import Graph, build_graph, graph_from_edges, transitive_reduction
from asyncjit.ir import Copy, new_buffer
from asyncjit.listing import Listing, list_schedule
from tests.core._graphs import READ, WRITE, bytes_of, call, layered_edges, random_edges, schedule_of


def random_graph(dice: random.Random) -> tuple[Graph, list[float]]:
    count, edges = layered_edges(dice, dice.randint(4, 10), dice.randint(2, 9))
    return graph_from_edges(count, edges), [float(dice.randint(1, 8)) for _ in range(count)]


def finish_times(listing: Listing, costs: Sequence[float], hop: float = 0.0) -> dict[int, float]:
    """Play a listing through: each stream in order, each wait for the call on another stream and a hop more."""
    streams, order, waits = listing
    stream_of = {index: stream for stream, calls in enumerate(streams) for index in calls}
    free_at: dict[int, float] = {}
    done_at: dict[int, float] = {}
    for index in order:
        stream = stream_of[index]
        start = max([free_at.get(stream, 0.0), *(done_at[source] + hop for source in waits[index])])
        done_at[index] = free_at[stream] = start + costs[index]
    return done_at


def longest_path(graph: Graph, costs: Sequence[float]) -> float:
    ends: list[float] = []
    for index, parents in enumerate(graph.reduced):
        ends.append(costs[index] + max((ends[parent] for parent in parents), default=0.0))
    return max(ends)


@pytest.mark.parametrize("streams", [1, 2, 3, 4])
def test_no_schedule_exceeds_grahams_bound_and_their_mean_is_near_the_best(streams: int) -> None:
    dice = random.Random(streams)
    efficiency = []
    for _ in range(60):
        graph, costs = random_graph(dice)
        listing = list_schedule(graph, streams, costs, 0.0)
        makespan = max(finish_times(listing, costs).values())
        work, path = sum(costs), longest_path(graph, costs)
        assert makespan <= work / streams + (1 - 1 / streams) * path + 1e-9
        efficiency.append(max(path, work / streams) / makespan)
    assert sum(efficiency) / len(efficiency) >= 0.95


def test_every_call_stands_once_after_all_that_it_follows() -> None:
    dice = random.Random(3)
    for hop in (0.0, 2.0):
        graph, costs = random_graph(dice)
        streams, order, waits = list_schedule(graph, 3, costs, hop)
        assert sorted(index for calls in streams for index in calls) == sorted(order) == list(range(len(costs)))
        place = {index: position for position, index in enumerate(order)}
        assert all(place[parent] < place[index] for index in order for parent in graph.predecessors[index])
        assert all(place[source] < place[index] for index in order for source in waits[index])


def test_no_wait_can_be_left_out_and_none_is_missing() -> None:
    """Waits are the edges between streams in the reduction of the hazards and the order of each stream together."""
    dice = random.Random(4)
    for _ in range(40):
        graph, costs = random_graph(dice)
        streams, order, waits = list_schedule(graph, dice.choice([2, 3, 4]), costs, dice.choice([0.0, 3.0]))
        place = {index: position for position, index in enumerate(order)}
        stream_of = {index: stream for stream, calls in enumerate(streams) for index in calls}
        before = {later: earlier for calls in streams for earlier, later in itertools.pairwise(calls)}
        both = [
            sorted(
                {place[source] for source in graph.predecessors[index]}
                | {place[before.get(index, index)]} - {place[index]}
            )
            for index in order
        ]
        needed = [[order[source] for source in sources] for sources in transitive_reduction(both)]
        for index, sources in zip(order, needed, strict=True):
            assert waits[index] == sorted(source for source in sources if stream_of[source] != stream_of[index])


def test_chains_stay_on_their_streams() -> None:
    edges = [(k, k + 3) for k in range(27)]
    streams, _, waits = list_schedule(graph_from_edges(30, edges), 3, [1.0] * 30, 0.0)
    assert not any(waits)
    assert all(len({index % 3 for index in calls}) == 1 for calls in streams)


def test_a_call_that_follows_nothing_leaves_a_chain_its_stream() -> None:
    """Call 4 gets ready together with 3, which follows 1 on the second stream; both streams are free."""
    graph = graph_from_edges(5, [(0, 2), (0, 4), (1, 3)])
    streams, _, waits = list_schedule(graph, 3, [1.0, 1.0, 5.0, 1.0, 3.0], 0.0)
    assert [calls for calls in streams if calls] == [[0, 2], [1, 3], [4]]
    assert waits == [[], [], [], [], [0]]


def test_calls_without_cost_are_placed_as_well() -> None:
    graph = graph_from_edges(4, [(0, 1), (1, 2)])
    _, order, _ = list_schedule(graph, 2, [0.0] * 4, 0.0)
    assert sorted(order) == [0, 1, 2, 3]


# --- hops ------------------------------------------------------------------------------------------------------------


def fork_join(costs: Sequence[float]) -> tuple[Graph, list[float]]:
    """A source of cost 1, the branches, and a sink of cost 1."""
    last = len(costs) + 1
    edges = [edge for branch in range(1, last) for edge in ((0, branch), (branch, last))]
    return graph_from_edges(last + 1, edges), [1.0, *costs, 1.0]


def streams_used(graph: Graph, costs: Sequence[float], hop: float, streams: int = 4) -> int:
    return sum(1 for calls in list_schedule(graph, streams, costs, hop)[0] if calls)


@pytest.mark.parametrize(
    ("branches", "expected"),
    [
        ([1.0] * 8, 1),
        ([100.0, 1.0], 1),
        ([15.0, 12.0], 1),
        ([100.0, 100.0], 2),
        ([100.0, 100.0, 100.0], 3),
        ([1.0] * 100, 4),
    ],
    ids=["a few small", "one small beside a large", "back too late", "two large", "three large", "many small"],
)
def test_work_is_split_off_only_where_that_pays_for_the_hop(branches: list[float], expected: int) -> None:
    graph, costs = fork_join(branches)
    assert streams_used(graph, costs, hop=10.0) == expected
    assert streams_used(graph, costs, hop=0.0) == min(len(branches), 4)


def test_a_small_call_that_leads_to_large_work_is_split_off() -> None:
    """Sizes 1, 100 | 102 behind one source: alone on one stream they would take twice as long."""
    graph = graph_from_edges(5, [(0, 1), (1, 2), (0, 3), (2, 4), (3, 4)])
    costs = [1.0, 1.0, 100.0, 102.0, 1.0]
    listing = list_schedule(graph, 2, costs, 10.0)
    assert max(finish_times(listing, costs, hop=10.0).values()) <= 130


def test_a_call_stays_where_its_latest_predecessor_ran() -> None:
    """Elsewhere it would need fewer waits, and start a hop later."""
    graph = graph_from_edges(4, [(0, 3), (1, 3), (2, 3)])
    costs = [40.0, 4.0, 4.0, 1.0]
    listing = list_schedule(graph, 2, costs, 5.0)
    assert listing[0] == [[0, 3], [1, 2]]
    assert finish_times(listing, costs, hop=5.0)[3] == 41


def test_hops_are_never_paid_to_end_up_slower_than_one_stream() -> None:
    dice = random.Random(6)
    for hop in (0.5, 2.0, 8.0, 32.0):
        for _ in range(30):
            graph, costs = random_graph(dice)
            listing = list_schedule(graph, 4, costs, hop)
            assert max(finish_times(listing, costs, hop).values()) <= sum(costs) + hop


# --- devices and lanes -----------------------------------------------------------------------------------------------


def mixed(copies: int, kernels: int, devices: Sequence[str] = ("cpu",)) -> Graph:
    calls = []
    for device in devices:
        host = [bytes_of(new_buffer(device, 4)) for _ in range(copies)]
        here = [bytes_of(new_buffer(device, 4)) for _ in range(copies)]
        calls += [Copy(target, source) for target, source in zip(here, host, strict=True)]
        for index in range(kernels):
            source = [(here[index % copies], READ)] if copies else []
            calls.append(call(*source, (bytes_of(new_buffer(device, 4)), WRITE)))
    return build_graph(schedule_of(calls))


@pytest.mark.parametrize(
    ("copies", "kernels", "limit", "expected"),
    [(2, 8, 1, 2), (2, 8, 2, 2), (2, 8, 4, 4), (3, 1, 8, 4), (0, 3, 8, 3), (4, 4, 4, 4)],
)
def test_streams_are_shared_out_among_the_lanes_of_a_device(
    copies: int, kernels: int, limit: int, expected: int
) -> None:
    graph = mixed(copies, kernels)
    streams, _, _ = list_schedule(graph, limit, [1.0] * (copies + kernels), 0.0)
    lanes = [{graph.schedule.calls[index].lane for index in calls} for calls in streams]
    assert len(streams) == expected
    assert all(len(lane) == 1 for lane in lanes)


def test_each_device_has_the_limit_to_itself() -> None:
    graph = mixed(0, 4, ("cpu", "sim"))
    streams, _, _ = list_schedule(graph, 2, [1.0] * 8, 0.0)
    devices = sorted(graph.schedule.calls[calls[0]].device for calls in streams)
    assert devices == ["cpu", "cpu", "sim", "sim"]


def test_the_result_does_not_depend_on_anything_but_the_arguments() -> None:
    edges = random_edges(random.Random(7), 40, 0.1)
    costs = [float(1 + index % 5) for index in range(40)]
    first, second = (list_schedule(graph_from_edges(40, edges), 3, costs, 2.0) for _ in range(2))
    assert first == second
