"""Edges, closure, reduction, pruning; each against its definition."""

from __future__ import annotations

import random
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from asyncjit.errors import InternalError
from asyncjit.graph import (
    Graph,
    build_graph,
    closure,
    graph_from_edges,
    prune,
    successors,
    transitive_reduction,
    verify_graph,
)
from asyncjit.ir import Access, Buffer, Operand, Schedule, Slot, SlotKind, new_buffer
from tests.core._graphs import BOTH, READ, WRITE, bytes_of, call, column, golden_suite, random_edges, schedule_of

SUITE = golden_suite()


@st.composite
def edge_lists(draw: st.DrawFn) -> list[tuple[int, ...]]:
    return [
        tuple(sorted(draw(st.sets(st.integers(0, index - 1), max_size=4)))) if index else ()
        for index in range(draw(st.integers(0, 12)))
    ]


def reachable(predecessors: list[tuple[int, ...]]) -> set[tuple[int, int]]:
    """Pairs (earlier, later) with a path between them, by walking."""
    found = set()
    for target in range(len(predecessors)):
        todo = [target]
        while todo:
            for parent in predecessors[todo.pop()]:
                if (parent, target) not in found:
                    found.add((parent, target))
                    todo.append(parent)
    return found


@pytest.mark.parametrize("name", SUITE)
def test_the_golden_graphs_have_their_known_edges(name: str) -> None:
    schedule, expected = SUITE[name]
    graph = build_graph(schedule)
    verify_graph(graph)
    assert sum(map(len, graph.predecessors)) == expected["hazard_edges"]
    assert sum(map(len, graph.reduced)) == expected["reduced_edges"]


@given(edge_lists())
def test_the_closure_holds_what_can_be_reached(predecessors: list[tuple[int, ...]]) -> None:
    bitsets = closure(predecessors)
    pairs = {(u, v) for v, mask in enumerate(bitsets) for u in range(len(bitsets)) if mask >> u & 1}
    assert pairs == reachable(predecessors)


@given(edge_lists())
def test_the_reduction_has_the_same_closure_and_no_edge_to_spare(predecessors: list[tuple[int, ...]]) -> None:
    reduced = transitive_reduction(predecessors)
    assert closure(reduced) == closure(predecessors)
    for target, parents in enumerate(reduced):
        for parent in parents:
            fewer = list(reduced)
            fewer[target] = tuple(other for other in parents if other != parent)
            assert closure(fewer) != closure(predecessors)


@given(edge_lists())
def test_successors_are_the_edges_seen_from_the_other_end(predecessors: list[tuple[int, ...]]) -> None:
    children = successors(predecessors)
    assert [(u, v) for u, targets in enumerate(children) for v in targets] == sorted(
        (u, v) for v, parents in enumerate(predecessors) for u in parents
    )


def test_a_graph_from_edges_has_exactly_these_hazards() -> None:
    edges = random_edges(random.Random(1), 12, 0.3)
    graph = graph_from_edges(12, [*edges, edges[0]])
    verify_graph(graph)
    assert [(u, v) for v, parents in enumerate(graph.predecessors) for u in parents] == sorted(
        edges, key=lambda edge: (edge[1], edge[0])
    )


@pytest.mark.parametrize("edge", [(1, 1), (2, 1), (-1, 1), (1, 3)])
def test_an_edge_that_does_not_lead_forward_is_refused(edge: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="from an earlier call to a later one below 3"):
        graph_from_edges(3, [edge])


def test_columns_of_one_matrix_are_independent_and_its_rows_are_not() -> None:
    matrix = new_buffer("cpu", 32)
    left, right, row = column(matrix, 0, 2, 8, 4), column(matrix, 4, 2, 8, 4), bytes_of(matrix, 0, 8)
    graph = build_graph(schedule_of([call((left, WRITE)), call((right, WRITE)), call((row, READ))]))
    verify_graph(graph)
    assert graph.predecessors == ((), (), (0, 1))


# --- pruning ---------------------------------------------------------------------------------------------------------


def buffers(count: int, nbytes: int = 8) -> list[Buffer]:
    return [new_buffer("cpu", nbytes) for _ in range(count)]


def test_what_no_input_reaches_runs_once() -> None:
    x, w, table, y = buffers(4)
    schedule = schedule_of(
        [call((bytes_of(w), READ), (bytes_of(table), WRITE)), call(*reading(x, table), (bytes_of(y), WRITE))],
        [Slot(SlotKind.INPUT, x), Slot(SlotKind.STATE, w), Slot(SlotKind.OUTPUT, y)],
    )
    assert prune(schedule, set()) == ((1,), (0,))
    assert prune(schedule, {w}) == ((0, 1), ())


def reading(*sources: Buffer) -> list[tuple[Operand, Access]]:
    return [(bytes_of(source), READ) for source in sources]


def test_outputs_and_written_state_are_made_anew_at_each_replay() -> None:
    w, s, y, unused = buffers(4)
    schedule = schedule_of(
        [
            call((bytes_of(w), READ), (bytes_of(y), WRITE)),
            call((bytes_of(w), READ), (bytes_of(s), WRITE)),
            call((bytes_of(w), READ), (bytes_of(unused), WRITE)),
        ],
        [Slot(SlotKind.STATE, w), Slot(SlotKind.STATE, s), Slot(SlotKind.OUTPUT, y)],
    )
    assert prune(schedule, set()) == ((0, 1), (2,))


