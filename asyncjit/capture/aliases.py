"""Aliases: arguments that share bytes with each other, or with state.

Law: says which bytes overlap and rewrites operands accordingly; raises nothing.

Every argument gets a slot of its own. That is right as long as no byte is reachable through two slots of which one is
written; where one is, the hazards inside the plan must be known, so the overlapping arguments become one slot (the plan
then holds for that pattern of overlaps), or become part of the state that they overlap (the plan then holds for that
storage and offset).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from asyncjit import ir
from asyncjit.capture.recorder import Input
from asyncjit.deps import Region, overlap, region_of
from asyncjit.numpy._handle import ArraySpec
from asyncjit.storage import Storage
from asyncjit.symbols import Expr, Int, lower, upper
from asyncjit.variables import has_symbols

__all__ = ["AliasGroups", "Pattern", "bytes_of", "components", "pattern_of", "region"]

#: Which arguments overlap: for each group of them, their indices with the distance of their offsets from the first's.
Pattern = tuple[tuple[tuple[int, int], ...], ...]


def region(storage: object, offset: int, spec: ArraySpec) -> Region:
    """The bytes of an array, as bytes of its storage."""
    serial: int = storage.serial  # type: ignore[attr-defined]
    return bytes_of(serial, offset, spec)


def bytes_of(serial: int, offset: Int, spec: ArraySpec) -> Region:
    """The same for any number that stands for the storage; of a symbolic array, all that it may touch."""
    low, high = spec.extent
    if isinstance(offset, Expr) or has_symbols((spec.shape, spec.strides)):
        return Region(serial, lower(offset) + low, upper(offset) + high)
    if spec.is_contiguous:
        return Region(serial, offset + low, offset + high)
    buffer = ir.Buffer(serial, spec.device, max(offset + high, 0))
    operand = ir.operand_of(buffer, spec.shape, spec.strides, spec.dtype.name, spec.itemsize, offset)
    return region_of(operand.view)


def components(regions: Sequence[Region | None]) -> list[list[int]]:
    """Indices of regions that are linked by overlaps, in ascending order; regions that stand alone are left out."""
    leader = list(range(len(regions)))

    def find(index: int) -> int:
        while leader[index] != index:
            index = leader[index]
        return index

    # A sweep in address order: only regions whose extents meet are compared, so disjoint views of one storage cost a
    # sort.
    known = [(each, index) for index, each in enumerate(regions) if each is not None]
    known.sort(key=lambda pair: pair[0][:2])
    open_regions: list[tuple[Region, int]] = []
    for each, index in known:
        open_regions = [pair for pair in open_regions if pair[0].key == each.key and pair[0].stop > each.start]
        for other, earlier in open_regions:
            if overlap(other, each):
                leader[max(find(index), find(earlier))] = min(find(index), find(earlier))
        open_regions.append((each, index))
    groups: dict[int, list[int]] = {}
    for index in range(len(regions)):
        groups.setdefault(find(index), []).append(index)
    return [group for group in groups.values() if len(group) > 1]


def pattern_of(storages: Sequence[object], offsets: Sequence[int], specs: Sequence[ArraySpec]) -> Pattern:
    """The overlaps among arguments; empty when there are none. Linear where no two share a storage."""
    seen: dict[object, int] = {}
    for storage in storages:
        seen[storage] = seen.get(storage, 0) + 1
    regions = [
        region(storage, offset, spec) if seen[storage] > 1 else None
        for storage, offset, spec in zip(storages, offsets, specs, strict=True)
    ]
    return tuple(tuple((index, offsets[index] - offsets[group[0]]) for index in group) for group in components(regions))


class AliasGroups:
    """How the arguments of one recording are bound, and what becomes of their operands."""

    def __init__(
        self, inputs: Sequence[Input], states: Mapping[Storage, ir.Buffer], calls: Iterable[ir.Call | ir.Copy]
    ) -> None:
        self._inputs = inputs
        self._touched: dict[ir.Buffer, list[Region]] = {}
        self._written_buffers: set[ir.Buffer] = set()
        self._written_regions: dict[ir.Buffer, list[Region]] = {}
        for call in calls:
            for view, access in call.accesses():
                self._touched.setdefault(view.buffer, []).append(region_of(view))
                if access.writes:
                    self._written_buffers.add(view.buffer)
                    self._written_regions.setdefault(view.buffer, []).append(region_of(view))
        #: Arguments that the calls write.
        self.written = frozenset(i for i, each in enumerate(inputs) if each.buffer in self._written_buffers)
        self.merged = False
        self._moves: dict[ir.Buffer, tuple[ir.Buffer, int]] = {}
        #: INPUT slots: buffer, name, (argument, bytes from its offset to the slot's begin).
        self.slots: list[tuple[ir.Buffer, str, tuple[int, int]]] = []
        pinned: list[tuple[int, Storage, int]] = []
        merged: dict[int, list[int]] = {}
        for group in self._groups():
            storage = inputs[group[0]].storage
            assert storage is not None
            state = states.get(storage)
            if state is not None and self._conflicts_with_state(group, state):
                for index in group:
                    self._moves[inputs[index].buffer] = (state, self._start(index))
                    pinned.append((index, storage, inputs[index].offset))
            elif len(group) > 1 and self.written.intersection(group):
                merged[group[0]] = group
        self.pinned = tuple(sorted(pinned, key=lambda each: each[0]))
        self._make_slots(merged)

    def _groups(self) -> list[list[int]]:
        """Arguments linked by overlaps, and every argument alone that shares its storage with nothing."""
        regions = [
            None if each.storage is None else region(each.storage, each.offset, each.spec) for each in self._inputs
        ]
        linked = components(regions)
        together = {index for group in linked for index in group}
        alone = [[i] for i, each in enumerate(regions) if each is not None and i not in together]
        return linked + alone

    def _start(self, index: int) -> int:
        """The byte of its storage at which the slot of an argument begins."""
        each = self._inputs[index]
        return each.offset + each.spec.extent[0]

    def _conflicts_with_state(self, group: Sequence[int], state: ir.Buffer) -> bool:
        """Whether a byte of the arguments is also touched as state, and one side writes it."""
        writes = bool(self.written.intersection(group))
        regions = self._touched.get(state, []) if writes else self._written_regions.get(state, [])
        for index in group:
            each = self._inputs[index]
            mine = region(each.storage, each.offset, each.spec)._replace(key=state.serial)
            if any(overlap(mine, other) for other in regions):
                return True
        return False

    def _make_slots(self, merged: Mapping[int, Sequence[int]]) -> None:
        self.merged = bool(merged)
        hidden = {index for index, _, _ in self.pinned}
        hidden.update(index for first, group in merged.items() for index in group if index != first)
        for index, each in enumerate(self._inputs):
            if index in hidden:
                continue
            if index not in merged:
                self.slots.append((each.buffer, each.name, (index, each.spec.extent[0])))
                continue
            group = merged[index]
            start = min(self._start(member) for member in group)
            stop = max(self._inputs[member].offset + self._inputs[member].spec.extent[1] for member in group)
            buffer = ir.new_buffer(each.buffer.device, stop - start)
            for member in group:
                self._moves[self._inputs[member].buffer] = (buffer, self._start(member) - start)
            name = " = ".join(self._inputs[member].name for member in group)
            self.slots.append((buffer, name, (index, start - each.offset)))

    def rewrite(self, calls: list[ir.Call | ir.Copy]) -> list[ir.Call | ir.Copy]:
        """The calls with every operand of a merged or pinned argument on the buffer that stands for it now."""
        if not self._moves:
            return calls
        return [self._rewrite_call(call) for call in calls]

    def _rewrite_call(self, call: ir.Call | ir.Copy) -> ir.Call | ir.Copy:
        if isinstance(call, ir.Copy):
            return ir.Copy(self._rewrite(call.target), self._rewrite(call.source_operand), call.source)
        return ir.Call(call.kernel, tuple(map(self._rewrite, call.operands)), call.cost, call.source)

    def _rewrite(self, operand: ir.Operand) -> ir.Operand:
        move = self._moves.get(operand.view.buffer)
        if move is None:
            return operand
        buffer, shift = move
        itemsize = np.dtype(operand.dtype).itemsize
        offset = operand.offset_bytes + shift
        return ir.operand_of(buffer, operand.shape, operand.strides, operand.dtype, itemsize, offset)
