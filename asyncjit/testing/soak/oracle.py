"""The oracle: the serial run in ticket order, in NumPy, and what it says of each outcome.

Law: knows programs, outcomes and tickets; no engine, no device. Values are compared bit by bit.

Next to each element stands whether it is **void**: the statement that should have written it failed. A statement that
reads void elements must fail, whoever overwrites them heals them, a failed statement leaves void all that it writes.
Those that were removed before they started leave void their outputs only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncjit.errors import AliasError, DependencyError, DeviceLostError, DeviceOutOfMemoryError, KernelError
from asyncjit.records import State
from asyncjit.testing.soak.program import Program, Source, Statement, run_steps, view_of
from asyncjit.testing.soak.stage import BrokenKernelError, Record, base_values, breaks_on, churned, host_values, stirred

__all__ = ["InjectedError", "Oracle"]

Key = tuple[str, int, int]


class InjectedError(Exception):
    """What a call fails with because the device was told to."""


class Cell:
    """Values, which of them are void, and which were written by the statement under trial.

    Of what a statement makes for itself, elements are void that follow from void ones. The engine knows bytes by ranges
    and rows of blocks, so it may take more for void than is: what it may is ``stained``. Stains that are ``ragged``
    (left by writes with gaps) are healed as a whole or not at all.
    """

    __slots__ = ("fresh", "is_outside", "ragged", "root", "stained", "values", "void")

    def __init__(self, values: np.ndarray, void: np.ndarray, fresh: np.ndarray, root: Cell | None, *, is_outside: bool):
        self.values, self.void, self.fresh, self.is_outside = values, void, fresh, is_outside
        self.root = root or self
        if root is None:
            self.stained = np.zeros(values.size, bool)
            self.ragged = np.zeros(values.size, bool)

    @classmethod
    def of(cls, values: np.ndarray, void: np.ndarray | None = None) -> Cell:
        """What a statement makes for itself."""
        made = np.zeros(values.shape, bool)
        return cls(values, made if void is None else void, np.zeros(values.shape, bool), None, is_outside=False)

    def copy(self) -> Cell:
        other = Cell(self.values.copy(), self.void.copy(), np.zeros_like(self.fresh), None, is_outside=True)
        other.stained[...], other.ragged[...] = self.stained, self.ragged
        return other

    def _view(self, values: np.ndarray, void: np.ndarray, fresh: np.ndarray) -> Cell:
        return Cell(values, void, fresh, self.root, is_outside=self.is_outside)

    def __getitem__(self, key: Any) -> Cell:
        return self._view(self.values[key], self.void[key], self.fresh[key])

    @property
    def T(self) -> Cell:  # noqa: N802
        return self._view(self.values.T, self.void.T, self.fresh.T)

    @property
    def stale(self) -> np.ndarray:
        """Which elements are void, and were not written since."""
        found: np.ndarray = self.void & ~self.fresh
        return found

    @property
    def hull(self) -> slice:
        """From the first element to the last, in the order in which the root's lie in memory."""
        start, stop = np.lib.array_utils.byte_bounds(self.fresh)
        origin, _ = np.lib.array_utils.byte_bounds(self.root.fresh)
        return slice(start - origin, stop - origin)

    def fail(self, trial: Cell) -> None:
        """The statement that wrote as ``trial`` says has failed."""
        self.void |= trial.fresh
        self.stained[...], self.ragged[...] = trial.stained, trial.ragged
        self.stained |= trial.void.ravel()

    def succeed(self, trial: Cell) -> None:
        """It did well: what it wrote is void no more."""
        fresh = trial.fresh.ravel()
        self.values[...] = trial.values
        self.void &= ~trial.fresh
        if not (self.ragged & ~fresh).any():
            self.ragged[...] = False
        self.stained &= ~fresh | self.ragged


class Trial:
    """One statement run on copies: what it reads, writes and computes.

    ``may_fail``: it touches void elements. ``must_fail``: they reach a user's kernel or something that outlives it;
    reads whose result nobody uses are not made. ``breaks``: a kernel breaks on its values.
    """

    def __init__(self, cells: dict[Key, Cell]) -> None:
        self.cells = cells
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

    def stir(self, source: Cell, delay_us: int, breaks: bool) -> Cell:
        values = self._read(source, is_used=True)
        self.breaks |= breaks and breaks_on(values)
        return Cell.of(stirred(values))

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


