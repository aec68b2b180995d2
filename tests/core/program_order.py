"""Graphs whose frames are compared, and a planner that knows the program order only, to compare them with.

Law: its own reading of lifetimes; of the code under test it knows only the words of ``ir``.
"""

from __future__ import annotations

import random

from asyncjit.ir import Buffer, Call, Schedule, Slot, SlotKind, new_buffer
from tests.core.byte_machine import call_of, whole


def align(nbytes: int) -> int:
    return -(-nbytes // 64) * 64


def recent_reads(seed: int, *, reads_max: int, reach: int) -> Schedule:
    """150 calls that each read up to ``reads_max`` of the last ``reach`` results, of very different sizes."""
    rng = random.Random(seed)
    buffers = [new_buffer("d0", 64)]
    calls: list[Call] = []
    for _ in range(150):
        recent = buffers[-reach:]
        sources = rng.sample(recent, min(len(recent), rng.randint(1, reads_max)))
        buffers.append(new_buffer("d0", rng.choice((64, 1000, 4096, 30_000, 65_536))))
        calls.append(call_of([whole(source) for source in sources], [whole(buffers[-1])]))
    return Schedule(tuple(calls), (Slot(SlotKind.INPUT, buffers[0]),))


def branches(width: int = 6, depth: int = 8) -> Schedule:
    """Branches from one input that meet at the end."""
    source, target = new_buffer("d0", 64), new_buffer("d0", 64)
    calls: list[Call] = []
    ends = []
    for branch in range(width):
        inner = source
        for level in range(depth):
            outer = new_buffer("d0", 1000 * (1 + (branch + level) % 3))
            calls.append(call_of([whole(inner)], [whole(outer)]))
            inner = outer
        ends.append(whole(inner))
    calls.append(call_of(ends, [whole(target)]))
    return Schedule(tuple(calls), (Slot(SlotKind.INPUT, source), Slot(SlotKind.OUTPUT, target)))


def spans_of(schedule: Schedule) -> dict[Buffer, tuple[int, int]]:
    """First and last call that touches each buffer which is no slot, in program order."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for index, call in enumerate(schedule.calls):
        for view, _ in call.accesses():
            if schedule.slot_of(view.buffer) is None:
                spans[view.buffer] = (spans.get(view.buffer, (index,))[0], index)
    return spans


def alive_at_once(schedule: Schedule) -> int:
    """The most bytes alive during one call: no layout for the program order is smaller."""
    spans = spans_of(schedule)
    return max(
        sum(align(buffer.nbytes) for buffer, (first, last) in spans.items() if first <= index <= last)
        for index in range(len(schedule.calls))
    )


def program_order_nbytes(schedule: Schedule) -> int:
    """Bytes that a greedy planner needs which knows the program order only: the better of largest first and best fit
    at run time, where a call takes bytes for its results before it returns those of what it used last."""
    spans = spans_of(schedule)
    return min(largest_first(spans), as_they_come(spans, len(schedule.calls)))


def largest_first(spans: dict[Buffer, tuple[int, int]]) -> int:
    """Each at the lowest offset that is free over its whole span."""
    taken: list[tuple[int, int, int, int]] = []
    for buffer, (first, last) in sorted(spans.items(), key=lambda item: -item[0].nbytes):
        size, start = align(buffer.nbytes), 0
        for low, high, *_ in sorted(each for each in taken if each[2] <= last and each[3] >= first):
            if start + size <= low:
                break
            start = max(start, high)
        taken.append((start, start + size, first, last))
    return max(high for _, high, *_ in taken)


def as_they_come(spans: dict[Buffer, tuple[int, int]], calls: int) -> int:
    """Each in the smallest hole that is there when its first call comes, else at the end of what is in use."""
    used: dict[Buffer, tuple[int, int]] = {}
    most = 0
    for index in range(calls):
        for buffer in (each for each, (first, _) in spans.items() if first == index):
            size, low, holes = align(buffer.nbytes), 0, []
            for start, end in sorted(used.values()):
                holes.append((start - low, low))
                low = end
            _, start = min((hole for hole in holes if hole[0] >= size), default=(0, low))
            used[buffer] = (start, start + size)
            most = max(most, start + size)
        used = {buffer: span for buffer, span in used.items() if spans[buffer][1] > index}
    return most
