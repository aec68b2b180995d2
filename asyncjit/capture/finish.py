"""From what was recorded to a schedule with slots: kept arrays, outputs, dead calls, aliases.

Law: runs once the function has returned; changes the calls, records nothing new but copies of outputs. Knows no
functions or structures: outputs come as flat views.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from asyncjit import ir
from asyncjit.capture.aliases import AliasGroups
from asyncjit.capture.recorder import COPY, Layout, Recorder, Traced, line_of
from asyncjit.deps import Region, region_of
from asyncjit.errors import CaptureError, NothingCapturedError
from asyncjit.numpy import Array
from asyncjit.numpy._handle import ArraySpec, array_spec, c_strides
from asyncjit.storage import Storage

__all__ = ["Captured", "Output", "Result", "finish"]


class Output(NamedTuple):
    """An array that the function returns: the buffer it views, and where it stands in the returned structure."""

    buffer: ir.Buffer
    offset: int
    spec: ArraySpec
    path: str


class Result(NamedTuple):
    """An array that a replay returns: a view of the buffer of its ``position``-th OUTPUT slot."""

    position: int
    offset: int
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
    arguments overlap, one of them is written, and the capture holds for this pattern of overlaps only.
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
    calls = _keep_constants(recorder)
    results, made = _place_outputs(recorder, calls, outputs)
    calls = _without_dead(recorder, calls, made)
    if not calls:
        raise NothingCapturedError(
            f"{recorder.name!r} recorded {len(recorder.calls)} array operations, but returns none of their results and "
            "writes no state; return the arrays, or write them with `state[...] = value`",
            function=recorder.name,
        )
    return _build(recorder, calls, results, made)


# Arrays that outlive the function.


def _keep_constants(recorder: Recorder) -> list[ir.Call | ir.Copy]:
    """Turn kept arrays into state; returns the calls that are left."""
    calls = recorder.calls
    if not _any_alive(recorder):
        return calls
    # What is alive only through reference cycles was not kept on purpose.
    gc.collect()
    if not _any_alive(recorder):
        return calls
    opaque = _opaque_calls(recorder)
    removed: set[int] = set()
    for reference in recorder.made:
        traced = reference()
        if traced is None:
            continue
        storage = traced.constant
        if storage is None:
            storage = _compute_constant(recorder, traced, opaque, removed)
            recorder.states[storage] = traced.buffer
            recorder.met_at[storage] = traced.made_at
        _make_real(traced, storage)
    return [call for index, call in enumerate(calls) if index not in removed]


def _any_alive(recorder: Recorder) -> bool:
    return any(reference() is not None for reference in recorder.made)


def _make_real(traced: Traced, storage: Storage) -> None:
    """Every array that views ``traced`` views ``storage`` from now on; the byte layout is the same."""
    for holder in gc.get_referrers(traced):
        if type(holder) is Array and holder._storage is traced:
            holder._storage = storage


def _opaque_calls(recorder: Recorder) -> list[bool]:
    """For each call whether its result depends on more than constants: arguments, state, a user's own kernel."""
    constants = recorder.constants
    dependent = {each.buffer for each in recorder.inputs}
    dependent.update(buffer for buffer in recorder.states.values() if buffer not in constants)
    opaque: list[bool] = []
    for call in recorder.calls:
        accesses = list(call.accesses())
        user_kernel = isinstance(call, ir.Call) and call.kernel.implementation is not None
        depends = user_kernel or any(access.reads and view.buffer in dependent for view, access in accesses)
        if depends:
            dependent.update(view.buffer for view, access in accesses if access.writes)
        opaque.append(depends)
    return opaque


def _compute_constant(recorder: Recorder, traced: Traced, opaque: Sequence[bool], removed: set[int]) -> Storage:
    """The storage of a kept array as it is before anything that each replay does anew reads or writes it.

    The calls that only build it are added to ``removed``.
    """
    buffer = traced.buffer
    made_by: list[int] = []
    for index, call in enumerate(recorder.calls):
        accesses = [access for view, access in call.accesses() if view.buffer is buffer]
        if not accesses:
            continue
        if opaque[index] or not any(access.writes for access in accesses):
            break
        made_by.append(index)
    if buffer not in recorder.layouts or (not made_by and _is_touched(recorder.calls, buffer)):
        _refuse_kept(recorder, traced)
    removed.update(made_by)
    return _evaluate(recorder, made_by, buffer, opaque)


