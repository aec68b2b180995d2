"""Deliberate faults of what stands around the scheduler: variables, devices, pruning, saving, flows, closing.

Law: as in ``faults``, whose registry these join.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncjit import engine, program
from asyncjit.calling import Caller
from asyncjit.devices._joint_plan import JointExecutable
from asyncjit.ir import Copy, View
from asyncjit.jit.batching.rows import Rows
from asyncjit.jit.pruning import Pruning
from asyncjit.ops import random as random_operations
from asyncjit.pipeline.pipe import Pipe
from asyncjit.prefetch.items import Staging
from asyncjit.runs import FINISHED
from asyncjit.saving import surface
from asyncjit.saving.pool import Pool, whole
from asyncjit.scheduler import Scheduler
from asyncjit.specialised import SymbolicFootprint
from asyncjit.watches import Watches
from tests.faults import FAULTS, fault

__all__ = ["FAULTS"]


@fault(
    "take what a call with a variable touches for what the first one touched",
    SymbolicFootprint,
    "at",
    theme="variables",
)
def _(original: Any) -> Any:
    first: dict[int, Any] = {}
    return lambda self, values: first.setdefault(id(self), (self, original(self, values)))[1]


@fault("give a variable the value that it had in the call before", Caller, "_bind", theme="variables")
def _(original: Any) -> Any:
    before: dict[Any, Any] = {}

    def bind(self: Any, replay: Any, program: Any, loaded: Any, inputs: Any, values: Any) -> None:
        original(self, replay, program, loaded, inputs, before.get(program, values) if values else values)
        before[program] = values

    return bind


@fault("drop the waits between devices of one replay", JointExecutable, "_set_gates", theme="devices")
def _(original: Any) -> Any:
    def set_gates(self: Any, gates: Any, fences: Any, whole: Any) -> None:
        for segment, others in whole.gates.items():
            index, local = self.place[segment]
            gates[index].setdefault(local, []).extend(others)

    return set_gates


@fault("order no copy behind what writes its source", Copy, "accesses", theme="devices")
def _(original: Any) -> Any:
    def accesses(self: Any) -> Any:
        # A source without bytes meets nothing.
        return [
            (view if access.writes else View.contiguous(view.buffer, 0, 0), access) for view, access in original(self)
        ]

    return accesses


@fault("track but one of the ranges that a function reads of state", program, "ranges_of", theme="variables")
def _(original: Any) -> Any:
    return lambda accesses, keys: original(accesses, keys)[:1]


@fault("keep what was computed once after a write to what it was computed from", Watches, "note", theme="pruning")
def _(original: Any) -> Any:
    return lambda self, run: None


@fault("go on with what a failed replay should have computed once", Pruning, "choose", theme="pruning")
def _(original: Any) -> Any:
    def choose(self: Any, inputs: Any, scheduler: Any) -> Any:
        if self._computing is not None and self._computing[0].state in FINISHED:
            self._computed_at, self._held = self._computing[0].ticket, self._computing[1]
            self._computing = None
        return original(self, inputs, scheduler)

    return choose


@fault("draw the same random numbers at every replay", random_operations, "advance", theme="random")
def _(original: Any) -> Any:
    return lambda state, blocks: None


#: For the fault that has what is loaded share the memory of what was saved: the pool that was saved last.
_saved: list[Pool] = []


class RememberedPool(Pool):
    """A pool that says which storages it saved."""

    def read(self) -> list[np.ndarray[Any, Any]]:
        _saved[:] = [self]
        return super().read()


@fault(
    "share memory between what is loaded and what was saved",
    surface,
    "read_storages",
    theme="saving",
    also=((surface, "Pool", lambda original: RememberedPool),),
)
def _(original: Any) -> Any:
    def read_storages(engine: Any, it: Any, container: Any) -> Any:
        original(engine, it, container)
        return _saved[0].storages

    return read_storages


@fault("save what is in memory, and not what is there at a ticket", Pool, "read", theme="saving")
def _(original: Any) -> Any:
    def read(self: Any) -> list[np.ndarray[Any, Any]]:
        return [np.array(storage.memory).view(whole(storage).dtype) for storage in self.storages]

    return read


@fault("give the first rows of a batch to everybody", Rows, "_piece", theme="rows")
def _(original: Any) -> Any:
    def piece(self: Any, value: Any, path: str, batch: Any, request: Any, engine: Any) -> Any:
        start, request.start = request.start, 0
        try:
            return original(self, value, path, batch, request, engine)
        finally:
            request.start = start

    return piece


@fault("chain a stage of a pipeline to what the stage before made of an earlier item", Pipe, "_submit", theme="flows")
def _(original: Any) -> Any:
    async def submit(self: Any, item: Any, stage: Any) -> None:
        if stage.index:
            before = self.__dict__.get("before")
            self.before, item.value = item.value, item.value if before is None else before
        await original(self, item, stage)

    return submit


@fault("read the next item of a prefetch into the memory of the last", Staging, "_array", theme="flows")
def _(original: Any) -> Any:
    def array(self: Any, host: Any, *, at_once: bool) -> Any:
        made = original(self, host, at_once=at_once)
        known = self.__dict__.setdefault("known", {}).setdefault(host.shape, made)
        np.copyto(np.ndarray(host.shape, host.dtype, known._storage.memory), host)
        return known

    return array


@fault("close at once, however much time there is", engine, "wait_blocking", theme="closing")
def _(original: Any) -> Any:
    return lambda fence, limit_s: True


@fault("forget failures when the engine is closed", Scheduler, "failure_read_by", theme="closing")
def _(original: Any) -> Any:
    return lambda self, run: None
