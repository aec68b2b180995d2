"""What a recording left besides its plan, as data and back: state, outputs, results, and which argument goes where.

Law: nothing read here is believed. Every number is compared with the schedule that it speaks of, so that whoever binds
the capture later stays inside of its buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from asyncjit import ir
from asyncjit.capture import Captured, Result, touches_of
from asyncjit.capture.recorder import Layout
from asyncjit.data_reader import DataReader
from asyncjit.int_data import int_from_data, int_to_data
from asyncjit.jit.body import Recorded
from asyncjit.jit.captures import Entry
from asyncjit.jit.structure import Structure, take_apart
from asyncjit.numpy import Array
from asyncjit.ops import dtype_named
from asyncjit.saving.names import Names
from asyncjit.saving.pool import Pool
from asyncjit.saving.structures import read_structure, structure_to_data
from asyncjit.saving.values import read_shape, read_spec, spec_to_data
from asyncjit.storage import Storage
from asyncjit.symbols import same, upper
from asyncjit.variables import has_symbols

__all__ = ["read_recorded", "recorded_to_data"]

#: What an array has for a storage that only stands for one in a structure.
_NOWHERE: Any = None


def recorded_to_data(entry: Entry, pool: Pool) -> dict[str, Any]:
    """All of a recording but its schedule.

    Raises:
        SaveError: a class in the returned structure cannot be found again.
        ValueError: a symbolic integer is too long to be stored.
    """
    captured = entry.captured
    stands: list[Any] = [object() for _ in captured.results]
    return {
        "names": list(entry.names),
        "state": [
            [slot, pool.number(storage), captured.met_at[storage], _is_constant(captured, storage)]
            for slot, storage in captured.state.items()
        ],
        "outputs": [
            [slot, [int_to_data(extent) for extent in shape], dtype]
            for slot, (shape, dtype) in captured.outputs.items()
        ],
        "results": [[each.position, int_to_data(each.offset), spec_to_data(each.spec)] for each in captured.results],
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
    results = _read_results(it["results"], schedule, outputs)
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
            # Of a symbolic one the device looks at each replay, where its ranges do not settle it.
            if not operand.is_symbolic and not operand.stays_inside(dtype.itemsize):
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


def _read_outputs(it: DataReader, schedule: ir.Schedule) -> dict[int, Layout]:
    outputs: dict[int, Layout] = {}
    for index in range(len(it.each(lambda each: each))):
        slot = _slot(it[index][0], schedule, ir.SlotKind.OUTPUT)
        shape, dtype = read_shape(it[index][1]), it[index][2].text()
        nbytes = schedule.slots[slot].buffer.nbytes
        known = dtype_named(dtype)
        # A buffer has the bytes that it needs at most.
        if known is None or upper(prod(shape)) * known.itemsize != nbytes:
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


def _read_results(it: DataReader, schedule: ir.Schedule, outputs: Mapping[int, Layout]) -> tuple[Result, ...]:
    buffers = [schedule.slots[slot].buffer for slot in outputs]
    layouts = list(outputs.values())

    def read(each: DataReader) -> Result:
        buffer = each[0].one_of(buffers, "outputs")
        result = Result(each[0].natural(), int_from_data(each[1]), read_spec(each[2], symbolic=True))
        fits = _fills if has_symbols((result.spec.shape, layouts[result.position][0])) else _lies_in
        if result.spec.device != buffer.device or not fits(result, layouts[result.position], buffer.nbytes):
            each.fail(f"a view of {buffer.nbytes} bytes on {buffer.device}")
        return result

    return it.each(read)


def _lies_in(result: Result, layout: Layout, nbytes: int) -> bool:
    low, high = result.spec.extent
    known = not has_symbols((result.offset, result.spec.strides))
    return known and result.offset + low >= 0 and result.offset + high <= nbytes


def _fills(result: Result, layout: Layout, nbytes: int) -> bool:
    """An output with a symbolic extent has as many bytes as its replay needs, and such a result is all of them."""
    size, spec = prod(layout[0]), result.spec
    whole = spec.is_contiguous and same(spec.size * spec.itemsize, size * np.dtype(layout[1]).itemsize)
    return whole and (same(result.offset, 0) or same(size, 0))


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
