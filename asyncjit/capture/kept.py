"""Arrays that outlive the function that made them.

Law: looks at what is still alive once the function has returned. What was made from constants only is computed, once,
and becomes state; anything else would hold the value of one replay for ever, and is refused.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from typing import NoReturn, cast

from asyncjit import ir
from asyncjit.capture.recorder import Recorder
from asyncjit.capture.traced import Traced
from asyncjit.errors import CaptureError
from asyncjit.numpy import Array
from asyncjit.storage import Storage
from asyncjit.user_code import line_of
from asyncjit.variables import has_symbols

__all__ = ["keep_constants"]


def keep_constants(recorder: Recorder) -> list[ir.Call | ir.Copy]:
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
    """For each call whether its result depends on more than constants: arguments, state, a user's own kernel.

    So does a call that changes one operand and gives another (a draw of random numbers): each replay makes it."""
    constants = recorder.constants
    dependent = {each.buffer for each in recorder.inputs}
    dependent.update(buffer for buffer in recorder.states.values() if buffer not in constants)
    opaque: list[bool] = []
    for call in recorder.calls:
        accesses = list(call.accesses())
        user_kernel = isinstance(call, ir.Call) and call.kernel.implementation is not None
        changes = len({access for _, access in accesses if access.writes}) > 1
        varies = user_kernel or changes or has_symbols(call.layout)
        depends = varies or any(access.reads and view.buffer in dependent for view, access in accesses)
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
    layout = recorder.layouts.get(buffer)
    if layout is None or has_symbols(layout) or (not made_by and _is_touched(recorder.calls, buffer)):
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
    layout = recorder.layouts[wanted]
    shape, dtype = cast("tuple[int, ...]", layout[0]), layout[1]
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
