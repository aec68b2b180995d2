"""Byte ranges against sets of bytes."""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import given

from asyncjit.ir import View, new_buffer
from asyncjit.regions import Region, RegionIndex, overlap, region_of, without


def members(region: Region) -> set[int]:
    if not region.block:
        return set(range(region.start, region.stop))
    starts = range(region.start, region.stop, region.stride)
    return {byte for start in starts for byte in range(start, start + region.block)}


spans = st.builds(lambda start, size: Region(1, start, start + size), st.integers(0, 30), st.integers(0, 12))


@st.composite
def rows(draw: st.DrawFn, stride: int | None = None) -> Region:
    step = draw(st.integers(2, 7)) if stride is None else stride
    block, count, start = draw(st.integers(1, step - 1)), draw(st.integers(2, 5)), draw(st.integers(0, 20))
    return Region(1, start, start + (count - 1) * step + block, block, step)


@given(spans, spans)
def test_ranges_overlap_exactly_where_they_share_a_byte(a: Region, b: Region) -> None:
    assert overlap(a, b) == bool(members(a) & members(b))


@given(rows(), spans)
def test_a_row_and_a_range_overlap_exactly_where_they_share_a_byte(row: Region, span: Region) -> None:
    assert overlap(row, span) == overlap(span, row) == bool(members(row) & members(span))


@given(rows(5), rows(5))
def test_rows_of_one_stride_overlap_exactly_where_they_share_a_byte(a: Region, b: Region) -> None:
    assert overlap(a, b) == bool(members(a) & members(b))


@given(rows(4), rows(6))
def test_rows_of_unequal_strides_never_miss_an_overlap(a: Region, b: Region) -> None:
    assert overlap(a, b) or not members(a) & members(b)


def test_two_columns_of_a_matrix_are_apart() -> None:
    assert not overlap(Region(1, 0, 28, 4, 8), Region(1, 4, 32, 4, 8))


def test_other_buffers_never_overlap() -> None:
    assert not overlap(Region(1, 0, 8), Region(2, 0, 8))


@given(st.one_of(spans, rows(5)), st.one_of(spans, rows(5)))
def test_what_is_left_of_a_range_is_the_bytes_not_taken_out(old: Region, new: Region) -> None:
    rest = without(old, new)
    if rest is None:
        untouched = not members(old) & members(new)
        assert untouched or (old.block or new.block), "only rows of blocks may stay whole"
    else:
        assert set().union(*map(members, rest)) == members(old) - members(new)
        assert all(members(piece) for piece in rest)


def test_a_view_becomes_its_bytes() -> None:
    buffer = new_buffer("cpu", 64)
    assert region_of(View.contiguous(buffer, 8, 16)) == Region(buffer.serial, 8, 24)
    assert region_of(View(buffer, 4, 20, 4, 8, 3)) == Region(buffer.serial, 4, 24, 4, 8)


def test_blocks_that_touch_are_one_range() -> None:
    buffer = new_buffer("cpu", 64)
    assert region_of(View(buffer, 4, 12, 4, 4, 3)) == Region(buffer.serial, 4, 16)


def test_a_view_can_be_moved_to_what_is_bound() -> None:
    assert region_of(View.contiguous(new_buffer("cpu", 64), 8, 16), key=7, shift=100) == Region(7, 108, 124)


@dataclass(frozen=True, eq=False)
class Item:
    region: Region


@given(st.lists(st.one_of(spans.filter(lambda span: span.start < span.stop), rows()), max_size=8), st.data())
def test_an_index_finds_what_a_scan_finds(regions: list[Region], data: st.DataObject) -> None:
    index: RegionIndex[Item] = RegionIndex()
    items = [Item(region) for region in regions for _ in range(3)]
    for item in items:
        index.add(item)
    for item in data.draw(st.permutations(items)):
        assert len(index.all()) == len(items)
        assert set(index.all()) == set(items)
        probe = data.draw(st.one_of(spans, rows()))
        assert set(index.overlapping(probe)) == {other for other in items if overlap(other.region, probe)}
        index.remove(item)
        items.remove(item)
    assert not index
