"""A capture in two parts: what every replay must do, and what it is enough to do once.

Law: schedules only; when the first replay has been is the caller's to know.

A replay of the whole schedule hands out, as further outputs, the buffers that the once-part writes and the rest reads.
Later replays run the rest with these buffers as further inputs. So the once-part is ordered like any replay, reads
state as of its ticket, and nothing is computed while recording. What is kept for every replay is decided by byte ranges
(``graph.prune``), and so is what state the once-part reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asyncjit import ir
from asyncjit.capture.finish import Captured
from asyncjit.capture.recorder import Layout
from asyncjit.deps import Region, region_of
from asyncjit.graph import prune
from asyncjit.storage import Storage

__all__ = ["Pruned", "split"]


@dataclass(frozen=True, slots=True)
class Pruned:
    """``first`` has ``held_count`` further OUTPUT slots at its end; ``rest`` has as many further INPUT slots behind its
    own. ``once_reads``: the bytes of state from which they are computed."""

    first: ir.Schedule
    first_outputs: Mapping[int, Layout]
    rest: ir.Schedule
    rest_state: Mapping[int, Storage]
    rest_outputs: Mapping[int, Layout]
    held_count: int
    once_reads: tuple[Region, ...]


def split(captured: Captured) -> Pruned | None:
    """The two parts, or None when every call belongs to every replay."""
    schedule = captured.schedule
    kept, once = prune(schedule, frozenset())
    if not once or not kept:
        return None
    calls = tuple(schedule.calls[index] for index in kept)
    written = {view.buffer for index in once for view, access in schedule.calls[index].accesses() if access.writes}
    used = dict.fromkeys(view.buffer for call in calls for view, _ in call.accesses())
    handed = [buffer for buffer in used if buffer in written]
    layouts: list[Layout] = [((buffer.nbytes,), "uint8") for buffer in handed]

    count = len(schedule.slots)
    further = tuple(ir.Slot(ir.SlotKind.OUTPUT, buffer, "computed once") for buffer in handed)
    first = ir.Schedule(schedule.calls, schedule.slots + further, schedule.name)
    first_outputs = {**captured.outputs, **{count + index: layout for index, layout in enumerate(layouts)}}

    inputs = [slot for slot in schedule.slots if slot.kind is ir.SlotKind.INPUT]
    numbered = list(enumerate(schedule.slots))
    states = [(slot, captured.state[i]) for i, slot in numbered if i in captured.state and slot.buffer in used]
    outputs = [(slot, captured.outputs[i]) for i, slot in numbered if i in captured.outputs]
    inputs += [ir.Slot(ir.SlotKind.INPUT, buffer, "computed once") for buffer in handed]
    begin = len(inputs) + len(states)
    slots = [*inputs, *(slot for slot, _ in states), *(slot for slot, _ in outputs)]
    rest = ir.Schedule(calls, tuple(slots), schedule.name)
    for each in (first, rest):
        ir.verify_schedule(each)
    return Pruned(
        first=first,
        first_outputs=first_outputs,
        rest=rest,
        rest_state={len(inputs) + index: storage for index, (_, storage) in enumerate(states)},
        rest_outputs={begin + index: layout for index, (_, layout) in enumerate(outputs)},
        held_count=len(handed),
        once_reads=_state_reads(captured, once),
    )


def _state_reads(captured: Captured, once: Sequence[int]) -> tuple[Region, ...]:
    """Bytes of state that these calls read; none of them writes any."""
    schedule = captured.schedule
    storages = {schedule.slots[index].buffer: storage for index, storage in captured.state.items()}
    return tuple(
        region_of(view, storages[view.buffer].serial)
        for index in once
        for view, access in schedule.calls[index].accesses()
        if access.reads and view.buffer in storages
    )
