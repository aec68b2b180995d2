"""Ranges of bytes: which of them meet, what is left of one, and an index of many.

Law: arithmetic on ranges; knows no accesses. Imports ``ir`` and below.

Ranges are contiguous or rows of equal blocks (a column of a matrix). Rows of blocks are *compared* exactly with
contiguous ranges and with rows of the same stride, else by their extent. They are not *cut*: a row of blocks takes
out only a row equal to it, and only a contiguous range around all of it takes out a row of blocks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, NamedTuple, Protocol, TypeVar

from asyncjit.ir import View

__all__ = ["HasRegion", "Region", "RegionIndex", "overlap", "region_of", "without"]


class Region(NamedTuple):
    """Bytes ``[start, stop)`` of buffer ``key``; with ``block``, only the blocks of that length ``stride`` apart.

    A row of blocks ends with a whole block: ``stop - start - block`` is a multiple of ``stride``.
    """

    key: int
    start: int
    stop: int
    block: int = 0
    stride: int = 0


def region_of(view: View, key: int | None = None, shift: int = 0) -> Region:
    """The bytes of ``view``, as bytes of buffer ``key`` (default: its own serial), moved up by ``shift``."""
    start = view.offset_bytes + shift
    if key is None:
        key = view.buffer.serial
    if view.count <= 1 or view.stride_bytes <= view.block_bytes:
        return Region(key, start, start + view.nbytes)
    return Region(key, start, start + view.nbytes, view.block_bytes, view.stride_bytes)


def overlap(a: Region, b: Region) -> bool:
    """Whether ``a`` and ``b`` share a byte; exact unless both are rows of blocks with unequal strides."""
    if a.key != b.key or max(a.start, b.start) >= min(a.stop, b.stop):
        return False
    if not a.block:
        return not b.block or _row_meets_range(b, a)
    if not b.block:
        return _row_meets_range(a, b)
    return a.stride != b.stride or _rows_meet(a, b)


def _row_meets_range(row: Region, span: Region) -> bool:
    first = max(span.start, row.start) - row.start
    stop = min(span.stop, row.stop) - row.start
    inside_block = first % row.stride < row.block
    return inside_block or (first // row.stride + 1) * row.stride < stop


def _rows_meet(a: Region, b: Region) -> bool:
    """Blocks ``i`` of a and ``j`` of b meet iff, with ``t = i - j``: shift - a.block < t * stride < shift + b.block."""
    stride, shift = a.stride, b.start - a.start
    last_a = (a.stop - a.start - a.block) // stride
    last_b = (b.stop - b.start - b.block) // stride
    lowest = max((shift - a.block) // stride + 1, -last_b)
    highest = min(-((-shift - b.block) // stride) - 1, last_a)
    return lowest <= highest


def without(old: Region, new: Region) -> tuple[Region, ...] | None:
    """What is left of ``old`` when ``new`` is taken out; None when it stays as it is."""
    if old.start >= new.stop or new.start >= old.stop:
        return None
    if old == new or (not new.block and new.start <= old.start and old.stop <= new.stop):
        return ()
    if old.block or new.block:
        return None
    left = (old._replace(stop=new.start),) if old.start < new.start else ()
    return (*left, old._replace(start=new.stop)) if new.stop < old.stop else left


class HasRegion(Protocol):
    @property
    def region(self) -> Region: ...


R = TypeVar("R", bound=HasRegion)


class RegionIndex(Generic[R]):
    """Entries of one buffer, found by range: sorted by start within classes of similar length.

    An entry of the class ``c`` is shorter than ``1 << c``, so only those that start less than that before a range can
    meet it: a look-up costs a bisection a class and its hits, even where 10,000 ranges of one buffer are live.
    """

    __slots__ = ("classes",)

    def __init__(self) -> None:
        self.classes: dict[int, tuple[list[int], list[R]]] = {}

    def add(self, entry: R) -> None:
        region = entry.region
        size = (region.stop - region.start).bit_length()
        found = self.classes.get(size)
        if found is None:
            self.classes[size] = ([region.start], [entry])
        else:
            starts, entries = found
            place = bisect_right(starts, region.start)
            starts.insert(place, region.start)
            entries.insert(place, entry)

    def remove(self, entry: R) -> None:
        region = entry.region
        size = (region.stop - region.start).bit_length()
        starts, entries = self.classes[size]
        if len(entries) == 1:
            del self.classes[size]
        else:
            place = entries.index(entry, bisect_left(starts, region.start))
            del starts[place], entries[place]

    def overlapping(self, region: Region) -> list[R]:
        found: list[R] = []
        for size, (starts, entries) in self.classes.items():
            first = bisect_right(starts, region.start - (1 << size))
            for entry in entries[first : bisect_left(starts, region.stop, first)]:
                if overlap(entry.region, region):
                    found.append(entry)
        return found