def _is_touched(calls: Iterable[ir.Call | ir.Copy], buffer: ir.Buffer) -> bool:
    return any(view.buffer is buffer for call in calls for view, _ in call.accesses())


def _refuse_kept(recorder: Recorder, traced: Traced) -> NoReturn:
    what = f"argument {traced.what!r}" if traced.what else f"an array made at {traced.made_at}{line_of(traced.made_at)}"
    raise CaptureError(
        f"{what} is kept outside of {recorder.name!r} after it was recorded, but its value would belong to one replay "
        "only; return it, or write it into an array made beforehand: `self.m[...] = …`",
        function=recorder.name,
        where=traced.made_at,
    )


def _evaluate(recorder: Recorder, made_by: Sequence[int], wanted: ir.Buffer, opaque: Sequence[bool]) -> Storage:
    """Run the calls that build ``wanted``, and those that build what they read, on this thread."""
    engine, constants = recorder.engine, recorder.constants
    shape, dtype = recorder.layouts[wanted]
    needed = {wanted}
    chosen: list[ir.Call | ir.Copy] = []
    for index in range(made_by[-1] if made_by else -1, -1, -1):
        call = recorder.calls[index]
        writes = {view.buffer for view, access in call.accesses() if access.writes}
        if not opaque[index] and (index in made_by or (writes & needed) - {wanted}):
            needed.update(view.buffer for view, access in call.accesses() if access.reads)
            chosen.append(call)
    if not chosen:
        return engine.new_storage(wanted.device, shape, dtype, wanted.nbytes)
    state = [(storage, buffer) for storage, buffer in recorder.states.items() if buffer in needed & constants.keys()]
    slots = [ir.Slot(ir.SlotKind.STATE, buffer) for _, buffer in state]
    slots.append(ir.Slot(ir.SlotKind.OUTPUT, wanted))
    schedule = ir.Schedule(tuple(reversed(chosen)), tuple(slots), f"constants of {recorder.name}")
    bound = {index: storage for index, (storage, _) in enumerate(state)}
    program = engine.load(schedule, bound, {len(state): (shape, dtype)}, lowering=False)
    (storage,) = engine.run_detached(program, ())
    return storage


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
        if buffer in shared or buffer in made or not _fills(spec, buffer):
            source = ir.operand_of(buffer, spec.shape, spec.strides, spec.dtype.name, spec.itemsize, offset)
            spec = array_spec(spec.shape, c_strides(spec.shape, spec.itemsize), spec.dtype, spec.weak, spec.device)
            buffer, offset = ir.new_buffer(buffer.device, spec.nbytes), 0
            recorder.layouts[buffer] = (spec.shape, spec.dtype.name)
            target = ir.operand_of(buffer, spec.shape, spec.strides, spec.dtype.name, spec.itemsize)
            where = f"return value{output.path}"
            calls.append(ir.Call(COPY, (source, target), ir.Cost(0, 2 * spec.nbytes), where))
        results.append(Result(made.setdefault(buffer, len(made)), offset, spec))
    return tuple(results), made


def _fills(spec: ArraySpec, buffer: ir.Buffer) -> bool:
    """A view worth handing out as it is: no element twice, and not the reason to hold much more memory than it has."""
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
        state_touches=_touches(calls, states),
        met_at={storage: recorder.met_at[storage] for storage in states},
    )


def _touches(
    calls: Iterable[ir.Call | ir.Copy], states: Mapping[Storage, ir.Buffer]
) -> dict[Storage, tuple[StateTouch, ...]]:
    storage_of = {buffer: storage for storage, buffer in states.items()}
    found: dict[Storage, dict[StateTouch, None]] = {storage: {} for storage in states}
    for call in calls:
        for view, access in call.accesses():
            storage = storage_of.get(view.buffer)
            if storage is not None:
                found[storage][StateTouch(region_of(view, storage.serial), access.writes)] = None
    return {storage: tuple(touches) for storage, touches in found.items()}
