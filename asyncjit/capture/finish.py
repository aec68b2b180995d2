"""From what was recorded to a schedule with slots: kept arrays, outputs, dead calls, aliases.

Law: runs once the function has returned; changes the calls, records nothing new but copies of outputs. Knows no
functions or structures: outputs come as flat views.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from asyncjit import ir
from asyncjit.capture.aliases import AliasGroups
from asyncjit.capture.kept import keep_constants
from asyncjit.capture.recorder import COPY, Layout, Recorder
from asyncjit.deps import Region, region_of
from asyncjit.errors import NothingCapturedError
from asyncjit.numpy._handle import ArraySpec, array_spec, c_strides
from asyncjit.storage import Storage
from asyncjit.symbols import Int, same, upper
from asyncjit.variables import has_symbols

__all__ = ["Captured", "Output", "Result", "finish", "touches_of"]


class Output(NamedTuple):
    """An array that the function returns: the buffer it views, and where it stands in the returned structure."""

    buffer: ir.Buffer
    offset: Int
    spec: ArraySpec
    path: str


class Result(NamedTuple):
    """An array that a replay returns: a view of the buffer of its ``position``-th OUTPUT slot."""

    position: int
    offset: Int
    spec: ArraySpec


class StateTouch(NamedTuple):
    """Bytes of a state storage that the calls touch."""

    region: Region
    writes: bool


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """A schedule and how to bind it.

    ``bindings`` says for each INPUT slot which argument it begins with, and how many bytes from that argument's offset.
    ``pinned`` arguments are bound as state: the capture holds for this storage and offset only. ``merged`` tells that
    arguments overlap, one of them is written, and the capture holds for this pattern of overlaps only. ``constants`` is
    the state that was host data in the function.
    """

    schedule: ir.Schedule
    state: Mapping[int, Storage]
    outputs: Mapping[int, Layout]
    results: tuple[Result, ...]
    bindings: tuple[tuple[int, int], ...]
    pinned: tuple[tuple[int, Storage, int], ...]
    merged: bool
    inputs_written: frozenset[int]
    state_touches: Mapping[Storage, tuple[StateTouch, ...]]
    met_at: Mapping[Storage, str]
    constants: frozenset[Storage]


def finish(recorder: Recorder, outputs: Sequence[Output]) -> Captured:
    """Make the schedule. The caller holds no array of the recording any more, ``outputs`` aside.

    Order of calls: as recorded, then copies of outputs that overlap something else. Constants that outlive the function
    are computed here, on this thread, once; their arrays become real.

    Raises:
        NothingCapturedError: no call was recorded, or none has an effect.
        CaptureError: an array outlives the function and is not made from constants only.
    """
    if not recorder.calls:
        raise NothingCapturedError(
            f"{recorder.name!r} recorded no array operation, so there is nothing to replay; compute with "
            "asyncjit.numpy on the arguments, and use aj.snapshot to copy arrays",
            function=recorder.name,
        )
    calls = keep_constants(recorder)
    results, made = _place_outputs(recorder, calls, outputs)
    calls = _without_dead(recorder, calls, made)
    if not calls:
        raise NothingCapturedError(
            f"{recorder.name!r} recorded {len(recorder.calls)} array operations, but returns none of their results and "
            "writes no state; return the arrays, or write them with `state[...] = value`",
            function=recorder.name,
        )
    return _build(recorder, calls, results, made)


# Outputs and dead calls.


def _place_outputs(
    recorder: Recorder, calls: list[ir.Call | ir.Copy], outputs: Sequence[Output]
) -> tuple[tuple[Result, ...], dict[ir.Buffer, int]]:
    """Where each returned array lies; appends a copy call for one that overlaps what is not its own."""
    shared = {*recorder.states.values(), *(each.buffer for each in recorder.inputs)}
    made: dict[ir.Buffer, int] = {}
    results = []
    for output in outputs:
        buffer, offset, spec = output.buffer, output.offset, output.spec
        if buffer in shared or buffer in made or not _fills(spec, recorder.layouts.get(buffer), buffer):
            source = ir.operand_of(buffer, spec.shape, spec.strides, spec.dtype.name, spec.itemsize, offset)
            spec = array_spec(spec.shape, c_strides(spec.shape, spec.itemsize), spec.dtype, spec.weak, spec.device)
            buffer, offset = ir.new_buffer(buffer.device, upper(spec.nbytes)), 0
            recorder.layouts[buffer] = (spec.shape, spec.dtype.name)
            target = ir.operand_of(buffer, spec.shape, spec.strides, spec.dtype.name, spec.itemsize)
            where = f"return value{output.path}"
            calls.append(ir.Call(COPY, (source, target), ir.Cost(0, 2 * upper(spec.nbytes)), where))
        results.append(Result(made.setdefault(buffer, len(made)), offset, spec))
    return tuple(results), made


def _fills(spec: ArraySpec, layout: Layout | None, buffer: ir.Buffer) -> bool:
    """A view worth handing out as it is: no element twice, and not the reason to hold much more memory than it has.

    Of an array with a symbolic extent, all of it.
    """
    if layout is not None and has_symbols((spec.shape, spec.strides, layout[0])):
        return spec.is_contiguous and same(spec.size, prod(layout[0]))
    repeats = any(extent > 1 and stride == 0 for extent, stride in zip(spec.shape, spec.strides, strict=True))
    return not repeats and 2 * spec.nbytes >= buffer.nbytes


def _without_dead(
    recorder: Recorder, calls: Sequence[ir.Call | ir.Copy], made: Mapping[ir.Buffer, int]
) -> list[ir.Call | ir.Copy]:
    """The calls that something outside can tell from their absence. A user's kernel always stays."""
    live = {*made, *recorder.states.values(), *(each.buffer for each in recorder.inputs)} - recorder.constants.keys()
    kept = []
    for call in reversed(calls):
        accesses = list(call.accesses())
        user_kernel = isinstance(call, ir.Call) and call.kernel.implementation is not None
        if user_kernel or any(access.writes and view.buffer in live for view, access in accesses):
            live.update(view.buffer for view, access in accesses if access.reads)
            kept.append(call)
    kept.reverse()
    return kept


