"""What a recording left besides its plan, as data and back: state, outputs, results, and which argument goes where.

Law: nothing read here is believed. Every number is compared with the schedule that it speaks of, so that whoever binds
the capture later stays inside of its buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from asyncjit import ir
from asyncjit.capture import Captured, Result, touches_of
from asyncjit.data_reader import DataReader
from asyncjit.jit.body import Recorded
from asyncjit.jit.captures import Entry
from asyncjit.jit.structure import Structure, take_apart
from asyncjit.numpy import Array
from asyncjit.ops import dtype_named
from asyncjit.saving.names import Names
from asyncjit.saving.pool import Pool
from asyncjit.saving.values import read_spec, read_structure, spec_to_data, structure_to_data
from asyncjit.storage import Storage

__all__ = ["read_recorded", "recorded_to_data"]

#: What an array has for a storage that only stands for one in a structure.
_NOWHERE: Any = None


def recorded_to_data(entry: Entry, pool: Pool) -> dict[str, Any]:
    """All of a recording but its schedule.

    Raises:
        SaveError: a class in the returned structure cannot be found again.
    """
    captured = entry.captured
    stands: list[Any] = [object() for _ in captured.results]
    return {
        "names": list(entry.names),
        "state": [
            [slot, pool.number(storage), captured.met_at[storage], _is_constant(captured, storage)]
            for slot, storage in captured.state.items()
        ],
        "outputs": [[slot, list(shape), dtype] for slot, (shape, dtype) in captured.outputs.items()],
        "results": [[each.position, each.offset, spec_to_data(each.spec)] for each in captured.results],
        "structure": structure_to_data(entry.build(stands), stands, "the returned structure"),
        "bindings": [list(binding) for binding in captured.bindings],
        "pinned": [[index, pool.number(storage), offset] for index, storage, offset in captured.pinned],
        "merged": captured.merged,
        "inputs_written": sorted(captured.inputs_written),
    }


def _is_constant(captured: Captured, storage: Storage) -> bool:
    """Host data that the function contains, in which nobody has written since: recording it again gives the same."""
    return storage in captured.constants and not storage.is_state


def read_recorded(
    it: DataReader, schedule: ir.Schedule, storages: Sequence[Storage], names: Names, function: str
) -> Recorded:
    """The recording of ``schedule`` again.

    Raises:
        ValueError: a piece does not fit the schedule.
    """
    _check_operands(it, schedule)
    state, met_at, constants = _read_state(it["state"], schedule, storages)
    outputs = _read_outputs(it["outputs"], schedule)
    _check_order(it, schedule, [*state, *outputs])
    arguments = it["names"].each(DataReader.text)
    results = _read_results(it["results"], schedule)
    captured = Captured(
        schedule=schedule,
        state=state,
        outputs=outputs,
        results=results,
        bindings=_read_bindings(it["bindings"], schedule, arguments),
        pinned=it["pinned"].each(
            lambda each: (_place(each[0], arguments), each[1].one_of(storages, "arrays"), each[2].natural())
        ),
        merged=it["merged"].flag(),
        inputs_written=frozenset(it["inputs_written"].each(lambda each: _place(each, arguments))),
        state_touches=touches_of(schedule.calls, {state[slot]: schedule.slots[slot].buffer for slot in state}),
        met_at=met_at,
        constants=constants,
    )
    return Recorded(captured, _read_build(it["structure"], results, names, function), list(arguments))


def _check_operands(it: DataReader, schedule: ir.Schedule) -> None:
    """Every operand has a dtype that arrays may have, and its last byte inside of its buffer."""
    for index, call in enumerate(schedule.calls):
        for operand in call.operands:
            dtype = dtype_named(operand.dtype)
            if dtype is None:
                it["plan"]["schedule"]["calls"][index].fail(f"of operands of known dtypes, not {operand.dtype!r}")
            steps = [(extent - 1) * stride for extent, stride in zip(operand.shape, operand.strides, strict=True)]
            last = operand.offset_bytes + sum(step for step in steps if step > 0) + dtype.itemsize
            if all(operand.shape) and last > operand.view.offset_bytes + operand.view.nbytes:
                it["plan"]["schedule"]["calls"][index].fail("of operands inside their views")


def _read_state(
    it: DataReader, schedule: ir.Schedule, storages: Sequence[Storage]
) -> tuple[dict[int, Storage], dict[Storage, str], frozenset[Storage]]:
    state: dict[int, Storage] = {}
    met_at: dict[Storage, str] = {}
    constants = set()
    for index in range(len(it.each(lambda each: each))):
        slot = _slot(it[index][0], schedule, ir.SlotKind.STATE)
        storage = it[index][1].one_of(storages, "arrays")
        buffer = schedule.slots[slot].buffer
        if storage in met_at or (storage.device, storage.nbytes) != (buffer.device, buffer.nbytes):
            it[index].fail(f"an array of {buffer.nbytes} bytes on {buffer.device}, and one slot for each")
        state[slot], met_at[storage] = storage, it[index][2].text()
        if it[index][3].flag():
            constants.add(storage)
    return state, met_at, frozenset(constants)


def _read_outputs(it: DataReader, schedule: ir.Schedule) -> dict[int, tuple[tuple[int, ...], str]]:
    outputs = {}
    for index in range(len(it.each(lambda each: each))):
        slot = _slot(it[index][0], schedule, ir.SlotKind.OUTPUT)
        shape, dtype = it[index][1].naturals(), it[index][2].text()
        nbytes = schedule.slots[slot].buffer.nbytes
        known = dtype_named(dtype)
        if known is None or prod(shape) * known.itemsize != nbytes:
            it[index].fail(f"the layout of {nbytes} bytes")
        outputs[slot] = (shape, dtype)
    return outputs


def _slot(it: DataReader, schedule: ir.Schedule, kind: ir.SlotKind) -> int:
    if it.one_of(schedule.slots, "slots").kind is not kind:
        it.fail(f"the number of a slot of kind {kind.value}")
    return it.natural()


def _check_order(it: DataReader, schedule: ir.Schedule, bound: Sequence[int]) -> None:
    """Inputs, then state, then outputs, as programs expect; and each slot of the last two named once, in order."""
    kinds = [slot.kind for slot in schedule.slots]
    first = kinds.count(ir.SlotKind.INPUT)
    if kinds != sorted(kinds, key=list(ir.SlotKind).index) or list(bound) != list(range(first, len(kinds))):
        it["plan"]["schedule"]["slots"].fail("inputs, then state, then outputs, each bound once")


def _read_results(it: DataReader, schedule: ir.Schedule) -> tuple[Result, ...]:
    buffers = [slot.buffer for slot in schedule.slots if slot.kind is ir.SlotKind.OUTPUT]

    def read(each: DataReader) -> Result:
        buffer = each[0].one_of(buffers, "outputs")
        result = Result(each[0].natural(), each[1].natural(), read_spec(each[2]))
        low, high = result.spec.extent
        if result.offset + low < 0 or result.offset + high > buffer.nbytes or result.spec.device != buffer.device:
            each.fail(f"a view of {buffer.nbytes} bytes on {buffer.device}")
        return result

    return it.each(read)


def _read_bindings(it: DataReader, schedule: ir.Schedule, arguments: Sequence[str]) -> tuple[tuple[int, int], ...]:
    bindings = it.each(lambda each: (_place(each[0], arguments), each[1].integer()))
    inputs = sum(slot.kind is ir.SlotKind.INPUT for slot in schedule.slots)
    if len(bindings) != inputs:
        it.fail(f"a list of {inputs}")
    return bindings


def _place(it: DataReader, arguments: Sequence[str]) -> int:
    it.one_of(arguments, "arguments")
    return it.natural()


def _read_build(it: DataReader, results: Sequence[Result], names: Names, function: str) -> Structure:
    stands = [Array._of(_NOWHERE, 0, result.spec) for result in results]
    pieces, build = take_apart(read_structure(it, stands, names), function)
    if [id(array) for _, array in pieces] != list(map(id, stands)):
        it.fail("of every result, in order")
    return build
