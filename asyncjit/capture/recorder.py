"""The recorder: while a function runs, array operations land here as calls of a schedule, and compute nothing.

Law: what belongs to the time between the first line of a function and its last; what is made of the calls afterwards is
``finish``. Knows no functions, signatures or structures.

A recorder belongs to the task and the thread that run the function, and is dead once the function has returned. Arrays
live in a ``Traced`` storage then: shape and dtype, no value.
"""

from __future__ import annotations

import asyncio
import linecache
import math
import os
import sys
import threading
import weakref
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np

from asyncjit import ir
from asyncjit.engine import Engine
from asyncjit.errors import CaptureError, HostReadError
from asyncjit.numpy import Array
from asyncjit.numpy._handle import ArraySpec, c_strides
from asyncjit.storage import Storage

__all__ = ["Input", "Recorder", "Traced", "where_in_user_code"]

#: Shape and dtype name of the C-contiguous array that a buffer was made for.
Layout: TypeAlias = "tuple[tuple[int, ...], str]"

COPY = ir.Kernel("copy", (ir.Access.READ, ir.Access.WRITE))

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PROGRAMS = (os.path.join(_PACKAGE, "demo") + os.sep,)


def where_in_user_code() -> str:
    """``file:line`` of the innermost frame outside asyncjit, or "" where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE) or file.startswith(_PROGRAMS):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def user_stacklevel() -> int:
    """What ``warnings.warn`` takes, called by the caller, to speak of the innermost frame outside asyncjit."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def line_of(where: str) -> str:
    """The source line at ``file:line``, in brackets and backquotes, or ""."""
    file, _, line = where.rpartition(":")
    text = linecache.getline(file, int(line)).strip() if file else ""
    return f" (`{text}`)" if text else ""


class Traced:
    """Storage of an array that is being recorded: a buffer of the schedule, no memory.

    ``constant`` is the storage of host data met during capture, until somebody writes to it. ``is_value`` marks what
    must be copied before it is written: such data, and numbers passed as arguments.
    """

    __slots__ = ("__weakref__", "buffer", "constant", "is_value", "made_at", "recorder", "what")

    def __init__(self, recorder: Recorder, buffer: ir.Buffer, what: str = "", constant: Storage | None = None) -> None:
        self.recorder = recorder
        self.buffer = buffer
        self.what = what
        self.constant = constant
        self.is_value = constant is not None
        self.made_at = where_in_user_code()

    @property
    def device(self) -> str:
        return self.buffer.device

    @property
    def nbytes(self) -> int:
        return self.buffer.nbytes

    @property
    def is_ready(self) -> bool:
        return False

    def read_host(
        self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any], what: str
    ) -> NoReturn:
        """Refuse: there is no value.

        Raises:
            HostReadError: the function that is being recorded reads it.
            CaptureError: the capture has ended.
        """
        if self.recorder.dead:
            self._refuse_late()
        raise host_read_error(self.recorder.name, what, f"{dtype.name}{list(shape)}")

    def __await__(self) -> Generator[Any, None, None]:
        """Nothing to wait for: a recorded array has no value to become ready."""
        if self.recorder.dead:
            self._refuse_late()
        return
        yield

    def __getattr__(self, name: str) -> NoReturn:
        # Whoever treats this as real memory (a replay, an eager operation) holds an array that outlived its capture.
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse_late()

    def _refuse_late(self) -> NoReturn:
        function, where = self.recorder.name, self.made_at
        raise CaptureError(
            f"an array made at {where or 'an unknown place'} while {function!r} was recorded is used outside of that "
            f"recording, where it has no value; return it from {function!r} and use the result of the replay",
            function=function,
            where=where,
        )


def host_read_error(function: str, what: str, given: str) -> HostReadError:
    where = where_in_user_code()
    return HostReadError(
        f"{what} at {where}{line_of(where)} reads the value of an array ({given}) while {function!r} is recorded, when "
        "no array has a value; choose with anp.where, or pass the value as an argument named in static=, or return "
        "the array and read it outside",
        function=function,
        where=where,
        what=what,
    )


@dataclass(slots=True, eq=False)
class Input:
    """An argument as the recorder knows it: its stand-in, its layout, and where the caller's bytes begin."""

    name: str
    spec: ArraySpec
    buffer: ir.Buffer
    #: Storage and offset that the first call passes; None where only the layout is known.
    storage: Storage | None
    offset: int


