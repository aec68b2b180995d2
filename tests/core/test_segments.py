"""The ranges of a buffer that a plan reads.

Law: accesses made by hand; which of them a plan lists is in ``test_plan``.
"""

from __future__ import annotations

from asyncjit.deps import Region
from asyncjit.ir import View, new_buffer
from asyncjit.segments import RANGES_MAX, SlotAccess, ranges_of

BUFFER = new_buffer("cpu", 10_000)


def access(slot: int, start: int, stop: int, segment: int = 0) -> SlotAccess:
    return SlotAccess(slot, View.contiguous(BUFFER, start, stop - start), segment)


def test_each_range_counts_once_and_slots_that_are_not_asked_for_do_not() -> None:
    accesses = [access(0, 0, 8), access(0, 0, 8, segment=3), access(1, 0, 8), access(0, 16, 24), access(2, 4, 8)]
    assert ranges_of(accesses, {0: 70, 2: 90}) == [Region(70, 0, 8), Region(70, 16, 24), Region(90, 4, 8)]


def test_rows_with_gaps_stay_rows() -> None:
    column = SlotAccess(0, View(BUFFER, 4, 68, block_bytes=4, stride_bytes=32, count=3), 0)
    assert ranges_of([column], {0: 7}) == [Region(7, 4, 72, 4, 32)]


def test_very_many_ranges_become_the_one_around_them() -> None:
    accesses = [access(0, 100 + 32 * row, 108 + 32 * row) for row in range(RANGES_MAX + 1)]
    assert len(ranges_of(accesses[:-1], {0: 7})) == RANGES_MAX
    assert ranges_of(accesses, {0: 7}) == [Region(7, 100, 108 + 32 * RANGES_MAX)]
