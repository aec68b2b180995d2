"""Buffers, views and operands: which bytes a call touches.

Law: frozen data, and how an operand follows from a layout. Imports ``variables`` and below.

A **buffer** is storage on one device, known by a serial number that is never used again. A **view** is the set of bytes
of a buffer that an operand may touch. An **operand** is a view with the shape, strides and dtype that a kernel sees.

Shape, strides and offset of an operand may be symbolic. Its view is then all bytes that it may touch, whatever the
values, so that whoever orders calls of one schedule, or gives them memory, need not know of symbols; and buffers have
the size that they need at most.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from asyncjit.symbols import Int, bounds, lower, same, upper
from asyncjit.variables import has_symbols

__all__ = ["Buffer", "Operand", "View", "new_buffer", "new_serial", "operand_of"]

_serials = itertools.count(1)

#: The next serial number; unique in this process, never reused. Atomic.
new_serial = _serials.__next__


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """``nbytes`` bytes of storage on ``device``. Compared by identity; ``serial`` is never used again."""

    serial: int
    device: str
    nbytes: int


def new_buffer(device: str, nbytes: int) -> Buffer:
    return Buffer(new_serial(), device, nbytes)


@dataclass(frozen=True, slots=True)
class View:
    """Bytes of ``buffer``: ``count`` blocks of ``block_bytes``, ``stride_bytes`` apart, from ``offset_bytes``.

    ``nbytes`` is the extent from the first byte to the last: ``(count - 1) * stride_bytes + block_bytes``.
    A contiguous view has one block. A shape that is not such a row of blocks is described by its extent.
    """

    buffer: Buffer
    offset_bytes: int
    nbytes: int
    block_bytes: int
    stride_bytes: int
    count: int

    @classmethod
    def contiguous(cls, buffer: Buffer, offset_bytes: int = 0, nbytes: int | None = None) -> View:
        size = buffer.nbytes - offset_bytes if nbytes is None else nbytes
        return cls(buffer, offset_bytes, size, size, size, 1)

    @property
    def is_contiguous(self) -> bool:
        return self.count <= 1

    @property
    def is_whole(self) -> bool:
        return self.count <= 1 and self.offset_bytes == 0 and self.nbytes == self.buffer.nbytes


@dataclass(frozen=True, slots=True)
class Operand:
    """What a kernel sees: ``shape``, ``strides`` (bytes) and ``dtype`` (NumPy's name) of elements of a view.

    ``offset_bytes`` is the place of element ``[0, …, 0]`` in the buffer; with negative strides it is not the
    first byte of the view.
    """

    view: View
    shape: tuple[Int, ...]
    strides: tuple[Int, ...]
    dtype: str
    offset_bytes: Int

    @property
    def layout(self) -> tuple[Hashable, ...]:
        """All of it that may be symbolic: offset, shape and strides."""
        return self.offset_bytes, self.shape, self.strides

    @property
    def is_symbolic(self) -> bool:
        return has_symbols(self.layout)

    @property
    def itemsize(self) -> int:
        """Bytes of an element, which NumPy's names of dtypes end in, in bits; ``bool`` has one."""
        bits = "".join(filter(str.isdigit, self.dtype))
        return int(bits) // 8 if bits else 1

    def stays_inside(self, itemsize: int | None = None) -> bool:
        """Whether all elements, of which ``itemsize`` bytes count, lie in the view, as far as the ranges settle it."""
        low, high = _reach(self.shape, self.strides, self.offset_bytes, self.itemsize if itemsize is None else itemsize)
        inside = low >= self.view.offset_bytes and high <= self.view.offset_bytes + self.view.nbytes
        return inside or any(same(extent, 0) for extent in self.shape)


def operand_of(
    buffer: Buffer, shape: Sequence[Int], strides: Sequence[Int], dtype: str, itemsize: int, offset_bytes: Int = 0
) -> Operand:
    """An operand and the tightest view of the bytes it touches: one block, one row of blocks, or the extent."""
    if has_symbols((offset_bytes, *shape, *strides)):
        return _symbolic_operand(buffer, shape, strides, dtype, itemsize, offset_bytes)
    return _known_operand(buffer, shape, strides, dtype, itemsize, offset_bytes)  # type: ignore[arg-type]


def _known_operand(
    buffer: Buffer, shape: Sequence[int], strides: Sequence[int], dtype: str, itemsize: int, offset_bytes: int
) -> Operand:
    low = offset_bytes
    dims: list[tuple[int, int]] = []
    empty = False
    for extent, stride in zip(shape, strides, strict=True):
        empty = empty or extent == 0
        if extent > 1 and stride != 0:
            if stride < 0:
                low += (extent - 1) * stride
            dims.append((abs(stride), extent))
    if empty:
        view = View(buffer, min(offset_bytes, buffer.nbytes), 0, 0, 0, 0)
    else:
        dims.sort()
        block = itemsize
        while dims and dims[0][0] == block:
            block = dims[0][0] * dims[0][1]
            dims.pop(0)
        if not dims:
            view = View(buffer, low, block, block, block, 1)
        else:
            stride, count = dims[0]
            for next_stride, next_count in dims[1:]:
                if next_stride != stride * count:
                    count = 0
                    break
                count *= next_count
            if count and stride >= block:
                view = View(buffer, low, (count - 1) * stride + block, block, stride, count)
            else:
                dims = [(abs(s), e) for s, e in zip(strides, shape, strict=True) if e > 1]
                extent_bytes = sum(s * (e - 1) for s, e in dims) + itemsize
                view = View(buffer, low, extent_bytes, extent_bytes, extent_bytes, 1)
    return Operand(view, tuple(shape), tuple(strides), dtype, offset_bytes)


def _symbolic_operand(
    buffer: Buffer, shape: Sequence[Int], strides: Sequence[Int], dtype: str, itemsize: int, offset_bytes: Int
) -> Operand:
    """An operand and the range around all bytes that it touches for any values; no more than the buffer."""
    start, stop = _reach(shape, strides, offset_bytes, itemsize)
    start, stop = max(start, 0), min(stop, buffer.nbytes)
    if any(same(extent, 0) for extent in shape) or stop <= start:
        start, stop = min(start, buffer.nbytes), min(start, buffer.nbytes)
    view = View.contiguous(buffer, start, stop - start)
    return Operand(view, tuple(shape), tuple(strides), dtype, offset_bytes)


def _reach(shape: Sequence[Int], strides: Sequence[Int], offset_bytes: Int, itemsize: int) -> tuple[int, int]:
    """The range around all bytes of the elements, for any values of the symbols."""
    low, high = offset_bytes, offset_bytes + itemsize
    slack = 0
    for extent, stride in zip(shape, strides, strict=False):
        reach = (extent - 1) * stride
        if lower(stride) >= 0:
            high = high + reach
        elif upper(stride) <= 0:
            low = low + reach
        else:
            slack += max(map(abs, bounds(reach)))
    return lower(low) - slack, upper(high) + slack
