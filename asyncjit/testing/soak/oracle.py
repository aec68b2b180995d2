"""The oracle: the serial run in ticket order, in NumPy, and what it says of each outcome.

Law: knows programs, outcomes and tickets; no engine, no device. Values are compared bit by bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncjit.errors import (
    AliasError,
    DependencyError,
    DeviceLostError,
    DeviceOutOfMemoryError,
    EngineClosedError,
    KernelError,
)
from asyncjit.records import State
from asyncjit.testing.soak.cells import Cell
from asyncjit.testing.soak.kernels import BrokenKernelError, base_values, generator_state, host_values
from asyncjit.testing.soak.program import Program, Source, Statement, view_of
from asyncjit.testing.soak.records import InjectedError, Read, Record
from asyncjit.testing.soak.trial import Key, Trial
from asyncjit.testing.soak.walk import run_steps

__all__ = ["Oracle"]

#: What is there in each generation, and what a program calls it while it is the last.
STATE = ("base", "generator")


class Oracle:
    """Plays statements in the order in which it is given them, which is that of their tickets."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.cells: dict[Key, Cell] = {
            ("base", index, 0): Cell.of(base_values(program, index)) for index in range(program.bases)
        }
        self.cells |= {("generator", i, 0): Cell.of(generator_state(i)) for i in range(program.generators)}
        self.outcomes: Counter[str] = Counter()
        #: The engine was closed in the middle, and without time for what was taken.
        self.is_closed = self.is_cut_short = False

    def judge(self, entry: Record | Read) -> None:
        """Check the next of the entries of a run.

        Raises:
            AssertionError: the serial run says something else.
        """
        if isinstance(entry, Read):
            self.check_read(entry)
        elif entry.statement.kind == "reload":
            self._reload(entry)
        else:
            self._play(entry)

    def _play(self, record: Record) -> None:
        with np.errstate(all="ignore"):
            trial = self._try(record)
        run = record.run
        where = f"statement {record.index}: {run or record.refusal!r}"
        if run is None or isinstance(run.error, AliasError):
            # Refused; on several threads that may only turn out when another thread's capture has ended.
            return
        state = run.state
        self.outcomes[state.value] += 1
        if state is State.DONE:
            assert not trial.must_fail, f"{where} ran on elements that hold nothing"
            assert not trial.breaks, f"{where} ended well, and should have failed on its values"
        elif state is State.FAILED:
            # An operation of several steps fails with what its first step failed with.
            error = next(each.error for each in record.runs if each.state is State.FAILED)
            assert error is not None
            self._check_failure(where, record, error, trial)
        else:
            assert state is State.DROPPED, f"{where} has not ended"
            assert record.cancels, f"{where} was removed, and nobody asked for it"
        self._commit(record.index, trial, state)

    def check_read(self, read: Read) -> None:
        """Judge what a read of an array gave, at this place in the order.

        Raises:
            AssertionError: the serial run reads something else.
        """
        source, found, where = read.source, read.found, read.where
        whole = self.cells[source.of, source.index, source.part]
        cell = view_of(whole, source.view) if read.rows is None else whole[read.rows]
        if isinstance(found, EngineClosedError):
            assert self.is_closed, f"{where}: {found!r}"
        elif isinstance(found, BaseException):
            assert isinstance(found, DependencyError), f"{where}: {found!r}"
            assert whole.stained.any(), f"{where} failed with {found!r}, and all elements hold something"
        else:
            assert not cell.void.any(), f"{where} read elements that hold nothing"
            assert (found.dtype, found.shape) == (cell.values.dtype, cell.values.shape), f"{where} gave {found!r}"
            same = found.tobytes() == cell.values.tobytes()
            assert same, f"{where} gave\n{found}\nand the serial run\n{cell.values}"

    # Trying.

    def _key(self, source: Source, generation: int) -> Key:
        return (source.of, source.index, generation if source.of in STATE else source.part)

    def _try(self, record: Record) -> Trial:
        statement, program = record.statement, self.program
        body = program.bodies[statement.body]
        is_call = statement.kind == "call"
        state: list[Key] = [("base", index, record.generation) for index in body.state] if is_call else []
        step = statement.step
        drawn = body.draws if is_call else {step.generator} if step is not None and step.kind == "draw" else ()
        keys = {index: ("generator", index, record.generation) for index in drawn}
        inside = [self._key(each, record.generation) for each in statement.sources if each.of not in ("host", "rows")]
        cells = {key: self.cells[key].copy() for key in (*inside, *state, *keys.values())}
        trial = Trial(cells, {index: cells[key] for index, key in keys.items()}, program.dtype)
        if body.has_variable and is_call:
            # Of state that is read only, all counts that other values of the variable would read.
            trial.may_fail |= any(self.cells[key].stained.any() for key in state)
        arguments = [self._argument(each, record, trial) for each in statement.sources]
        trial.outputs = [trial.take(each) for each in self._made(statement, arguments, state, trial)]
        return trial

    def _argument(self, source: Source, record: Record, trial: Trial) -> Cell:
        if source.of == "rows":
            assert record.rows is not None
            return Cell.of(record.rows)
        if source.of == "host":
            return Cell.of(host_values(self.program, source))
        found: Cell = view_of(trial.cells[self._key(source, record.generation)], source.view)
        return found

    def _made(self, statement: Statement, arguments: list[Cell], state: Sequence[Key], trial: Trial) -> list[Cell]:
        """Carry it out; what it gives out."""
        registers = list(arguments)
        match statement.kind:
            case "call":
                body = self.program.bodies[statement.body]
                registers += [trial.cells[key] for key in state]
                run_steps(body.steps, registers, trial, statement.n)
                return [registers[register] for register in body.results]
            case "eager":
                assert statement.step is not None
                run_steps([statement.step], registers, trial)
                return registers[len(arguments) :]
            case "assign":
                half = len(arguments) // 2
                values = [trial.take(each) for each in arguments[half:]]
                for target, value in zip(arguments[:half], values, strict=True):
                    trial.store(target, value)
                return []
            case "seed":
                trial.store(arguments[0], Cell.of(generator_state(statement.n)))
                return []
            case _:
                return registers

    # Judging.

    def _check_failure(self, where: str, record: Record, error: BaseException, trial: Trial) -> None:
        options = [self.program.devices[device] for device in record.reach(self.program)]
        cause = error.__cause__
        if isinstance(error, DependencyError):
            assert trial.may_fail, f"{where} failed for {error}, and reads nothing void"
        elif isinstance(error, DeviceLostError):
            was_lost = any(each.lost_at_s is not None for each in options)
            assert was_lost or self.is_cut_short, f"{where}: {error}"
        elif isinstance(error, DeviceOutOfMemoryError) or isinstance(cause, DeviceOutOfMemoryError):
            assert any(each.full_allocations for each in options), f"{where}: {error}"
        elif isinstance(error, EngineClosedError):
            assert self.is_cut_short, f"{where}: {error}, and there was all the time to end"
        else:
            assert isinstance(error, KernelError), f"{where}: {error!r}"
            assert not trial.must_fail, f"{where} ran on elements that hold nothing"
            if isinstance(cause, InjectedError):
                assert any(each.broken_calls for each in options)
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

    def _reload(self, record: Record) -> None:
        """From here on what was loaded is what a program speaks of; the former goes on for whoever holds it."""
        mine: Any = {key: cell for key, cell in self.cells.items() if key[0] in STATE and key[2] == record.generation}
        if record.refusal is not None:
            if isinstance(record.refusal, DependencyError):
                assert any(cell.stained.any() for cell in mine.values()), f"{record.refusal!r}, and all is well"
            return
        self.outcomes["reloaded"] += 1
        assert not any(cell.void.any() for cell in mine.values()), "elements were saved that hold nothing"
        for (of, index, generation), cell in mine.items():
            self.cells[of, index, generation + 1] = Cell.of(cell.values.copy())
