"""Ranges of bytes: which of them meet, what is left of one, and an index of many.

Law: arithmetic on ranges; knows no accesses. Imports ``ir`` and below.

Ranges are contiguous or rows of equal blocks (a column of a matrix). Rows of blocks are *compared* exactly with
contiguous ranges and with rows of the same stride, else by their extent. They are not *cut*: a row of blocks takes
out only a row equal to it, and only a contiguous range around all of it takes out a row of blocks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from math import prod
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

from asyncjit.ir import Access, Call, Copy, Operand, View
from asyncjit.symbols import Int, same

__all__ = ["HasRegion", "Region", "RegionIndex", "outside_accesses", "overlap", "region_of", "without"]


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


def outside_accesses(call: Call | Copy) -> Iterator[tuple[View, Access]]:
    """The bytes that a call touches, for whoever takes what is written for overwritten.

    Where a view is an extent with bytes in between that the call does not touch, as of ``a[::2, ::3]``, writing leaves
    what is there: that counts as reading it too, so that neither an earlier write nor its failure is forgotten.
    """
    for operand, (view, access) in zip(call.operands, call.accesses(), strict=True):
        if access is Access.WRITE and view.count == 1 and _has_gaps(operand):
            access = Access.READ_WRITE
        yield view, access


def _has_gaps(operand: Operand) -> bool:
    if operand.is_symbolic:
        return _may_have_gaps(operand)
    shape, strides = cast("tuple[int, ...]", operand.shape), cast("tuple[int, ...]", operand.strides)
    steps = [(extent, abs(stride)) for extent, stride in zip(shape, strides, strict=True) if stride]
    itemsize = operand.view.nbytes - sum((extent - 1) * stride for extent, stride in steps)
    return operand.view.nbytes > itemsize * prod(extent for extent, _ in steps)


def _may_have_gaps(operand: Operand) -> bool:
    """Whether there are values with which a symbolic operand is neither a block nor a row of equal blocks."""
    block: Int = operand.itemsize
    rows = 0
    for extent, stride in zip(reversed(operand.shape), reversed(operand.strides), strict=True):
        if same(extent, 1):
            continue
        if rows == 0 and same(stride, block):
            block = block * extent
        else:
            rows += 1
    return rows > 1


def overlap(a: Region, b: Region) -> bool:
    """Whether ``a`` and ``b`` share a byte; exact unless both are rows of blocks with unequal strides."""
    # Unpacked, not by name: this is the innermost step of every look-up.
    key, start, stop, block, stride = a
    other_key, other_start, other_stop, other_block, other_stride = b
    if start >= other_stop or other_start >= stop or start >= stop or other_start >= other_stop or key != other_key:
        return False
    if not block:
        return not other_block or _row_meets_range(b, a)
    if not other_block:
        return _row_meets_range(a, b)
    return stride != other_stride or _rows_meet(a, b)


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


#: A scan of eight takes about as long as a bisection with its bookkeeping.
FEW = 8


class HasRegion(Protocol):
    @property
    def region(self) -> Region: ...


R = TypeVar("R", bound=HasRegion)


class RegionIndex(Generic[R]):
    """Things with a region of one buffer, found by range.

    A few are a plain list. Beyond ``FEW`` they are sorted by start within classes of similar length: what is in class
    ``c`` is shorter than ``1 << c``, so only what starts less than that before a range can meet it. A look-up then
    costs a bisection a class and its hits, even where 10,000 ranges of one buffer are live.
    """

    __slots__ = ("classes", "few")

    def __init__(self) -> None:
        self.few: list[R] = []
        self.classes: dict[int, tuple[list[int], list[R]]] = {}

    def __bool__(self) -> bool:
        return bool(self.few or self.classes)

    def all(self) -> list[R]:
        return [*self.few, *(item for _, items in self.classes.values() for item in items)]

    def add(self, item: R) -> None:
        if self.classes:
            self._classify(item)
            return
        self.few.append(item)
        if len(self.few) > FEW:
            for each in self.few:
                self._classify(each)
            self.few.clear()

    def remove(self, item: R) -> None:
        if not self.classes:
            self.few.remove(item)
            return
        region = item.region
        size = (region.stop - region.start).bit_length()
        starts, items = self.classes[size]
        if len(items) == 1:
            del self.classes[size]
        else:
            place = items.index(item, bisect_left(starts, region.start))
            del starts[place], items[place]

    def overlapping(self, region: Region) -> list[R]:
        if not self.classes:
            return [item for item in self.few if overlap(item.region, region)]
        found: list[R] = []
        for size, (starts, items) in self.classes.items():
            first = bisect_right(starts, region.start - (1 << size))
            for item in items[first : bisect_left(starts, region.stop, first)]:
                if overlap(item.region, region):
                    found.append(item)
        return found

    def _classify(self, item: R) -> None:
        region = item.region
        size = (region.stop - region.start).bit_length()
        found = self.classes.get(size)
        if found is None:
            self.classes[size] = ([region.start], [item])
        else:
            starts, items = found
            place = bisect_right(starts, region.start)
            starts.insert(place, region.start)
            items.insert(place, item)