class Oracle:
    """Plays statements in the order in which it is given them, which is that of their tickets."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.cells: dict[Key, Cell] = {
            ("base", index, 0): Cell.of(base_values(program, index)) for index in range(program.bases)
        }
        self.outcomes: dict[str, int] = {}

    def play(self, record: Record) -> None:
        """Check one outcome, and go on from there.

        Raises:
            AssertionError: the serial run says something else.
        """
        with np.errstate(all="ignore"):
            trial = self._try(record.statement)
        run = record.run
        state = State.DROPPED if run is None else run.state
        where = f"statement {record.index}: {run or record.refusal!r}"
        if run is None or isinstance(run.error, AliasError):
            # Refused; on several threads that may only turn out when another thread's capture has ended.
            return
        self.outcomes[state.value] = self.outcomes.get(state.value, 0) + 1
        if state is State.DONE:
            assert not trial.must_fail, f"{where} ran on elements that hold nothing"
            assert not trial.breaks, f"{where} ended well, and should have failed on its values"
        elif state is State.FAILED:
            # An operation of several steps fails with what its first step failed with.
            error = next(each.error for each in record.runs if each.state is State.FAILED)
            assert error is not None
            self._check_failure(where, record.statement, error, trial)
        else:
            assert state is State.DROPPED, f"{where} has not ended"
            assert record.cancels, f"{where} was removed, and nobody asked for it"
        self._commit(record.index, trial, state)

    def check_read(self, source: Source, found: np.ndarray | BaseException, where: str) -> None:
        """Judge what a read of an array gave, at this place in the order.

        Raises:
            AssertionError: the serial run reads something else.
        """
        cell = view_of(self.cells[source.of, source.index, source.part], source.view)
        if isinstance(found, BaseException):
            whole = self.cells[source.of, source.index, source.part]
            assert isinstance(found, DependencyError), f"{where}: {found!r}"
            assert whole.stained.any(), f"{where} failed with {found!r}, and all elements hold something"
            return
        assert not cell.void.any(), f"{where} read elements that hold nothing"
        assert found.dtype == cell.values.dtype
        assert found.tobytes() == cell.values.tobytes(), f"{where} gave\n{found}\nand the serial run\n{cell.values}"

    def check_outputs(self, index: int, found: Sequence[np.ndarray], where: str) -> None:
        """Judge values of outputs into which nobody writes."""
        for part, values in enumerate(found):
            self.check_read(Source("output", index, part), values, where)

    def _try(self, statement: Statement) -> Trial:
        program = self.program
        body = program.bodies[statement.body]
        state = [("base", index, 0) for index in body.state] if statement.kind == "call" else []
        keys = {(each.of, each.index, each.part) for each in statement.sources if each.of != "host"} | set(state)
        trial = Trial({key: self.cells[key].copy() for key in keys})
        arguments = [
            Cell.of(host_values(program, each))
            if each.of == "host"
            else view_of(trial.cells[each.of, each.index, each.part], each.view)
            for each in statement.sources
        ]
        if statement.kind == "call":
            registers = [*arguments, *(trial.cells[key] for key in state)]
            run_steps(body.steps, registers, trial)
            made = [registers[register] for register in body.results]
        elif statement.kind == "eager":
            assert statement.step is not None
            registers = list(arguments)
            run_steps([statement.step], registers, trial)
            made = registers[len(arguments) :]
        elif statement.kind == "assign":
            half = len(arguments) // 2
            values = [trial.take(each) for each in arguments[half:]]
            for target, value in zip(arguments[:half], values, strict=True):
                trial.store(target, value)
            made = []
        else:
            made = arguments
        trial.outputs = [trial.take(each) for each in made]
        return trial

    def _check_failure(self, where: str, statement: Statement, error: BaseException, trial: Trial) -> None:
        options = self.program.devices[statement.device]
        cause = error.__cause__
        if isinstance(error, DependencyError):
            assert trial.may_fail, f"{where} failed for {error}, and reads nothing void"
        elif isinstance(error, DeviceLostError):
            assert options.lost_at_s is not None, f"{where}: {error}"
        elif isinstance(error, DeviceOutOfMemoryError) or isinstance(cause, DeviceOutOfMemoryError):
            assert options.full_allocations, f"{where}: {error}"
        else:
            assert isinstance(error, KernelError), f"{where}: {error!r}"
            assert not trial.must_fail, f"{where} ran on elements that hold nothing"
            if isinstance(cause, InjectedError):
                assert options.broken_calls
            else:
                assert isinstance(cause, BrokenKernelError), f"{where}: {cause!r}"
                assert trial.breaks or trial.may_fail, f"{where} failed on values that it should not have seen"

    def _commit(self, index: int, trial: Trial, state: State) -> None:
        if state is State.FAILED:
            trial.stain()
        for key, cell in trial.cells.items():
            if state is State.DONE:
                self.cells[key].succeed(cell)
            elif state is State.FAILED:
                self.cells[key].fail(cell)
        for part, cell in enumerate(trial.outputs):
            if state is not State.DONE:
                cell.void[...] = True
                cell.stained[...] = True
            self.cells["output", index, part] = cell
