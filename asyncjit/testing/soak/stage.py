"""The stage: a soak program's arrays and functions on an engine, and its statements carried out on them.

Law: what a user would write, and a record of what came of it; judges nothing. Thread: a stage may be shared by several,
a statement is carried out by one.
"""

from __future__ import annotations

import contextvars
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asyncjit import numpy as anp
from asyncjit.engine import Engine, _current
from asyncjit.errors import AliasError, AsyncJitError, DeviceError, EngineBusyError
from asyncjit.jit import JitFunction, assign, jit, kernel, snapshot
from asyncjit.numpy import Array
from asyncjit.replay import Replay
from asyncjit.runs import Run
from asyncjit.testing.soak.program import (
    EXTENT,
    VIEWS,
    Body,
    Program,
    Source,
    Statement,
    run_steps,
    view_of,
)

__all__ = [
    "BrokenKernelError",
    "Read",
    "Record",
    "Recording",
    "Stage",
    "base_values",
    "breaks_on",
    "churned",
    "host_values",
    "stirred",
]

#: What a call may raise without having left a trace.
REFUSALS = (AliasError, EngineBusyError, DeviceError)


class BrokenKernelError(Exception):
    """What the kernels of soak programs fail with, where the values say so."""


def base_values(program: Program, index: int) -> np.ndarray:
    """What a base holds at the beginning."""
    values = np.arange(EXTENT * EXTENT).reshape(EXTENT, EXTENT) * (index + 3) % 23 - 5
    return values.astype(program.dtype)


def host_values(program: Program, source: Source) -> np.ndarray:
    """Host data that a statement is called with."""
    shape = VIEWS[source.view][1]
    return (np.arange(int(np.prod(shape))).reshape(shape) + source.index).astype(program.dtype)


def breaks_on(values: np.ndarray) -> bool:
    """Whether kernels that break do so on these values: about one in seven."""
    return zlib.crc32(values.tobytes()) % 7 == 0


def stirred(source: np.ndarray) -> np.ndarray:
    """What "stir" computes."""
    result: np.ndarray = np.maximum(source[::-1], source) + 1
    return result


def churned(values: np.ndarray) -> np.ndarray:
    """What "churn" makes of values."""
    result: np.ndarray = np.minimum(values[::-1] + 2, 99)
    return result


@kernel(writes=("out",))
def stir(out: Any, source: Any, delay_us: int, breaks: bool) -> None:
    """See ``Step``. Half of the output is written before it fails."""
    if delay_us:
        time.sleep(delay_us * 1e-6)
    out[:2] = stirred(source)[:2]
    if breaks and breaks_on(source):
        raise BrokenKernelError("stir")
    out[...] = stirred(source)


@kernel(reads_writes=("target",))
def churn(target: Any, delay_us: int, breaks: bool) -> None:
    """See ``Step``. Half of the target is written before it fails."""
    if delay_us:
        time.sleep(delay_us * 1e-6)
    new = churned(target)
    fails = breaks and breaks_on(target)
    target[:2] = new[:2]
    if fails:
        raise BrokenKernelError("churn")
    target[...] = new


class _Arrays:
    """Steps on the engine's arrays: recorded in a capture, eager outside of one."""

    def combine(self, operation: str, a: Any, b: Any) -> Any:
        return getattr(anp, operation)(a, b)

    def store(self, target: Any, value: Any) -> None:
        target[...] = value

    def update(self, operation: str, target: Any, operand: Any) -> None:
        match operation:
            case "add":
                target += operand
            case "subtract":
                target -= operand
            case "multiply":
                target *= operand
            case _:
                target[...] = getattr(anp, operation)(target, operand)

    def stir(self, source: Any, delay_us: int, breaks: bool) -> Any:
        out = anp.empty(source.shape, source.dtype)
        stir(out, source, delay_us, breaks)
        return out

    def churn(self, target: Any, delay_us: int, breaks: bool) -> None:
        churn(target, delay_us, breaks)


ARRAYS = _Arrays()


