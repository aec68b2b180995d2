"""The words of a schedule: buffers, views, operands, kernels, calls.

Law: frozen data and a verifier; no behaviour beyond reading oneself. Imports ``errors`` only.

A **buffer** is storage on one device, known by a serial number that is never used again. A **view** is the
set of bytes of a buffer that an operand may touch. An **operand** is a view with the shape, strides and dtype
that a kernel sees. A **kernel** says how it accesses each operand, a **call** binds a kernel to operands, and
a **schedule** is the calls in program order together with the **slots**: the buffers that the outside binds at
each replay. Every other buffer of a schedule is an intermediate, private to one replay.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from asyncjit.errors import InternalError

__all__ = [
    "Access",
    "Buffer",
    "Call",
    "Copy",
    "Cost",
    "Kernel",
    "Operand",
    "Schedule",
    "Slot",
    "SlotKind",
    "View",
    "new_buffer",
    "new_serial",
    "operand_of",
    "verify_schedule",
]

_serials = itertools.count(1)

#: The next serial number; unique in this process, never reused. Atomic.
new_serial = _serials.__next__


class Access(enum.Enum):
    """What a kernel does with an operand. WRITE promises that every element is written and none is read first."""

    READ = "r"
    WRITE = "w"
    READ_WRITE = "rw"

    @property
    def reads(self) -> bool:
        return self is not Access.WRITE

    @property
    def writes(self) -> bool:
        return self is not Access.READ


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
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    offset_bytes: int


def operand_of(
    buffer: Buffer, shape: Sequence[int], strides: Sequence[int], dtype: str, itemsize: int, offset_bytes: int = 0
) -> Operand:
    """An operand and the tightest view of the bytes it touches: one block, one row of blocks, or the extent."""
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


@dataclass(frozen=True, slots=True)
class Kernel:
    """Code by name, with its access to each operand. Runs nothing by itself.

    ``params`` are the values fixed at capture (an axis, a constant); ``implementation`` is the callable of a
    user's own kernel, opaque to the core.
    """

    name: str
    access: tuple[Access, ...]
    params: tuple[Hashable, ...] = ()
    implementation: object | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of one call: floating-point operations and bytes moved. Zero means unknown."""

    flops: int = 0
    nbytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.nbytes + other.nbytes)


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel bound to operands: the unit that is ordered and placed. ``source`` is ``file:line`` of its origin."""

    kernel: Kernel
    operands: tuple[Operand, ...]
    cost: Cost = Cost()
    source: str = ""

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def device(self) -> str:
        return self.operands[0].view.buffer.device

    @property
    def lane(self) -> str:
        return "compute"

    def accesses(self) -> Iterator[tuple[View, Access]]:
        return ((operand.view, access) for operand, access in zip(self.operands, self.kernel.access, strict=True))


@dataclass(frozen=True, slots=True)
class Copy:
    """Bytes from ``source`` to ``target``, same shape and dtype, maybe from one device to another.

    Runs on the target's device, in a lane of its own, so that copies and kernels never share a stream.
    """

    target: Operand
    source_operand: Operand
    source: str = ""

    @property
    def name(self) -> str:
        return "copy"

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.target, self.source_operand)

    @property
    def cost(self) -> Cost:
        return Cost(0, 2 * self.target.view.nbytes)

    @property
    def device(self) -> str:
        return self.target.view.buffer.device

    @property
    def lane(self) -> str:
        return "copy"

    def accesses(self) -> Iterator[tuple[View, Access]]:
        yield self.target.view, Access.WRITE
        yield self.source_operand.view, Access.READ


class SlotKind(enum.Enum):
    """Who binds a slot: the caller (INPUT), the capture (STATE), or the replay, with a new buffer (OUTPUT)."""

    INPUT = "input"
    STATE = "state"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Slot:
    """A binding position. ``buffer`` stands for whatever is bound; its ``nbytes`` is the extent that is needed."""

    kind: SlotKind
    buffer: Buffer
    name: str = ""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Calls in program order, exactly as captured, and the slots that the outside binds."""

    calls: tuple[Call | Copy, ...]
    slots: tuple[Slot, ...] = ()
    name: str = ""
    _by_buffer: dict[Buffer, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._by_buffer.update({slot.buffer: index for index, slot in enumerate(self.slots)})

    def slot_of(self, buffer: Buffer) -> int | None:
        """The slot that ``buffer`` stands for, or None when it is an intermediate."""
        return self._by_buffer.get(buffer)

    def intermediates(self) -> tuple[Buffer, ...]:
        """Buffers private to one replay, in the order of their first use."""
        found: dict[Buffer, None] = {}
        for call in self.calls:
            for view, _ in call.accesses():
                if view.buffer not in self._by_buffer:
                    found.setdefault(view.buffer)
        return tuple(found)


def verify_schedule(schedule: Schedule) -> None:
    """Check what every later pass relies on.

    Raises:
        InternalError: a slot appears twice, an operand leaves its buffer, a call has the wrong number of
            operands, or two operands that a call writes overlap.
    """

    def check(condition: bool, message: str) -> None:
        if not condition:
            raise InternalError(f"schedule {schedule.name!r}: {message}")

    check(len(schedule._by_buffer) == len(schedule.slots), "one buffer stands in two slots")
    for index, call in enumerate(schedule.calls):
        where = f"call {index} ({call.name})"
        check(len(call.operands) > 0, f"{where} has no operand")
        if isinstance(call, Call):
            given, expected = len(call.operands), len(call.kernel.access)
            check(given == expected, f"{where} has {given} operands, its kernel declares {expected}")
        written: list[View] = []
        for operand, (view, access) in zip(call.operands, call.accesses(), strict=True):
            end = view.offset_bytes + view.nbytes
            inside = view.offset_bytes >= 0 and end <= view.buffer.nbytes
            check(inside, f"{where} touches bytes {view.offset_bytes}:{end} of a buffer of {view.buffer.nbytes}")
            check(len(operand.shape) == len(operand.strides), f"{where} has shape and strides of unequal length")
            blocks = (view.count - 1) * view.stride_bytes + view.block_bytes if view.count else 0
            check(blocks == view.nbytes, f"{where} has a view whose blocks span {blocks}, not {view.nbytes} bytes")
            if access.writes:
                for other in written:
                    apart = (
                        other.buffer is not view.buffer
                        or other.offset_bytes >= end
                        or view.offset_bytes >= other.offset_bytes + other.nbytes
                    )
                    check(apart, f"{where} writes two operands that overlap")
                written.append(view)