def test_other_bytes_of_a_buffer_do_not_keep_a_call() -> None:
    x, shared, y = buffers(3, 16)
    calls = [
        call((bytes_of(shared, 0, 8), WRITE)),
        call((bytes_of(x), READ), (bytes_of(shared, 8, 16), WRITE)),
        call((bytes_of(shared), READ), (bytes_of(y), WRITE)),
    ]
    slots = [Slot(SlotKind.INPUT, x), Slot(SlotKind.OUTPUT, y)]
    assert prune(schedule_of(calls, slots), set()) == ((1, 2), (0,))


def test_a_constant_that_is_overwritten_after_it_was_read_is_written_at_each_replay() -> None:
    x, table, y = buffers(3)
    calls = [
        call((bytes_of(table), WRITE)),
        call(*reading(x, table), (bytes_of(y), WRITE)),
        call((bytes_of(table), WRITE)),
    ]
    slots = [Slot(SlotKind.INPUT, x), Slot(SlotKind.OUTPUT, y)]
    assert prune(schedule_of(calls, slots), set()) == ((0, 1, 2), ())


Program = list[tuple[list[tuple[int, int]], tuple[int, int]]]

#: Input, two states, output, two intermediates; each of four cells.
KINDS = (SlotKind.INPUT, SlotKind.STATE, SlotKind.STATE, SlotKind.OUTPUT, None, None)
CELLS = 4


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Calls that read and write ranges of cells; intermediates and the output are filled first."""
    cell_range = st.builds(lambda a, b: (min(a, b), max(a, b) + 1), st.integers(0, 3), st.integers(0, 3))
    place = st.builds(
        lambda buffer, cells: (CELLS * buffer + cells[0], CELLS * buffer + cells[1]), st.integers(0, 5), cell_range
    )
    target = place.filter(lambda cells: cells[0] >= CELLS)
    start: Program = [([], (CELLS * buffer, CELLS * (buffer + 1))) for buffer in (3, 4, 5)]
    return start + draw(st.lists(st.tuples(st.lists(place, max_size=2), target), max_size=8))


def schedule_of_program(program: Program) -> Schedule:
    all_buffers = buffers(len(KINDS), CELLS)

    def operand(cells: tuple[int, int]) -> Operand:
        first = cells[0] // CELLS * CELLS
        return bytes_of(all_buffers[cells[0] // CELLS], cells[0] - first, cells[1] - first)

    calls = [call(*((operand(read), READ) for read in reads), (operand(write), WRITE)) for reads, write in program]
    return schedule_of(calls, [Slot(kind, all_buffers[i]) for i, kind in enumerate(KINDS) if kind is not None])


def run(program: Program, calls: tuple[int, ...], memory: list[object]) -> None:
    for index in calls:
        reads, (start, stop) = program[index]
        value = hash((index, tuple(tuple(memory[slice(*read)]) for read in reads)))
        memory[start:stop] = [(value, cell) for cell in range(start, stop)]


@settings(max_examples=200, deadline=None)
@given(programs())
def test_a_pruned_schedule_gives_what_the_whole_one_gives_at_each_replay(program: Program) -> None:
    kept, once = prune(schedule_of_program(program), set())
    assert sorted(kept + once) == list(range(len(program)))
    whole, pruned = (["state"] * CELLS * len(KINDS) for _ in range(2))
    run(program, once, pruned)
    for replay in range(3):
        for memory in (whole, pruned):
            memory[:CELLS] = [("input", replay)] * CELLS
            memory[3 * CELLS : 4 * CELLS] = [("new output", replay)] * CELLS
        run(program, tuple(range(len(program))), whole)
        run(program, kept, pruned)
        assert whole[CELLS : 4 * CELLS] == pruned[CELLS : 4 * CELLS]


# --- verification ----------------------------------------------------------------------------------------------------


def diamond() -> Graph:
    return graph_from_edges(4, [(0, 1), (0, 2), (1, 3), (2, 3)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predecessors": ((), (0,), (0,))}, "edges for 3 calls, the schedule has 4"),
        ({"predecessors": ((), (0,), (0,), (2, 1))}, "not ascending"),
        ({"predecessors": ((), (1,), (0,), (1, 2))}, "call 1 has predecessors"),
        ({"ancestors": (0, 1, 1, 6)}, "not the closure"),
        ({"reduced": ((), (0,), (0,), (2,))}, "reduction is not"),
    ],
)
def test_a_graph_that_contradicts_itself_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InternalError, match=message):
        verify_graph(replace(diamond(), **change))


def with_edges(graph: Graph, predecessors: tuple[tuple[int, ...], ...]) -> Graph:
    ancestors = tuple(closure(predecessors))
    return Graph(graph.schedule, predecessors, transitive_reduction(predecessors), ancestors)


def test_a_conflict_without_an_order_is_refused() -> None:
    with pytest.raises(InternalError, match="calls 1 and 3 conflict and are not ordered"):
        verify_graph(with_edges(diamond(), ((), (0,), (0,), (2,))))


def test_an_order_without_a_conflict_is_refused() -> None:
    with pytest.raises(InternalError, match="edge from call 1 to call 2 is no conflict"):
        verify_graph(with_edges(diamond(), ((), (0,), (0, 1), (1, 2))))


def test_a_call_does_not_conflict_with_itself() -> None:
    buffer = new_buffer("cpu", 8)
    graph = build_graph(schedule_of([call((bytes_of(buffer), READ), (bytes_of(buffer), BOTH))]))
    verify_graph(graph)
    assert graph.predecessors == ((),)
