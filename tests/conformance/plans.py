"""Plans built by hand, so that the suite depends on no pass of the core.

Law: only what a test needs to say which call runs on which stream after what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from asyncjit.ir import (
    Access,
    Buffer,
    Call,
    Copy,
    Cost,
    Kernel,
    Operand,
    Schedule,
    Slot,
    SlotKind,
    new_buffer,
    operand_of,
)
from asyncjit.plan import Plan, Segment, StreamSpec

__all__ = ["PlanBuilder", "whole"]

ALIGNMENT_BYTES = 64


def whole(buffer: Buffer, dtype: str = "float32") -> Operand:
    """All of a buffer, as a vector."""
    itemsize = np.dtype(dtype).itemsize
    return operand_of(buffer, (buffer.nbytes // itemsize,), (itemsize,), dtype, itemsize)


def part(buffer: Buffer, shape: Sequence[int], strides: Sequence[int], dtype: str, offset_bytes: int = 0) -> Operand:
    return operand_of(buffer, shape, strides, dtype, np.dtype(dtype).itemsize, offset_bytes)


class PlanBuilder:
    """Calls go to the segment that was begun last; slots are numbered in the order in which they are made."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._calls: list[Call | Copy] = []
        self._slots: list[Slot] = []
        self._segments: list[tuple[int, list[int], tuple[int, ...]]] = []
        self._offsets: dict[Buffer, int] = {}
        self._nbytes = 0

    def _slot(self, kind: SlotKind, nbytes: int) -> Buffer:
        buffer = new_buffer(self.device, nbytes)
        self._slots.append(Slot(kind, buffer))
        return buffer

    def input(self, nbytes: int = 16) -> Buffer:
        return self._slot(SlotKind.INPUT, nbytes)

    def state(self, nbytes: int = 16) -> Buffer:
        return self._slot(SlotKind.STATE, nbytes)

    def output(self, nbytes: int = 16) -> Buffer:
        return self._slot(SlotKind.OUTPUT, nbytes)

    def intermediate(self, nbytes: int = 16) -> Buffer:
        buffer = new_buffer(self.device, nbytes)
        self._offsets[buffer] = self._nbytes
        self._nbytes += -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return buffer

    def segment(self, stream: int = 0, waits: Sequence[int] = ()) -> int:
        """Begin a segment and return its index."""
        self._segments.append((stream, [], tuple(waits)))
        return len(self._segments) - 1

    def call(
        self, kernel: str | Callable[..., object], *operands: Operand | Buffer, params: tuple[object, ...] = ()
    ) -> int:
        """A call that reads all operands but the last, which it writes. A callable is a user's kernel, and may read the
        last as well."""
        placed = tuple(operand if isinstance(operand, Operand) else whole(operand) for operand in operands)
        last = Access.WRITE if isinstance(kernel, str) else Access.READ_WRITE
        access = (*(Access.READ for _ in placed[1:]), last)
        if isinstance(kernel, str):
            built = Kernel(kernel, access, params)
        else:
            built = Kernel(getattr(kernel, "__name__", "kernel"), access, params, kernel)
        return self._add(Call(built, placed))

    def copy(self, source: Buffer, target: Buffer) -> int:
        return self._add(Copy(whole(target), whole(source)))

    def _add(self, call: Call | Copy) -> int:
        if not self._segments:
            self.segment()
        self._segments[-1][1].append(len(self._calls))
        self._calls.append(call)
        return len(self._calls) - 1

    def plan(self) -> Plan:
        streams = max((stream for stream, _, _ in self._segments), default=-1) + 1
        return Plan(
            schedule=Schedule(tuple(self._calls), tuple(self._slots), "built by hand"),
            streams=tuple(StreamSpec(self.device, "compute") for _ in range(streams)),
            segments=tuple(
                Segment(index, stream, tuple(calls), waits)
                for index, (stream, calls, waits) in enumerate(self._segments)
            ),
            frame_nbytes={self.device: self._nbytes},
            offsets=dict(self._offsets),
            reads=(),
            writes=(),
            cost=Cost(),
        )