class Recorder:
    """Sink of array operations of one function, for one task on one thread.

    Raises ``CaptureError`` on any use from elsewhere or after ``close``.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.device = engine.default_device
        self.dead = False
        self.calls: list[ir.Call | ir.Copy] = []
        self.inputs: list[Input] = []
        #: Storages met during capture, with the buffer that stands for each, in the order of their first use.
        self.states: dict[Storage, ir.Buffer] = {}
        #: Where each of them was met first.
        self.met_at: dict[Storage, str] = {}
        #: Shape and dtype of host data met during capture; the buffers that stand for it are only read.
        self.constants: dict[ir.Buffer, Layout] = {}
        #: The same for all buffers that hold values nobody may write into: constants, and arguments that are numbers.
        self.values: dict[ir.Buffer, Layout] = {}
        #: Shape and dtype of every buffer made during capture.
        self.layouts: dict[ir.Buffer, Layout] = {}
        self.made: list[weakref.ref[Traced]] = []
        self._thread = threading.get_ident()
        self._task = current_task()

    # The sink of array operations.

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Traced:
        self.check_use()
        buffer = ir.new_buffer(self.device, math.prod(shape) * dtype.itemsize)
        self.layouts[buffer] = (shape, dtype.name)
        return self._traced(buffer)

    def emit(self, kernel: ir.Kernel, operands: Sequence[tuple[Any, int, ArraySpec]], cost: ir.Cost) -> None:
        self.check_use()
        for (storage, _, _), access in zip(operands, kernel.access, strict=True):
            if access.writes and type(storage) is Traced and storage.is_value:
                self._unshare(storage)
        resolved = tuple(
            ir.operand_of(self.buffer_of(storage), spec.shape, spec.strides, spec.dtype.name, spec.itemsize, offset)
            for storage, offset, spec in operands
        )
        self.calls.append(ir.Call(kernel, resolved, cost, where_in_user_code()))

    def constant(self, host: np.ndarray[Any, Any]) -> Traced:
        """Storage of host data: made once, here, and read by every replay."""
        self.check_use()
        storage = self.engine.constant(host, self.device)
        buffer = self.buffer_of(storage)
        self.constants[buffer] = self.values[buffer] = (host.shape, host.dtype.name)
        return self._traced(buffer, constant=storage)

    def refuse_read(self, what: str, spec: ArraySpec) -> None:
        """State has a value while the function is recorded, but that of now; each replay would have to see its own.

        Raises:
            HostReadError: the function that is being recorded reads a value. Tasks that it started may.
        """
        if not self.dead and threading.get_ident() == self._thread and current_task() is self._task:
            raise host_read_error(self.name, what, f"{spec.dtype.name}{list(spec.shape)}")

    # For whoever runs the function.

    def placeholder(
        self, spec: ArraySpec, name: str, storage: Storage | None, offset: int, is_number: bool = False
    ) -> Array:
        """A stand-in for an argument: the same layout, in a slot that begins at the argument's lowest byte."""
        low, high = spec.extent
        buffer = ir.new_buffer(spec.device, high - low)
        self.inputs.append(Input(name, spec, buffer, storage, offset))
        traced = self._traced(buffer, name)
        if is_number:
            traced.is_value = True
            self.values[buffer] = (spec.shape, spec.dtype.name)
        return Array(traced, -low, spec.shape, spec.strides, spec.dtype, spec.weak)

    def close(self) -> None:
        """The function has returned: nothing is recorded from now on."""
        self.dead = True

    def buffer_of(self, storage: object) -> ir.Buffer:
        """The buffer of the schedule that stands for ``storage``; real memory becomes state."""
        if type(storage) is Traced:
            if storage.recorder is not self:
                storage._refuse_late()
            return storage.buffer
        assert isinstance(storage, Storage)
        buffer = self.states.get(storage)
        if buffer is None:
            self._check_engine(storage)
            buffer = self.states[storage] = ir.new_buffer(storage.device, storage.nbytes)
            self.met_at[storage] = where_in_user_code()
        return buffer

    def check_use(self) -> None:
        if not self.dead and threading.get_ident() == self._thread and current_task() is self._task:
            return
        where = where_in_user_code()
        reason = "has ended" if self.dead else "belongs to another task or thread"
        raise CaptureError(
            f"an array operation at {where}{line_of(where)} runs inside the recording of {self.name!r}, which "
            f"{reason}; record in the function itself, and start tasks that use arrays outside of it (a task or thread "
            "started in the function inherits its context; give it a fresh one with contextvars.Context())",
            function=self.name,
            where=where,
        )

    def _check_engine(self, storage: Storage) -> None:
        if storage.engine is not self.engine:
            where = where_in_user_code()
            raise CaptureError(
                f"the array used at {where}{line_of(where)} belongs to another engine than the one that {self.name!r} "
                "is recorded for; make state and call the function inside the same `async with aj.Engine(...)`",
                function=self.name,
                where=where,
            )

    def _traced(self, buffer: ir.Buffer, what: str = "", constant: Storage | None = None) -> Traced:
        traced = Traced(self, buffer, what, constant)
        self.made.append(weakref.ref(traced))
        return traced

    def _unshare(self, storage: Traced) -> None:
        """A value is about to be written: each replay gets its own copy, as each run of the function would."""
        old = storage.buffer
        new = ir.new_buffer(old.device, old.nbytes)
        shape, name = self.layouts[new] = self.values[old]
        itemsize = np.dtype(name).itemsize
        strides = c_strides(shape, itemsize)
        source, target = (ir.operand_of(each, shape, strides, name, itemsize) for each in (old, new))
        self.calls.append(ir.Call(COPY, (source, target), ir.Cost(0, 2 * old.nbytes), where_in_user_code()))
        storage.buffer, storage.constant, storage.is_value = new, None, False


def current_task() -> object | None:
    """The task that runs here, of asyncio or trio, or None outside of both."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        trio = sys.modules.get("trio")
    if trio is None:
        return None
    try:
        task: object = trio.lowlevel.current_task()
    except RuntimeError:
        return None
    return task
