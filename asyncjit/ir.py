"""The words of a schedule: buffers, views, operands, kernels, calls.

Law: frozen data and a verifier; no behaviour beyond reading oneself. Buffers, views and operands stand in ``views``.
Imports ``views`` and below.

A **kernel** says how it accesses each operand, a **call** binds a kernel to operands, and a **schedule** is the calls
in program order together with the **slots**: the buffers that the outside binds at each replay. Every other buffer of a
schedule is an intermediate, private to one replay. Operands and the parameters of kernels may be symbolic: then each
replay has values for the schedule's ``symbols``.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from asyncjit.algebra import Symbol
from asyncjit.errors import InternalError
from asyncjit.variables import symbols_in
from asyncjit.views import Buffer, Operand, View, new_buffer, new_serial, operand_of

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

    @property
    def layout(self) -> tuple[Hashable, ...]:
        """All of it that may be symbolic: the parameters, then the layout of each operand."""
        return self.kernel.params, *(operand.layout for operand in self.operands)

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

    @property
    def layout(self) -> tuple[Hashable, ...]:
        """All of it that may be symbolic, as of a call; a copy has no parameters."""
        return (), self.target.layout, self.source_operand.layout

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

    def symbols(self) -> tuple[Symbol, ...]:
        """Those whose values each replay needs, in the order in which calls use them."""
        found: dict[Symbol, None] = {}
        for call in self.calls:
            found |= symbols_in(call.layout)
        return tuple(found)

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
