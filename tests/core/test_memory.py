"""Frames never let one value overwrite another, whatever order the streams take, and stay small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from asyncjit import memory
from asyncjit.errors import InternalError
from asyncjit.graph import Graph, build_graph
from asyncjit.ir import Buffer, Schedule, Slot, SlotKind, new_buffer
from asyncjit.memory import ALIGNMENT_BYTES, FrameLayout, plan_memory, verify_bytes, verify_layout
from asyncjit.placement import Placement, place
from tests.core.byte_machine import call_of, random_schedule, run_in_program_order, run_interleaved, whole
from tests.core.program_order import alive_at_once, branches, program_order_nbytes, recent_reads


def in_line(calls: int) -> Placement:
    return Placement((0,) * calls, (tuple(range(calls)),), tuple(range(calls)), ((),) * calls)


def chain(sizes: Sequence[int], device: str = "d0") -> tuple[Schedule, list[Buffer]]:
    """Each call reads the buffer before and writes the next; the last one is the output."""
    buffers = [new_buffer(device, size) for size in sizes]
    calls = [call_of([], [whole(buffers[0])])]
    calls += [call_of([whole(a)], [whole(b)]) for a, b in pairwise(buffers)]
    return Schedule(tuple(calls), (Slot(SlotKind.OUTPUT, buffers[-1]),)), buffers


def placed(schedule: Schedule, streams_max: int | None) -> tuple[Graph, Placement]:
    graph = build_graph(schedule)
    return graph, place(graph, streams_max=streams_max)


def runs_right(schedule: Schedule, placement: Placement, layout: FrameLayout, seed: int) -> bool:
    results = run_interleaved(schedule, placement.streams, placement.waits, layout.offsets, layout.nbytes, seed)
    return results == run_in_program_order(schedule)


def reaches(placement: Placement) -> list[set[int]]:
    """For each call, the calls that are surely done before it, followed edge by edge."""
    before: list[set[int]] = [set() for _ in placement.order]
    for call in placement.order:
        stream = placement.streams[placement.stream_of[call]]
        for earlier in (*placement.waits[call], *stream[: stream.index(call)]):
            before[call] |= before[earlier] | {earlier}
    return before


def clashes(schedule: Schedule, placement: Placement, layout: FrameLayout) -> list[tuple[Buffer, Buffer]]:
    """Pairs that share a byte while neither is through before the other begins: every pair, every use."""
    before = reaches(placement)
    uses: dict[Buffer, set[int]] = {buffer: set() for buffer in layout.offsets}
    for index, call in enumerate(schedule.calls):
        for view, _ in call.accesses():
            if view.buffer in uses:
                uses[view.buffer].add(index)
    spans = {buffer: range(start, start + buffer.nbytes) for buffer, start in layout.offsets.items()}
    return [
        (a, b)
        for a in uses
        for b in uses
        if a.serial < b.serial
        and a.device == b.device
        and max(spans[a].start, spans[b].start) < min(spans[a].stop, spans[b].stop)
        and not all(before[later] >= uses[a] for later in uses[b])
        and not all(before[later] >= uses[b] for later in uses[a])
    ]


@pytest.mark.parametrize("streams_max", [1, 2, 4, None])
@pytest.mark.parametrize("devices", [1, 2])
def test_every_order_that_streams_and_waits_allow_gives_the_results_of_program_order(
    streams_max: int | None, devices: int
) -> None:
    for seed in range(40):
        schedule = random_schedule(seed, devices=devices)
        graph, placement = placed(schedule, streams_max)
        layout = plan_memory(graph, placement)
        verify_layout(graph, placement, layout)
        assert clashes(schedule, placement, layout) == [], seed
        for order in range(2):
            assert runs_right(schedule, placement, layout, order), (seed, order)


def test_lifetimes_taken_from_the_program_order_are_caught_on_two_streams() -> None:
    wrong = noticed = 0
    for seed in range(60):
        graph, placement = placed(random_schedule(seed), 2)
        layout = plan_memory(graph, in_line(len(placement.order)))
        went_wrong = not all(runs_right(graph.schedule, placement, layout, order) for order in range(3))
        clash = bool(clashes(graph.schedule, placement, layout))
        assert clash or not went_wrong
        if clash:
            with pytest.raises(InternalError, match="share bytes"):
                verify_layout(graph, placement, layout)
        else:
            verify_layout(graph, placement, layout)
        wrong, noticed = wrong + went_wrong, noticed + clash
    assert wrong > 10
    assert noticed >= wrong


def test_a_chain_lives_in_two_places() -> None:
    schedule, buffers = chain([256] * 10)
    layout = plan_memory(build_graph(schedule), in_line(10))
    assert layout.nbytes == {"d0": 512}
    assert set(layout.offsets.values()) == {0, 256}
    assert set(layout.offsets) == set(buffers[:-1])


def test_an_output_never_takes_the_bytes_of_its_input() -> None:
    schedule, buffers = chain([64, 64, 64])
    layout = plan_memory(build_graph(schedule), in_line(3))
    assert layout.offsets[buffers[0]] != layout.offsets[buffers[1]]


def test_held_buffers_and_slots_have_no_place_and_empty_ones_are_at_zero() -> None:
    schedule, buffers = chain([100, 200, 0, 300])
    layout = plan_memory(build_graph(schedule), in_line(4), frozenset({buffers[1]}))
    assert set(layout.offsets) == {buffers[0], buffers[2]}
    assert layout.offsets[buffers[2]] == 0
    assert layout.nbytes == {"d0": 128}


def test_each_device_has_an_arena_of_its_own_and_offsets_are_aligned() -> None:
    left, right = chain([10, 70, 130, 1], "left")[0], chain([10, 1], "right")[0]
    schedule = Schedule(left.calls + right.calls, left.slots + right.slots)
    placement = Placement((0, 0, 0, 0, 1, 1), ((0, 1, 2, 3), (4, 5)), tuple(range(6)), ((),) * 6)
    layout = plan_memory(build_graph(schedule), placement)
    assert layout.nbytes == {"left": 128 + 192, "right": 64}
    assert all(offset % ALIGNMENT_BYTES == 0 for offset in layout.offsets.values())


TREES = [recent_reads(seed, reads_max=1, reach=7) for seed in range(6)]
JOINED = [*(recent_reads(seed, reads_max=3, reach=24) for seed in range(6)), branches(), branches(4, 20)]


@pytest.mark.parametrize("schedule", [*TREES, *JOINED])
def test_one_stream_needs_hardly_more_than_a_planner_that_knows_the_program_order(schedule: Schedule) -> None:
    layout = plan_memory(*placed(schedule, 1))
    assert alive_at_once(schedule) <= layout.nbytes["d0"] <= 1.05 * program_order_nbytes(schedule)


@pytest.mark.parametrize("streams_max", [2, 4])
@pytest.mark.parametrize("schedule", JOINED)
def test_more_streams_need_at_most_twice_the_bytes_of_the_program_order(schedule: Schedule, streams_max: int) -> None:
    """Where results join again. In trees streams hardly ever wait for each other, so no planner finds much to share:
    on four streams they need 2.5 to 3.7 times as much, and sets of buffers that all keep apart 2.5 to 3.6 times."""
    graph, placement = placed(schedule, streams_max)
    assert len(placement.streams) == streams_max
    layout = plan_memory(graph, placement)
    verify_layout(graph, placement, layout)
    assert layout.nbytes["d0"] <= 2 * program_order_nbytes(schedule)


def test_the_passes_after_the_first_are_kept_only_where_they_are_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    gains = 0
    for seed in range(60):
        graph, placement = placed(random_schedule(seed, calls=40), 4)
        all_passes = sum(plan_memory(graph, placement).nbytes.values())
        with monkeypatch.context() as patch:
            patch.setattr(memory, "_MORE_PASSES_BUFFERS_MAX", 0)
            first = sum(plan_memory(graph, placement).nbytes.values())
        assert all_passes <= first
        gains += all_passes < first
    assert gains > 0


def fan(width: int, *, late: bool) -> tuple[Schedule, Placement, Buffer, Buffer]:
    """``old`` is read, or ``young`` begun, by ``width`` calls that nothing orders; one call lies between the two.

    With ``late`` the unordered calls are the last uses of ``old``, else the first ones of ``young``.
    """
    old, young, middle = new_buffer("d0", 64), new_buffer("d0", 64 * width), new_buffer("d0", 64)
    if late:
        young, old = new_buffer("d0", 64), new_buffer("d0", 64 * width)
        many = [call_of([whole(old)], []) for _ in range(width)]
        calls = [*many, call_of([], [whole(middle)]), call_of([], [whole(young)])]
        waits = [*[()] * width, tuple(range(1, width)), ()]
        streams = ((0, width, width + 1), *((i,) for i in range(1, width)))
    else:
        many = [call_of([], [whole(young)]) for _ in range(width)]
        calls = [call_of([], [whole(old)]), call_of([], [whole(middle)]), *many]
        waits = [(), (), (), *[(1,)] * (width - 1)]
        streams = ((0, 1, 2), *((i + 2,) for i in range(1, width)))
    stream_of = tuple(next(s for s, on in enumerate(streams) if i in on) for i in range(len(calls)))
    placement = Placement(stream_of, streams, tuple(range(len(calls))), tuple(waits))
    return Schedule(tuple(calls), (Slot(SlotKind.STATE, middle),)), placement, old, young


@pytest.mark.parametrize("late", [True, False])
def test_bytes_are_passed_on_between_many_unordered_uses_up_to_a_limit(late: bool) -> None:
    for width in (2, 64, 65):
        schedule, placement, old, young = fan(width, late=late)
        graph = Graph(schedule, (), (), ())
        layout = plan_memory(graph, placement)
        verify_layout(graph, placement, layout)
        shared = layout.nbytes["d0"] == 64 * width
        assert shared == (width <= 64), width
        assert (layout.offsets[old] == layout.offsets[young]) == shared


def two_alive() -> tuple[Graph, Placement, Buffer, Buffer]:
    a, b = new_buffer("d0", 64), new_buffer("d0", 64)
    schedule = Schedule((call_of([], [whole(a)]), call_of([], [whole(b)]), call_of([whole(a), whole(b)], [])))
    return Graph(schedule, (), (), ()), in_line(3), a, b


@pytest.mark.parametrize(
    ("place_b", "nbytes", "message"),
    [
        (32, 128, "unaligned"),
        (-64, 128, "outside its arena of 128 bytes"),
        (128, 128, "outside its arena of 128 bytes"),
        (0, 128, "share bytes"),
    ],
)
def test_the_verifier_refuses_a_wrong_place(place_b: int, nbytes: int, message: str) -> None:
    graph, placement, a, b = two_alive()
    with pytest.raises(InternalError, match=message):
        verify_layout(graph, placement, FrameLayout({a: 0, b: place_b}, {"d0": nbytes}))
    verify_layout(graph, placement, FrameLayout({a: 0, b: 64}, {"d0": 128}))


def test_the_verifier_refuses_a_device_without_an_arena_and_a_slot_in_the_frame() -> None:
    graph, placement, a, b = two_alive()
    with pytest.raises(InternalError, match="outside its arena of 0 bytes"):
        verify_layout(graph, placement, FrameLayout({a: 0, b: 64}, {}))
    bound = Graph(replace(graph.schedule, slots=(Slot(SlotKind.STATE, b),)), (), (), ())
    with pytest.raises(InternalError, match="is a slot"):
        verify_layout(bound, placement, FrameLayout({a: 0, b: 64}, {"d0": 128}))


def test_the_verifier_ignores_what_no_call_uses() -> None:
    graph, placement, a, b = two_alive()
    unused = new_buffer("d0", 64)
    verify_bytes(graph.schedule, placement.order, memory.calls_before(placement), {a: 0, b: 64, unused: 0}, {"d0": 128})


def test_the_verifier_sees_neighbours_that_meet_only_after_one_between_them_has_ended() -> None:
    """``a`` and ``c`` share the last bytes, where ``b``, which lies between them in time, no longer is."""
    a, b, c = (new_buffer("d0", size) for size in (128, 64, 128))
    calls = (call_of([], [whole(a)]), call_of([], [whole(b)]), call_of([], [whole(c)]), call_of([whole(a)], []))
    before = [0, 0b0001, 0b0010, 0b0011]
    with pytest.raises(InternalError, match="share bytes"):
        verify_bytes(Schedule(calls), [0, 1, 3, 2], before, {a: 0, b: 0, c: 0}, {"d0": 128})


@pytest.mark.parametrize("nbytes", [4, 1 << 10, 1 << 40, 1 << 128])
def test_sizes_are_exact_however_large(nbytes: int) -> None:
    schedule, _ = chain([nbytes] * 6)
    assert plan_memory(build_graph(schedule), in_line(6)).nbytes == {"d0": 2 * max(nbytes, ALIGNMENT_BYTES)}
