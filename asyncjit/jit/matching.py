"""From a call to a replay: matched against what is captured, recorded where nothing fits, submitted.

Law: the order of these steps and nothing of the surface. The first call of a signature is recorded by whoever the
engine says is first; callers of the same signature meanwhile wait there, with their tickets, and find the capture when
their turn comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from asyncjit.algebra import Symbol
from asyncjit.capture import pattern_of, split
from asyncjit.engine import current_engine
from asyncjit.ir import Schedule
from asyncjit.jit.body import Argument, record, run_body
from asyncjit.jit.captures import Entry, Epoch, Key, Table
from asyncjit.jit.options import Options
from asyncjit.jit.pruning import Pruning
from asyncjit.jit.signature import Parameters, Values
from asyncjit.jit.structure import take_apart
from asyncjit.jit.tables import Tables, refuse_foreign, refuse_second
from asyncjit.jit.tokens import Stand
from asyncjit.numpy import Array, asarray, zeros
from asyncjit.program import Prepared
from asyncjit.replay import Replay
from asyncjit.settings import settings

__all__ = ["Matching", "copy_all"]

_logger = logging.getLogger("asyncjit.jit")

#: A list of arrays, or the arguments of the call themselves.
Arrays = list[Any] | tuple[Any, ...]
#: The values of the variables of a call.
Bindings = Mapping[Symbol, int]
Matched = tuple[Table, Epoch, Key, Arrays, Entry | None, Bindings]

_UNBOUND: Bindings = {}


class Matching:
    """One function, or one method of one instance, with its captures."""

    def __init__(self, function: Callable[..., Any], options: Options, parameters: Parameters, tables: Tables) -> None:
        self._function = function
        self._name: str = getattr(function, "__qualname__", None) or repr(function)
        self._options = options
        self._parameters = parameters
        self._row, self._row_max = parameters.row, parameters.row_max
        self._tables = tables

    def _guarded(self) -> object:
        """What the guards look at; of a method the plain function, so that captures do not keep the instance alive."""
        return self._function

    def _submit(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], then: Callable[[Any], Any] | None = None
    ) -> Replay[Any]:
        """Match or record, and submit. ``then`` makes the replay's result of the function's."""
        if settings().jit == "off" and not self._options.exempt:
            return self._run_eagerly(self._parameters.bind(args, kwargs), then)
        table, epoch, key, arrays, entry, bound = self._match(args, kwargs)
        if entry is None:
            return self._first(table, epoch, key, arrays, bound, args, kwargs, then)
        table.uses += 1
        entry.last_used = table.uses
        entry.replays += 1
        assemble, values = _outcome(entry, bound, then)
        return table.engine.submit(entry.program, entry.bind(arrays), table.group, assemble, entry.pruning, values)

    def _table(self) -> Table:
        engine = current_engine()
        table = self._tables.latest
        if table is None or table.engine is not engine:
            table = self._tables.of(engine, self._name, self._guarded(), self._options)
        return table

    def _match(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Matched:
        """Which capture fits. The usual case, a row of arrays, does without binding names."""
        engine = current_engine()
        table = self._tables.latest
        if table is None or table.engine is not engine:
            table = self._table()
        epoch = table.epoch
        if not epoch.guards.hold():
            epoch = table.current()
        if not kwargs and self._row <= len(args) <= self._row_max:
            try:
                key: Key = tuple([array._spec for array in args])
            except AttributeError:
                pass
            else:
                entry = epoch.entries.get(key)
                if entry is not None:
                    storages = {array._storage for array in args}
                    for storage in storages:
                        if storage.engine is not engine:
                            refuse_foreign(self._name, self._parameters, args, engine)
                    if (
                        len(storages) == len(args)
                        and not epoch.pinned
                        and (not entry.checks or entry.states.isdisjoint(storages))
                    ):
                        return table, epoch, key, args, entry, _UNBOUND
                    return table, epoch, key, args, table.find(epoch, key, args), _UNBOUND
        values = self._parameters.bind(args, kwargs)
        arrays: list[Any] = []
        key, bound = self._parameters.key_of(values, arrays, table.host)
        for array in arrays:
            if array._storage.engine is not engine:
                refuse_foreign(self._name, self._parameters, values, engine)
        return table, epoch, key, arrays, table.find(epoch, key, arrays), bound

    # First calls.

    def _first(
        self,
        table: Table,
        epoch: Epoch,
        key: Key,
        arrays: Arrays,
        bound: Bindings,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        then: Callable[[Any], Any] | None,
    ) -> Replay[Any]:
        values = self._parameters.bind(args, kwargs)
        if self._tables.warm_ups_left > 0 and self._tables.take_warm_up():
            return self._run_eagerly(values, then)
        if self._options.strict:
            refuse_second(table, key, self._parameters)

        used: list[Entry] = []

        def prepare() -> Prepared:
            now = table.current()
            entry = table.find(now, key, arrays) or self._capture(table, now, key, arrays, bound, values)
            entry.replays += 1
            used.append(entry)
            return entry.program, entry.bind(arrays), *_outcome(entry, bound, then)

        pattern = pattern_of(
            [array._storage for array in arrays],
            [array._offset for array in arrays],
            [array._spec for array in arrays],
        )
        replay = table.engine.submit_first(table.group, (epoch, key, pattern), prepare)
        if used and (pruning := used[0].pruning) is not None:
            with table.engine._lock:
                pruning.learn(replay)
        self._tables.tell()
        return replay

    def _capture(
        self,
        table: Table,
        epoch: Epoch,
        key: Key,
        leaves: Arrays,
        bound: Bindings,
        values: Values,
        *,
        lowering: bool = True,
    ) -> Entry:
        """Record the function on this thread and load the schedule."""
        if self._options.strict:
            refuse_second(table, key, self._parameters)
        arguments = [
            Argument(leaf._spec, None, 0)
            if isinstance(leaf, Stand)
            else Argument(leaf._spec, leaf._storage, leaf._offset)
            for leaf in leaves
        ]
        recorded = record(table.engine, self._function, self._parameters, values, arguments, self._name)
        captured = recorded.captured
        _check_bound(self._name, captured.schedule, bound)
        engine, executor = table.engine, self._options.executor
        pruned = split(captured) if self._options.prune else None
        schedule, outputs = captured.schedule, captured.outputs
        if pruned is not None:
            schedule, outputs = pruned.first, pruned.first_outputs
        program = engine.load(schedule, captured.state, outputs, lowering=lowering, executor=executor)
        if not lowering:
            program.lowered = False
        pruning = None if pruned is None else Pruning(engine, pruned, program, executor, lowering=lowering)
        arrays = [leaf for leaf in leaves if not isinstance(leaf, Stand)]
        pattern = pattern_of([a._storage for a in arrays], [a._offset for a in arrays], [a._spec for a in arrays])
        others = [] if self._tables.told else list({entry.key for entry in table})
        entry = table.add(epoch, Entry(key, pattern, program, recorded, pruning))
        _logger.debug("captured %s as %d calls", self._name, len(schedule.calls))
        self._tables.note_integers(self._parameters, key, others, self._options.captures_max)
        return entry

    # Without a capture.

    def _run_here(self, values: Values) -> Any:
        """Run the function with everything in it done on the spot: recorded by the recording around it, or eager."""
        values = self._parameters.rebuild(values, _as_array)
        return run_body(self._function, self._parameters, values, self._name)

    def _run_eagerly(self, values: Values, then: Callable[[Any], Any] | None) -> Replay[Any]:
        """Run the function eagerly; the replay copies what it returned."""
        pieces, build = take_apart(self._run_here(values), self._name)
        # A replay copies something even where nothing is returned.
        arrays = tuple(array for _, array in pieces) or (zeros(1),)
        return copy_all._submit((arrays,), {}, build if then is None else _chained(then, build))


def _outcome(
    entry: Entry, bound: Bindings, then: Callable[[Any], Any] | None
) -> tuple[Callable[[list[Any]], Any], Sequence[int]]:
    """What makes the result of a call, and the values of its symbols; those of a pruned capture are the whole's too."""
    if not bound:
        return entry.assemble if then is None else _chained(then, entry.assemble), ()
    assemble = entry.results.assembler(bound)
    values = [bound[symbol] for symbol in entry.program.symbols]
    return assemble if then is None else _chained(then, assemble), values


def _check_bound(function: str, schedule: Schedule, bound: Bindings) -> None:
    """Whatever is symbolic in a capture is bound by every call that fits it.

    Raises:
        ValueError: a variable that the function uses is not among its arguments.
    """
    missing = [symbol.name for symbol in schedule.symbols() if symbol not in bound]
    if missing:
        raise ValueError(
            f"{function!r} uses the variables {missing}, but the call binds {[symbol.name for symbol in bound]}; pass "
            f"each of them as an argument, {missing[0]}.bind(value), and use it through the parameter"
        )


def _as_array(value: Any, _: str) -> Any:
    """NumPy's arrays and scalars as arrays; Python's numbers adapt to the arrays around them as they are."""
    return asarray(value) if isinstance(value, np.ndarray | np.generic) else value


def _chained(then: Callable[[Any], Any], first: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda storages: then(first(storages))


def _copy_all(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(array.copy() for array in arrays)


#: Copies arrays under one ticket, any number of any kind.
copy_all = Matching(
    _copy_all,
    Options(captures_max=64, in_flight_max=64, exempt=True, admits_aliases=True),
    Parameters(_copy_all, (), ()),
    Tables(0),
)
