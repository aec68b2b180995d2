"""What a symbolic program is for the values of one replay: which bytes it touches, and how large its outputs are.

Law: evaluation of what a plan and a program say; binds nothing and runs nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import prod
from typing import Any

from asyncjit.algebra import Symbol
from asyncjit.ir import Buffer, Operand, operand_of
from asyncjit.ops import dtype_named
from asyncjit.plan import SlotAccess
from asyncjit.runs import Footprint, Touch
from asyncjit.symbols import same
from asyncjit.variables import compiled, has_symbols
from asyncjit.views import View

__all__ = ["Sizes", "SymbolicFootprint", "Values", "touch_of"]

#: The values of the symbols of a program, in its order.
Values = Sequence[int]

#: (segment, accesses that read, accesses that write), each with the position of its slot among the keys of a run.
Groups = Sequence[tuple[int, Sequence[tuple[SlotAccess, int]], Sequence[tuple[SlotAccess, int]]]]


def touch_of(view: View, position: int) -> Touch:
    """The bytes of a view of the slot at ``position``."""
    strided = view.count > 1
    return Touch(
        position,
        view.offset_bytes,
        view.offset_bytes + view.nbytes,
        view.block_bytes if strided else 0,
        view.stride_bytes if strided else 0,
    )


class SymbolicFootprint:
    """The footprint of a plan with symbols; ``at`` gives that of one replay, exact where the bounding one is not."""

    def __init__(self, bounding: Footprint, groups: Groups, symbols: Sequence[Symbol]) -> None:
        self._bounding = bounding
        self._accesses: list[tuple[int, bool, Operand]] = []
        self._groups = [
            (segment, [self._touch(*access) for access in reads], [self._touch(*access) for access in writes])
            for segment, reads, writes in groups
        ]
        tree = tuple(_bytes(operand) if flat else operand.layout for _, flat, operand in self._accesses)
        self._evaluate = compiled(tree, symbols)

    def _touch(self, access: SlotAccess, position: int) -> Touch | int:
        """The touch itself, or the index of the access that gives it."""
        if access.operand is None:
            return touch_of(access.view, position)
        self._accesses.append((position, _is_flat(access.operand), access.operand))
        return len(self._accesses) - 1

    def at(self, values: Sequence[int]) -> Footprint:
        """What the plan touches with these values of its symbols."""
        touches = [
            Touch(position, given[0], given[1], 0, 0) if flat else _evaluated(position, operand, given)
            for (position, flat, operand), given in zip(self._accesses, self._evaluate(*values), strict=True)
        ]
        groups = tuple(
            (segment, tuple(_each(reads, touches)), tuple(_each(writes, touches)))
            for segment, reads, writes in self._groups
        )
        whole = self._bounding
        return Footprint(groups, whole.read_set, whole.read_set_segment, whole.fronts)


def _each(listed: Sequence[Touch | int], touches: Sequence[Touch]) -> list[Touch]:
    return [touches[each] if isinstance(each, int) else each for each in listed]


def _itemsize(name: str) -> int:
    dtype = dtype_named(name)
    assert dtype is not None
    return dtype.itemsize


def _is_flat(operand: Operand) -> bool:
    """Whether its elements lie side by side, whatever the values."""
    expected: Any = _itemsize(operand.dtype)
    for extent, stride in zip(reversed(operand.shape), reversed(operand.strides), strict=True):
        if not (same(stride, expected) or same(extent, 1)):
            return False
        expected = expected * extent
    return True


def _bytes(operand: Operand) -> tuple[Hashable, ...]:
    size: Any = prod(operand.shape)
    return operand.offset_bytes, operand.offset_bytes + size * _itemsize(operand.dtype)


def _evaluated(position: int, operand: Operand, layout: tuple[Any, ...]) -> Touch:
    offset, shape, strides = layout
    buffer: Buffer = operand.view.buffer
    known = operand_of(buffer, shape, strides, operand.dtype, _itemsize(operand.dtype), offset)
    return touch_of(known.view, position)


class Sizes:
    """The shapes of outputs with symbolic extents."""

    def __init__(self, outputs: Mapping[int, tuple[Hashable, str]], symbols: Sequence[Symbol]) -> None:
        """``outputs``: position among the outputs -> shape and dtype."""
        self._outputs = [(index, dtype) for index, (shape, dtype) in outputs.items() if has_symbols(shape)]
        self._evaluate = compiled(tuple(shape for shape, _ in outputs.values() if has_symbols(shape)), symbols)

    def at(self, values: Sequence[int]) -> list[tuple[int, tuple[int, ...], str, int]]:
        """Position, shape, dtype and bytes of each."""
        return [
            (index, shape, dtype, prod(shape) * _itemsize(dtype))
            for (index, dtype), shape in zip(self._outputs, self._evaluate(*values), strict=True)
        ]