@dataclass(eq=False)
class Record:
    """What came of a statement. ``run`` is the scheduler's of its last replay; None where the call was refused."""

    index: int
    statement: Statement
    replay: Replay[Any] | None = None
    run: Run | None = None
    refusal: BaseException | None = None
    arrays: Sequence[Array] | None = None
    #: Waits or ``cancel`` that may have removed it.
    cancels: int = 0
    #: Replays that the statement made.
    replays: list[Replay[Any]] = field(default_factory=list)
    #: The same, as the scheduler knows them.
    runs: list[Run] = field(default_factory=list)

    def outputs(self) -> Sequence[Array]:
        """The arrays that it makes, maybe pending; asking for them makes them wanted."""
        if self.arrays is None:
            assert self.replay is not None
            self.arrays = self.replay.result or ()
        return self.arrays


@dataclass(frozen=True, eq=False)
class Read:
    """What reading an array gave, at one place of the order."""

    source: Source
    found: np.ndarray | BaseException
    where: str


_taken: contextvars.ContextVar[list[Replay[Any]] | None] = contextvars.ContextVar("asyncjit_soak_taken", default=None)


class Recording(Engine):
    """An engine that notes the replays that each statement makes."""

    def submit(self, *arguments: Any) -> Replay[Any]:
        """As ``Engine.submit``."""
        return _note(super().submit(*arguments))

    def submit_first(self, *arguments: Any) -> Replay[Any]:
        """As ``Engine.submit_first``."""
        return _note(super().submit_first(*arguments))


def _note(replay: Replay[Any]) -> Replay[Any]:
    taken = _taken.get()
    if taken is not None:
        taken.append(replay)
    return replay


class Stage:
    """Arrays and functions of ``program`` on ``engine``, whose devices stand in the program's order."""

    def __init__(self, program: Program, engine: Engine, device_names: Sequence[str]) -> None:
        self.program = program
        self.engine = engine
        self.device_names = device_names
        self.bases: list[Array] = []
        for index in range(program.bases):
            engine.default_device = device_names[index % len(device_names)]
            with self.current():
                self.bases.append(anp.asarray(base_values(program, index)))
        self.functions = [self._function(body) for body in program.bodies]
        self.records: dict[int, Record] = {}

    @contextmanager
    def current(self) -> Iterator[None]:
        """This engine is the one of the block, whatever task or thread asks."""
        token = _current.set((self.engine, _current.get()))
        try:
            yield
        finally:
            _current.reset(token)

    def _function(self, body: Body) -> JitFunction[..., Any]:
        state = [self.bases[index] for index in body.state]

        def function(*arguments: Any) -> Any:
            registers = [*arguments, *state]
            run_steps(body.steps, registers, ARRAYS)
            return tuple(registers[register] for register in body.results) or None

        function.__qualname__ = body.name
        return jit(function, in_flight_max=body.in_flight_max, on_cancel=body.on_cancel)

    def perform(self, index: int) -> Record | None:
        """Carry out a statement of the program: it takes its ticket here. None when an array of it never came to be."""
        statement = self.program.statements[index]
        arrays = [self._array(source) for source in statement.sources]
        if any(array is None for array in arrays):
            return None
        record = self.records[index] = Record(index, statement)
        self.engine.default_device = self.device_names[statement.device]
        token = _taken.set(record.replays)
        try:
            with self.current():
                self._carry_out(record, arrays)
        except REFUSALS as refusal:
            record.refusal = refusal
        finally:
            _taken.reset(token)
        if record.refusal is None:
            record.replay = record.replays[-1]
            record.run = record.replay._run
            record.runs = [replay._run for replay in record.replays]
        return record

    def _array(self, source: Source) -> Any:
        if source.of == "host":
            return host_values(self.program, source)
        if source.of == "base":
            return view_of(self.bases[source.index], source.view)
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
        if statement.kind == "call":
            self.functions[statement.body](*arrays)
        elif statement.kind == "assign":
            half = len(arrays) // 2
            assign(dict(zip(arrays[:half], arrays[half:], strict=True)))
        elif statement.kind == "snapshot":
            snapshot(*arrays)
        else:
            assert statement.step is not None
            registers = [each if isinstance(each, Array) else anp.asarray(each) for each in arrays]
            count = len(registers)
            run_steps([statement.step], registers, ARRAYS)
            record.arrays = registers[count:]

    def read(self, array: Array) -> np.ndarray:
        """The values, as np.asarray gives them; a ticket is taken where somebody writes the array in place."""
        with self.current():
            return np.asarray(array)
