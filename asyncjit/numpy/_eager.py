"""The eager sink: an operation outside a capture is a one-call replay, in ticket order like every other.

Law: one program for each (kernel, layouts, sharing of storages), kept by the engine; an operation then costs a lookup
and a submit. Nothing is computed here.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from asyncjit.engine import Engine, current_engine
from asyncjit.errors import CaptureError, DeviceError
from asyncjit.ir import Call, Copy, Cost, Kernel, Operand, Schedule, Slot, SlotKind, new_buffer, operand_of
from asyncjit.numpy._dispatch import TRANSFER
from asyncjit.numpy._handle import ArraySpec, DType, Shape, StorageLike
from asyncjit.program import Program
from asyncjit.storage import Storage

__all__ = ["EagerSink", "eager_sink"]

#: Programs an engine keeps for eager operations; about 5 KB each. Beyond it the oldest goes.
PROGRAMS_MAX = 4096

_Operands = Sequence[tuple[StorageLike, Any, ArraySpec]]


class EagerSink:
    """Runs each call at once through one engine."""

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def device(self) -> str:
        return self._engine.default_device

    def new(self, shape: Shape, dtype: DType, device: str | None = None) -> Storage:
        # A symbolic extent has no value here, and says so.
        known = tuple(map(operator.index, shape))
        nbytes = dtype.itemsize
        for count in known:
            nbytes *= count
        return self._engine.new_storage(device or self._engine.default_device, known, dtype.name, nbytes)

    def constant(self, host: np.ndarray, device: str | None = None) -> Storage:
        return self._engine.constant(host, device)

    def emit(self, kernel: Kernel, operands: _Operands, cost: Cost) -> None:
        """Submit the call. Each storage is one input slot, bound at the first byte that its operands touch."""
        inputs: list[tuple[Storage, int]] = []
        seen: dict[int, int] = {}
        parts: list[Hashable] = [kernel.name, kernel.params, kernel.access, kernel.implementation]
        for storage, offset, spec in operands:
            if not isinstance(storage, Storage) or storage.engine is not self._engine:
                raise _foreign(kernel, storage)
            base = offset + spec.extent[0]
            slot = seen.get(storage.serial)
            if slot is None:
                slot = seen[storage.serial] = len(inputs)
                inputs.append((storage, base))
            elif base != inputs[slot][1]:
                self._emit_sharing(kernel, operands, cost)
                return
            parts += (slot, spec)
        program = self._program(tuple(parts), kernel, operands, dict.fromkeys(seen), cost)
        self._engine.submit(program, inputs, self._engine.eager_group, list)

    def _emit_sharing(self, kernel: Kernel, operands: _Operands, cost: Cost) -> None:
        """Operands that are different parts of one storage: slots begin with the storages."""
        storages = {storage.serial: storage for storage, _, _ in operands if isinstance(storage, Storage)}
        parts: list[Hashable] = [kernel.name, kernel.params, kernel.access, kernel.implementation]
        slots = {serial: index for index, serial in enumerate(storages)}
        for storage, offset, spec in operands:
            if not isinstance(storage, Storage) or storage.engine is not self._engine:
                raise _foreign(kernel, storage)
            parts += (slots[storage.serial], offset, spec)
        program = self._program(tuple(parts), kernel, operands, dict.fromkeys(storages, 0), cost)
        inputs = [(storage, 0) for storage in storages.values()]
        self._engine.submit(program, inputs, self._engine.eager_group, list)

    def _program(
        self, key: Hashable, kernel: Kernel, operands: _Operands, bases: dict[int, int | None], cost: Cost
    ) -> Program:
        """``bases``: storage serial -> where its slot begins; None for the first byte that its operands touch."""
        programs = self._engine.eager_programs
        program = programs.get(key)
        if program is None:
            while len(programs) >= PROGRAMS_MAX:
                # RuntimeError, StopIteration: another thread changes them at this moment.
                with contextlib.suppress(RuntimeError, StopIteration):
                    programs.pop(next(iter(programs)), None)
            schedule = _schedule(kernel, operands, bases, cost)
            program = programs[key] = self._engine.load(schedule, {}, {}, lowering=False)
        return program


def _schedule(kernel: Kernel, operands: _Operands, bases: dict[int, int | None], cost: Cost) -> Schedule:
    extents: dict[int, tuple[int, int]] = {}
    for storage, offset, spec in operands:
        assert isinstance(storage, Storage)
        given = bases[storage.serial]
        base = offset + spec.extent[0] if given is None else given
        end = max(offset + spec.extent[1], extents.get(storage.serial, (0, 0))[1])
        extents[storage.serial] = (base, end)
    devices = {storage.serial: storage.device for storage, _, _ in operands if isinstance(storage, Storage)}
    buffers = {serial: new_buffer(devices[serial], max(end - base, 0)) for serial, (base, end) in extents.items()}
    bound: list[Operand] = []
    for storage, offset, spec in operands:
        assert isinstance(storage, Storage)
        base = extents[storage.serial][0]
        bound.append(
            operand_of(buffers[storage.serial], spec.shape, spec.strides, spec.dtype.name, spec.itemsize, offset - base)
        )
    slots = tuple(Slot(SlotKind.INPUT, buffer) for buffer in buffers.values())
    call = Copy(bound[1], bound[0]) if kernel is TRANSFER else Call(kernel, tuple(bound), cost)
    return Schedule((call,), slots, kernel.name)


def _foreign(kernel: Kernel, storage: StorageLike) -> Exception:
    if isinstance(storage, Storage):
        return DeviceError(
            f"{kernel.name} has an operand that belongs to another engine than the one in use here; work on arrays "
            "inside the `async with aj.Engine(...)` that made them, or copy them over by np.asarray and anp.asarray"
        )
    recorder = getattr(storage, "recorder", None)
    if recorder is not None and not recorder.dead:
        return CaptureError(
            f"{kernel.name} in aj.not_captured() has an operand that {recorder.name!r} is recording, so it has no "
            "value now; in the block use host data, arrays made in it, and state that was made before",
            function=recorder.name,
        )
    return CaptureError(
        f"{kernel.name} has an operand that was made while a function was captured, outside that capture; "
        "return it from the function instead of keeping it"
    )


def eager_sink() -> EagerSink:
    """The sink of the engine that this task uses."""
    engine = current_engine()
    sink: EagerSink | None = engine.sink
    if sink is None:
        sink = engine.sink = EagerSink(engine)
    return sink
