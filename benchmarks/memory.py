"""Frame bytes against a planner that follows the program order, and what reuse costs in order and parallelism.

``program_order_bytes`` is a planner of its own: greedy best fit over first to last use in program order, largest first.
``edges_added`` counts pairs of calls that touch the same bytes of the arena through different buffers and that the
plan's streams and waits leave unordered: order that reuse would have to add. ``parallelism_lost`` is 1 - (average
parallelism with the order of the arena's bytes added / without), calls counting by cost.
"""

from __future__ import annotations

from asyncjit.graph import build_graph, closure
from asyncjit.ir import Buffer, Schedule
from asyncjit.plan import Plan, lower
from asyncjit.program import call_costs
from benchmarks._graphs import mlp_step, random_graph, wide_inference

STREAMS = (1, 2, 4)
ALIGNMENT_BYTES = 64


def run() -> dict[str, object]:
    schedules = [mlp_step(), wide_inference(), *(random_graph(300, seed) for seed in range(3))]
    return {"rows": [row(schedule, streams) for schedule in schedules for streams in STREAMS]}


def row(schedule: Schedule, streams: int) -> dict[str, object]:
    plan = lower(schedule, streams_max=streams, costs=call_costs(schedule))
    # From here on calls are numbered in issue order, in which predecessors come first.
    order = [call for segment in plan.segments for call in segment.calls]
    place = {call: index for index, call in enumerate(order)}
    costs = [call_costs(schedule)[call] for call in order]
    before = closure([tuple(sorted(place[each] for each in found)) for found in _ordered(plan, order)])
    added = [(early, late) for early, late in sharing_pairs(plan, order) if not before[late] >> early & 1]
    predecessors = build_graph(schedule).predecessors
    graph = [{place[each] for each in predecessors[call]} for call in order]
    with_arena = [set(each) for each in graph]
    for early, late in added:
        with_arena[late].add(early)
    lost = 1 - parallelism(with_arena, costs) / parallelism(graph, costs)
    return {
        "graph": schedule.name,
        "streams": streams,
        "frame_bytes": sum(plan.frame_nbytes.values()),
        "program_order_bytes": program_order_bytes(schedule),
        "edges_added": len(added),
        "parallelism_lost": round(lost, 4),
    }


def _ordered(plan: Plan, order: list[int]) -> list[set[int]]:
    """For each call, in issue order, the calls before it by its stream or by a wait."""
    found: dict[int, set[int]] = {call: set() for call in order}
    last_of_stream: dict[int, int] = {}
    last_of_segment: dict[int, int] = {}
    for segment in plan.segments:
        found[segment.calls[0]] |= {last_of_segment[wait] for wait in segment.waits}
        previous = last_of_stream.get(segment.stream)
        for call in segment.calls:
            if previous is not None:
                found[call].add(previous)
            previous = call
        last_of_stream[segment.stream] = last_of_segment[segment.index] = segment.calls[-1]
    return [found[call] for call in order]


def sharing_pairs(plan: Plan, order: list[int]) -> list[tuple[int, int]]:
    """Pairs of calls, numbered in issue order, that touch common bytes of the arena through different buffers."""
    uses: dict[Buffer, list[int]] = {}
    for place, call in enumerate(order):
        for view, _ in plan.schedule.calls[call].accesses():
            if view.buffer in plan.offsets:
                uses.setdefault(view.buffer, []).append(place)
    spans = sorted((plan.offsets[each], plan.offsets[each] + each.nbytes, each.serial, each) for each in uses)
    pairs = []
    for index, (_, end, _, buffer) in enumerate(spans):
        for start, _, _, other in spans[index + 1 :]:
            if start >= end:
                break
            pairs += [(min(a, b), max(a, b)) for a in uses[buffer] for b in uses[other] if a != b]
    return pairs


def parallelism(predecessors: list[set[int]], costs: list[float]) -> float:
    """Work over the longest path."""
    finish = [0.0] * len(costs)
    for call, cost in enumerate(costs):
        finish[call] = cost + max((finish[each] for each in predecessors[call]), default=0.0)
    return sum(costs) / max(finish)


def program_order_bytes(schedule: Schedule) -> int:
    """Greedy best fit over lifetimes on the line of program order, largest buffer first."""
    lives: dict[Buffer, tuple[int, int]] = {}
    for index, call in enumerate(schedule.calls):
        for view, _ in call.accesses():
            if schedule.slot_of(view.buffer) is None:
                lives[view.buffer] = (lives.get(view.buffer, (index, index))[0], index)
    placed: list[tuple[int, int, Buffer]] = []
    for buffer in sorted(lives, key=lambda each: (-each.nbytes, lives[each])):
        size = -(-buffer.nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        first, last = lives[buffer]
        busy = sorted(
            (start, end) for start, end, other in placed if lives[other][0] <= last and first <= lives[other][1]
        )
        best, cursor, offset = None, 0, 0
        for start, end in busy:
            if start - cursor >= size and (best is None or start - cursor < best):
                best, offset = start - cursor, cursor
            cursor = max(cursor, end)
        if best is None:
            offset = cursor
        placed.append((offset, offset + size, buffer))
    return max(end for _, end, _ in placed)
