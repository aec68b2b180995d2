"""A trial: one statement of the serial run, carried out on copies.

Law: what a statement reads, writes and computes, in NumPy; what follows from its outcome is the oracle's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncjit.ops import REGISTRY
from asyncjit.testing.soak.cells import Cell
from asyncjit.testing.soak.kernels import breaks_on, churned, row_breaks, stirred

__all__ = ["Key", "Trial"]

#: Of an array: what it is of, its number, and its part; see ``Source``.
Key = tuple[str, int, int]


class Trial:
    """One statement run on copies: what it reads, writes and computes.

    ``generators`` are those of ``cells`` that it may draw from. ``may_fail``: it touches void elements. ``must_fail``:
    they reach a user's kernel or something that outlives it; reads whose result nobody uses are not made. ``breaks``: a
    kernel breaks on its values.
    """

    def __init__(self, cells: dict[Key, Cell], generators: dict[int, Cell], dtype: str) -> None:
        self.cells = cells
        self.generators = generators
        self.dtype = dtype
        self.outputs: list[Cell] = []
        self.writes: list[Cell] = []
        self.must_fail = self.may_fail = self.breaks = False

    def _read(self, cell: Cell, *, is_used: bool = False) -> np.ndarray:
        if cell.is_outside:
            self.may_fail |= bool(cell.root.stained[cell.hull].any())
        self.may_fail |= bool(cell.void.any())
        self.must_fail |= is_used and bool(cell.stale.any())
        return cell.values

    def combine(self, operation: str, a: Cell, b: Cell | float) -> Cell:
        void = a.stale.copy()
        others: Any = b
        if isinstance(b, Cell):
            void |= b.stale
            others = self._read(b)
        if operation == "matmul":
            void[...] = void.any()
        return Cell.of(getattr(np, operation)(self._read(a), others), void)

    def fold(self, operation: str, a: Cell, axis: int) -> Cell:
        void = np.asarray(a.stale.any(axis=axis))
        return Cell.of(getattr(np, operation)(self._read(a), axis=axis), void)

    def move(self, a: Cell, device: int) -> Cell:
        return Cell.of(self._read(a).copy(), a.stale.copy())

    def draw(self, generator: int, shape: tuple[int, ...]) -> Cell:
        state = self.generators[generator]
        values = self._read(state, is_used=True)
        name, params = ("random_integers", (-9, 40)) if self.dtype == "int64" else ("random_uniform", ())
        drawn = np.empty(shape, self.dtype)
        REGISTRY[name].kernel((*params, shape, self.dtype), ())(values.copy(), drawn)
        # Two elements a block, of which the state counts the next.
        values[1] += np.uint64(-(-drawn.size // 2))
        made = Cell.of(drawn, np.full(shape, state.stale.any()))
        self._wrote(state, state.stale)
        return made

    def spread(self, operation: str, a: Cell, b: Cell | float, axis: int) -> Cell:
        return self.combine(operation, a, b)

    def meet(self, operation: str, a: Cell, axis: int) -> Cell:
        return self.fold(operation, a, axis)

    def share(self, operation: str, shards: tuple[Cell, Cell], operand: Cell, axis: int) -> None:
        parts = [operand[:2], operand[2:]] if axis == 0 else [operand[:, :2], operand[:, 2:]]
        # All of the operand is read before anything is written.
        read = [
            Cell.of(self._read(part, is_used=shard.is_outside).copy(), part.stale)
            for shard, part in zip(shards, parts, strict=True)
        ]
        for shard, part in zip(shards, read, strict=True):
            self.update(operation, shard, part)

    def store(self, target: Cell, value: Cell) -> None:
        target.values[...] = self._read(value, is_used=target.is_outside)
        self._wrote(target, value.stale)

    def update(self, operation: str, target: Cell, operand: Cell) -> None:
        void = target.stale | operand.stale
        values = self._read(target, is_used=target.is_outside)
        values[...] = getattr(np, operation)(values, self._read(operand, is_used=target.is_outside))
        self._wrote(target, void)

    def _wrote(self, target: Cell, void: np.ndarray) -> None:
        if target.is_outside:
            hull = target.hull
            # Where a write leaves gaps, what it leaves is taken for read.
            self.may_fail |= hull.stop - hull.start != target.fresh.size and bool(target.root.stained[hull].any())
            target.fresh[...] = True
            self.writes.append(target)
        else:
            target.void[...] = void

    def stir(self, source: Cell, amount: int, delay_us: int, breaks: bool) -> Cell:
        values = self._read(source, is_used=True)
        self.breaks |= breaks and breaks_on(values)
        return Cell.of(stirred(values, amount))

    def check(self, source: Cell, breaks: bool) -> Cell:
        values = self._read(source, is_used=True)
        self.breaks |= breaks and any(row_breaks(values))
        return Cell.of(values.copy())

    def churn(self, target: Cell, delay_us: int, breaks: bool) -> None:
        values = self._read(target, is_used=True)
        self.breaks |= breaks and breaks_on(values)
        values[...] = churned(values)
        self._wrote(target, target.stale)

    def stain(self) -> None:
        """It has failed: all that it writes is stained, and what lies between."""
        for target in self.writes:
            hull = target.hull
            target.root.stained[hull] = True
            if hull.stop - hull.start != target.fresh.size:
                target.root.ragged[hull] = True

    def take(self, cell: Cell) -> Cell:
        """A copy that outlives the statement."""
        return Cell.of(self._read(cell, is_used=True).copy())
