"""The recorder: while a function runs, array operations land here as calls of a schedule, and compute nothing.

Law: what belongs to the time between the first line of a function and its last; what is made of the calls afterwards is
``finish``. Knows no functions, signatures or structures.

A recorder belongs to the task and the thread that run the function, and is dead once the function has returned. Arrays
live in a ``Traced`` storage then: shape and dtype, no value.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from asyncjit import ir
from asyncjit.capture.traced import Traced, host_read_error
from asyncjit.engine import Engine
from asyncjit.errors import CaptureError
from asyncjit.numpy import Array
from asyncjit.numpy._dispatch import TRANSFER
from asyncjit.numpy._handle import ArraySpec, Shape, c_strides
from asyncjit.storage import Storage
from asyncjit.symbols import Int, upper
from asyncjit.user_code import line_of, where_in_user_code

__all__ = ["COPY", "Input", "Layout", "Recorder", "current_task"]

#: Shape and dtype name of the C-contiguous array that a buffer was made for.
Layout: TypeAlias = "tuple[Shape, str]"

COPY = ir.Kernel("copy", (ir.Access.READ, ir.Access.WRITE))


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
        #: What calls are said to come from, where lines of code say nothing: a node of a model.
        self.where = ""
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

    def new(self, shape: Shape, dtype: np.dtype[Any], device: str | None = None) -> Traced:
        self.check_use()
        nbytes = upper(math.prod(shape)) * dtype.itemsize
        buffer = ir.new_buffer(self.engine.device(device or self.device).name, nbytes)
        self.layouts[buffer] = (shape, dtype.name)
        return self._traced(buffer)

    def emit(self, kernel: ir.Kernel, operands: Sequence[tuple[Any, Int, ArraySpec]], cost: ir.Cost) -> None:
        self.check_use()
        for (storage, _, _), access in zip(operands, kernel.access, strict=True):
            if access.writes and type(storage) is Traced and storage.is_value:
                self._unshare(storage)
        resolved = tuple(
            ir.operand_of(self.buffer_of(storage), spec.shape, spec.strides, spec.dtype.name, spec.itemsize, offset)
            for storage, offset, spec in operands
        )
        where = self.where or where_in_user_code()
        if kernel is TRANSFER:
            self.calls.append(ir.Copy(resolved[1], resolved[0], where))
        else:
            self.calls.append(ir.Call(kernel, resolved, cost, where))

    def constant(self, host: np.ndarray[Any, Any], device: str | None = None) -> Traced:
        """Storage of host data: made once, here, and read by every replay."""
        self.check_use()
        storage = self.engine.constant(host, device or self.device)
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
