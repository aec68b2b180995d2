"""The stage: a soak program's arrays and functions on an engine, and its statements carried out on them.

Law: what a user would write, and a record of what came of it; judges nothing. Thread: a stage may be shared by several,
a statement is carried out by one.
"""

from __future__ import annotations

import contextvars
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from asyncjit import numpy as anp
from asyncjit.engine import Engine, _current
from asyncjit.errors import AliasError, AsyncJitError, DeviceError, EngineBusyError, EngineClosedError
from asyncjit.jit import assign, snapshot
from asyncjit.numpy import Array
from asyncjit.replay import Replay
from asyncjit.testing.soak.generation import Generation
from asyncjit.testing.soak.kernels import host_values
from asyncjit.testing.soak.program import Program, Source, Statement, view_of
from asyncjit.testing.soak.records import Record
from asyncjit.testing.soak.walk import run_steps

__all__ = ["REFUSALS", "Recording", "Sink", "Stage", "noting"]

#: What a call may raise without having left a trace.
REFUSALS = (AliasError, EngineBusyError, EngineClosedError, DeviceError)


class Sink(Protocol):
    """Hears of replays in the order in which they took their tickets."""

    def append(self, replay: Replay[Any], /) -> object: ...


_sink: contextvars.ContextVar[Sink | None] = contextvars.ContextVar("asyncjit_soak_sink", default=None)


class Recording(Engine):
    """An engine that notes the replays that each statement makes."""

    def submit(self, *arguments: Any) -> Replay[Any]:
        """As ``Engine.submit``."""
        return _note(super().submit(*arguments))

    def submit_first(self, *arguments: Any) -> Replay[Any]:
        """As ``Engine.submit_first``."""
        return _note(super().submit_first(*arguments))


def _note(replay: Replay[Any]) -> Replay[Any]:
    sink = _sink.get()
    if sink is not None:
        sink.append(replay)
    return replay


@contextmanager
def noting(sink: Sink | None) -> Iterator[None]:
    """Replays that this task or thread makes in the block are noted in ``sink``."""
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)


class _Watched:
    """Stands in for the function of a batched one."""

    def __init__(self, stage: Stage, index: int, generation: int, function: Any) -> None:
        self._stage = stage
        self._index = index
        self._generation = generation
        self._function = function

    def __call__(self, rows: Array) -> Any:
        record = self._stage.begin_batch(self._index, self._generation, np.array(rows))
        try:
            with noting(record.replays):
                replay = self._function(rows)
        except REFUSALS as refusal:
            record.refusal = refusal
            raise
        record.settle()
        self._stage.enlist(record)
        return replay

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


class Stage:
    """Arrays and functions of ``program`` on ``engine``, whose devices stand in the program's order."""

    def __init__(
        self, program: Program, engine: Engine, devices: Sequence[str], *, has_own_engine: bool = True
    ) -> None:
        """``has_own_engine``: no other thread uses it, so that its default device may change with each statement."""
        self.program = program
        self._has_own_engine = has_own_engine
        self.engine = engine
        self.devices = devices
        with self.current():
            #: What there is, and was before it was saved and loaded.
            self.generations = [Generation.first(program, engine, devices)]
        self.records: dict[int, Record] = {}
        #: Hears of what is made by others than ``perform``: in flows, and batches.
        self.enlist: Callable[[Record], object] = lambda record: None
        #: Batches are numbered behind all statements.
        self._batches = itertools.count(len(program.statements))
        self._watch_batches()

    @property
    def now(self) -> Generation:
        """The present generation."""
        return self.generations[-1]

    @contextmanager
    def current(self) -> Iterator[None]:
        """This engine is the one of the block, whatever task or thread asks."""
        token = _current.set((self.engine, _current.get()))
        try:
            yield
        finally:
            _current.reset(token)

    def begin(self, index: int, generation: int | None = None) -> Record:
        """The record of a statement of the program that is made now, of the last generation if of no other."""
        statement = self.program.statements[index]
        number = len(self.generations) - 1 if generation is None else generation
        record = self.records[index] = Record(index, statement, number)
        return record

    # Batches.

    def _watch_batches(self) -> None:
        """Have each batch noted: it is a call that no statement of the program makes."""
        for index, batched in self.now.batched.items():
            batched.function = _Watched(self, index, len(self.generations) - 1, batched.function)

    def begin_batch(self, index: int, generation: int, rows: np.ndarray) -> Record:
        """The record of a batch that is made now of these rows."""
        body = self.program.bodies[index]
        statement = Statement("call", (Source("rows", 0),), (rows.shape,), body.devices[:1], index, device=body.device)
        number = next(self._batches)
        record = self.records[number] = Record(number, statement, generation, rows=rows)
        return record

    def reload(self) -> None:
        """Go on with what is saved and loaded now. Blocks."""
        with self.current():
            self.generations.append(self.now.reloaded())
        self._watch_batches()

    # Statements.

    def perform(self, index: int) -> Record | None:
        """Carry out a statement of the program: it takes its ticket here. None when an array of it never came to be."""
        statement = self.program.statements[index]
        arrays = self.arrays_of(statement)
        if arrays is None:
            return None
        record = self.begin(index)
        try:
            with self.current(), noting(record.replays), self._default_device(statement.device):
                self._carry_out(record, arrays)
        except REFUSALS as refusal:
            record.refusal = refusal
        else:
            record.settle()
        return record

    @contextmanager
    def _default_device(self, device: int) -> Iterator[None]:
        """Host data goes there in the block, and to the first device everywhere else."""
        if self._has_own_engine:
            self.engine.default_device = self.devices[device]
        try:
            yield
        finally:
            self.engine.default_device = self.devices[0]

    def arrays_of(self, statement: Statement, generation: Generation | None = None) -> list[Any] | None:
        """The arrays that it is made with; None when one of them never came to be."""
        arrays = [self._array(source, generation or self.now) for source in statement.sources]
        return None if any(array is None for array in arrays) else arrays

    def _array(self, source: Source, generation: Generation) -> Any:
        if source.of == "host":
            return host_values(self.program, source)
        if source.of == "base":
            return view_of(generation.bases[source.index], source.view)
        if source.of == "generator":
            return generation.generators[source.index].state
        maker = self.records.get(source.index)
        if maker is None or maker.refusal is not None or (maker.replay is None and maker.arrays is None):
            return None
        try:
            return view_of(maker.outputs()[source.part], source.view)
        except AsyncJitError:
            # It was removed, or waits for another thread's capture, so that nobody knows its outputs.
            return None

    def _carry_out(self, record: Record, arrays: list[Any]) -> None:
        statement = record.statement
        match statement.kind:
            case "call":
                self.now.call(statement.body, arrays, statement.n)
            case "assign":
                half = len(arrays) // 2
                assign(dict(zip(arrays[:half], arrays[half:], strict=True)))
            case "snapshot":
                snapshot(*arrays)
            case "seed":
                self.now.generators[statement.sources[0].index].seed(statement.n)
            case _:
                assert statement.step is not None
                registers = [each if isinstance(each, Array) else anp.asarray(each) for each in arrays]
                run_steps([statement.step], registers, self.now.algebra)
                record.arrays = registers[len(arrays) :]

    def read(self, array: Array) -> np.ndarray:
        """The values, as np.asarray gives them; a ticket is taken where somebody writes the array in place."""
        with self.current():
            return np.asarray(array)