# Slots.


def _build(
    recorder: Recorder, calls: list[ir.Call | ir.Copy], results: tuple[Result, ...], made: Mapping[ir.Buffer, int]
) -> Captured:
    groups = AliasGroups(recorder.inputs, recorder.states, calls)
    calls = groups.rewrite(calls)
    used = {view.buffer for call in calls for view, _ in call.accesses()}
    states = {storage: buffer for storage, buffer in recorder.states.items() if buffer in used}
    slots = [ir.Slot(ir.SlotKind.INPUT, buffer, name) for buffer, name, _ in groups.slots]
    state = {len(slots) + index: storage for index, storage in enumerate(states)}
    slots += [ir.Slot(ir.SlotKind.STATE, buffer, recorder.met_at[storage]) for storage, buffer in states.items()]
    outputs = {len(slots) + index: recorder.layouts[buffer] for buffer, index in made.items()}
    slots += [ir.Slot(ir.SlotKind.OUTPUT, buffer, f"output {index}") for buffer, index in made.items()]
    schedule = ir.Schedule(tuple(calls), tuple(slots), recorder.name)
    ir.verify_schedule(schedule)
    return Captured(
        schedule=schedule,
        state=state,
        outputs=outputs,
        results=results,
        bindings=tuple(binding for _, _, binding in groups.slots),
        pinned=groups.pinned,
        merged=groups.merged,
        inputs_written=groups.written,
        state_touches=touches_of(calls, states),
        met_at={storage: recorder.met_at[storage] for storage in states},
        constants=frozenset(storage for storage, buffer in states.items() if buffer in recorder.constants),
    )


def touches_of(
    calls: Iterable[ir.Call | ir.Copy], states: Mapping[Storage, ir.Buffer]
) -> dict[Storage, tuple[StateTouch, ...]]:
    """What the calls touch of each state storage, for which a buffer stands."""
    storage_of = {buffer: storage for storage, buffer in states.items()}
    found: dict[Storage, dict[StateTouch, None]] = {storage: {} for storage in states}
    for call in calls:
        for view, access in call.accesses():
            storage = storage_of.get(view.buffer)
            if storage is not None:
                found[storage][StateTouch(region_of(view, storage.serial), access.writes)] = None
    return {storage: tuple(touches) for storage, touches in found.items()}
