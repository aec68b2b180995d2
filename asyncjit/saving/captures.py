"""One capture as data, and back: its key, its plan, and what it is bound to.

Law: what ``jit.captures.Entry`` is made of; storages are numbers here, and the caller's to keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from asyncjit.algebra import Symbol
from asyncjit.capture import Pattern, split
from asyncjit.data_reader import DataReader
from asyncjit.engine import Engine
from asyncjit.jit.body import Recorded
from asyncjit.jit.captures import Entry
from asyncjit.jit.options import Options
from asyncjit.jit.pruning import Pruning
from asyncjit.numpy._handle import ArraySpec
from asyncjit.plan import Plan, program_order_plan
from asyncjit.plan_data import plan_from_data, plan_to_data
from asyncjit.saving.kernels import check_kernel, find_kernel, kernel_to_data
from asyncjit.saving.names import Names
from asyncjit.saving.pool import Pool
from asyncjit.saving.recorded import read_recorded, recorded_to_data
from asyncjit.saving.values import read_token, token_to_data
from asyncjit.settings import settings
from asyncjit.storage import Storage
from asyncjit.variables import symbols_in

__all__ = ["capture_to_data", "has_state", "read_capture"]


def capture_to_data(entry: Entry, engine: Engine, pool: Pool, parameters: Sequence[str]) -> dict[str, Any]:
    """The capture; its storages by their numbers in ``pool``, its parameters by their names for messages.

    Raises:
        SaveError: something in it cannot be stored.
        ValueError: a value fixed at capture is of a type that plans cannot store, or a symbolic integer is too long.
    """
    # Whether it is lowered is looked at first: the plan may be replaced in between, but not the other way round.
    lowered = entry.pruning is None and entry.program.lowered
    plan = entry.program.plan if entry.pruning is None else program_order_plan(entry.captured.schedule)
    return {
        "key": [token_to_data(token, name) for token, name in zip(entry.key, parameters, strict=True)],
        "pattern": [[list(pair) for pair in group] for group in entry.pattern],
        "plan": plan_to_data(plan, kernel_to_data),
        "lowered_for": _tuning(engine, plan) if lowered else None,
        **recorded_to_data(entry, pool),
    }


def _tuning(engine: Engine, plan: Plan) -> list[object]:
    """What the lowering depends on besides the schedule: the device, and the settings of the process."""
    capabilities, chosen = engine.runner_of(plan.schedule).capabilities, settings()
    return [capabilities.streams_max, capabilities.segment_calls_first, chosen.jit, chosen.graph_batch_size]


def has_state(it: DataReader) -> bool:
    """Whether a capture reads or writes arrays that live outside of the function."""
    return not all(it["state"].each(lambda each: each[3].flag())) or bool(it["pinned"].data)


def read_capture(
    it: DataReader, storages: Sequence[Storage], names: Names, engine: Engine, name: str, options: Options
) -> Entry:
    """The capture, loaded in ``engine``. A plan that was lowered for such a device is taken as it is.

    Raises:
        ValueError: the data contradicts itself; the message names the piece.
        DeviceError: the engine lacks the device or an operation.
    """
    plan = plan_from_data(it["plan"].data, lambda piece, called, access: find_kernel(piece, called, access, names))
    for index, call in enumerate(plan.schedule.calls):
        check_kernel(it["plan"]["schedule"]["calls"][index], call)
    recorded = read_recorded(it, plan.schedule, storages, names, name)
    key = it["key"].each(lambda each: read_token(each, names))
    pattern = it["pattern"].each(lambda group: group.each(lambda pair: (pair[0].natural(), pair[1].integer())))
    inside = [each for token in key for each in _leaves(token)]
    _check_bindings(it, recorded, [each for each in inside if isinstance(each, ArraySpec)], pattern)
    _check_symbols(it, plan, recorded, {each for each in inside if isinstance(each, Symbol)})
    captured = recorded.captured
    pruned = split(captured) if options.prune else None
    if pruned is not None:
        program = engine.load(pruned.first, captured.state, pruned.first_outputs, executor=options.executor)
        pruning = Pruning(engine, pruned, program, options.executor)
    else:
        tuned = it["lowered_for"].data == _tuning(engine, plan)
        schedule, state, outputs = plan.schedule, captured.state, captured.outputs
        program = engine.load(schedule, state, outputs, lowering=not tuned, executor=options.executor, plan=plan)
        pruning = None
    return Entry(key, pattern, program, recorded, pruning)


def _check_bindings(it: DataReader, recorded: Recorded, specs: Sequence[ArraySpec], pattern: Pattern) -> None:
    """Each INPUT slot lies inside of the argument that it begins with, and of those that overlap that one."""
    if len(recorded.names) != len(specs):
        it["names"].fail(f"{len(specs)} texts, one for each array in the key")
    if any(place >= len(specs) for group in pattern for place, _ in group):
        it["pattern"].fail("of arrays in the key")
    slots = recorded.captured.schedule.slots
    for number, (index, shift) in enumerate(recorded.captured.bindings):
        group = next((dict(group) for group in pattern if index in dict(group)), {index: 0})
        reach = [
            (distance - group[index] + low, distance - group[index] + high)
            for place, distance in group.items()
            for low, high in [specs[place].extent]
        ]
        first, last = min(low for low, _ in reach), max(high for _, high in reach)
        if not first <= shift <= shift + slots[number].buffer.nbytes <= last:
            it["bindings"][number].fail("inside of its argument")


def _check_symbols(it: DataReader, plan: Plan, recorded: Recorded, bound: set[Symbol]) -> None:
    """Whatever is symbolic has a value in every call, and outputs and accesses no other symbols than the calls have."""
    captured = recorded.captured
    known = plan.schedule.symbols()
    results = symbols_in(tuple((each.offset, each.spec.shape, each.spec.strides) for each in captured.results))
    if not bound.issuperset((*known, *results)):
        it["key"].fail("of every variable that the plan has")
    accesses = tuple(each.operand.layout for each in (*plan.reads, *plan.writes) if each.operand is not None)
    if not set(known).issuperset(symbols_in((*captured.outputs.values(), accesses))):
        it["plan"].fail("of calls with every variable that it has")


def _leaves(token: Any) -> Iterator[ArraySpec | Symbol]:
    """The layouts of the arguments of a recording that stand in a token, and the variables."""
    if isinstance(token, ArraySpec):
        yield token
    elif token[0] == "#":
        yield token[1]
    elif token[0] == "$":
        yield Symbol(*token[1:])
    elif token[0] == "of":
        for each in token[3:]:
            yield from _leaves(each)
