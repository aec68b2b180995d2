"""The jitted function: a call is matched, recorded where nothing fits, and submitted.

Law: the surface that a user calls; what is decided here is only which of the three happens.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import anyio.to_thread
import numpy as np

from asyncjit.capture import pattern_of
from asyncjit.engine import current_engine
from asyncjit.errors import CaptureError, WouldBlockError
from asyncjit.jit.body import Argument, Body, Ready, inlining, record, run_body
from asyncjit.jit.captures import Entry, Epoch, Key, Table
from asyncjit.jit.explain import explain_table
from asyncjit.jit.hosts import PrepareHost
from asyncjit.jit.options import Options, Statistics
from asyncjit.jit.signature import Parameters, Values
from asyncjit.jit.structure import take_apart
from asyncjit.jit.tables import Tables, refuse_foreign, refuse_second
from asyncjit.jit.tokens import Stand
from asyncjit.numpy import Array, asarray, zeros
from asyncjit.replay import Replay
from asyncjit.streams import in_event_loop

__all__ = ["JitFunction", "copy_all"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")


class JitFunction(Generic[P, R]):
    """A function whose calls are replays; made by ``jit``. Callable from any thread, task and loop.

    As a method it captures for each instance apart.
    """

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        _check_function(function)
        functools.update_wrapper(self, function)
        self._function: Callable[..., Any] = function
        self._name: str = getattr(function, "__qualname__", None) or repr(function)
        self._options = options
        self._parameters = Parameters(function, options.static, options.dynamic)
        self._row, self._row_max = self._parameters.row, self._parameters.row_max
        self._tables = Tables(options.warm_up)
        self._method_parameters: Parameters | None = None
        self._instances: dict[int, tuple[weakref.ref[Any], Tables]] = {}

    # Calls.

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Replay[R]:
        """Take a ticket and start the work; never waits. Awaiting the replay gives what the function returns.

        The first call of a signature records the function, on this thread, before it returns; callers of the same
        signature on other threads wait for that. Inside the recording of another function the call is inlined: it gives
        the function's result itself, in an ``async def`` body an awaitable of it.

        Raises:
            CaptureError: the function cannot be recorded, or an argument is of a kind that no capture can tell apart.
            ReplayMismatchError: with ``strict``, when the call does not fit the one capture.
            AliasError: a written argument overlaps another in a way that the capture did not have.
            EngineBusyError, EngineClosedError: the engine takes no more; nothing was enqueued.
        """
        body = inlining.get()
        if body is not None and body.active:
            inlined: Replay[R] = self._inline(body, args, kwargs)
            return inlined
        table, epoch, key, arrays, entry = self._match(args, kwargs)
        if entry is None:
            return self._first(table, epoch, key, arrays, args, kwargs)
        table.uses += 1
        entry.last_used = table.uses
        entry.replays += 1
        return table.engine.submit(entry.program, entry.bind(arrays), table.group, entry.assemble)

    def run(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call, block until the replay has ended, and return its result. For scripts and plain threads.

        Raises:
            WouldBlockError: in a running event loop; await the call there.
        """
        body = inlining.get()
        if body is not None and body.active:
            result: R = self._inlined(args, kwargs)
            return result
        if in_event_loop():
            raise WouldBlockError(
                f"{self._name}.run() would freeze the running event loop; write `await {self._name}(…)` here, and keep "
                "run() for scripts and threads without a loop",
                function=self._name,
            )
        return self(*args, **kwargs).wait()

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Record the function for such arguments, lower and compile it, before the first request needs it.

        Pass ``aj.spec(shape, dtype)`` where a call will pass an array, everything else as in a call. Returns when the
        next call replays the finished plan. The lowering runs on a thread.

        Raises:
            CaptureError: as a call would.
        """
        table = self._table()
        values = self._parameters.bind(args, kwargs)
        leaves: list[Any] = []
        key = self._parameters.key_of(values, leaves, PrepareHost(table.engine))
        epoch = table.current()
        entry = epoch.entries.get(key)
        if entry is None:
            entry = self._capture(table, epoch, key, leaves, values, lowering=False)
            self._tables.tell()
        await anyio.to_thread.run_sync(table.engine.lower, entry.program, self._options.executor)

    def _table(self) -> Table:
        engine = current_engine()
        table = self._tables.latest
        if table is None or table.engine is not engine:
            table = self._tables.of(engine, self._name, self._function, self._options)
        return table

    def _match(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Table, Epoch, Key, list[Any] | tuple[Any, ...], Entry | None]:
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
                        return table, epoch, key, args, entry
                    return table, epoch, key, args, table.find(epoch, key, args)
        values = self._parameters.bind(args, kwargs)
        arrays: list[Any] = []
        key = self._parameters.key_of(values, arrays, table.host)
        for array in arrays:
            if array._storage.engine is not engine:
                refuse_foreign(self._name, self._parameters, values, engine)
        return table, epoch, key, arrays, table.find(epoch, key, arrays)

    def match(self, *args: P.args, **kwargs: P.kwargs) -> object:
        """The capture that a call with these arguments would replay, opaque, or None; calls nothing."""
        return self._match(args, kwargs)[4]

    # First calls.

    def _first(
        self,
        table: Table,
        epoch: Epoch,
        key: Key,
        arrays: list[Any] | tuple[Any, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        then: Callable[[Any], Any] | None = None,
    ) -> Replay[Any]:
        values = self._parameters.bind(args, kwargs)
        if self._tables.warm_ups_left > 0 and self._tables.take_warm_up():
            return self._warm_up(values)
        if self._options.strict:
            refuse_second(table, key, self._parameters)

        def prepare() -> tuple[Any, Any, Any]:
            now = table.current()
            entry = table.find(now, key, arrays) or self._capture(table, now, key, arrays, values)
            entry.replays += 1
            assemble = entry.assemble
            if then is not None:
                return entry.program, entry.bind(arrays), lambda storages: then(assemble(storages))
            return entry.program, entry.bind(arrays), assemble

        pattern = pattern_of(
            [array._storage for array in arrays],
            [array._offset for array in arrays],
            [array._spec for array in arrays],
        )
        replay = table.engine.submit_first(table.group, (epoch, key, pattern), prepare)
        self._tables.tell()
        return replay

    def _capture(
        self,
        table: Table,
        epoch: Epoch,
        key: Key,
        leaves: list[Any] | tuple[Any, ...],
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
        program = table.engine.load(
            captured.schedule, captured.state, captured.outputs, lowering=lowering, executor=self._options.executor
        )
        if not lowering:
            program.lowered = False
        arrays = [leaf for leaf in leaves if not isinstance(leaf, Stand)]
        pattern = pattern_of([a._storage for a in arrays], [a._offset for a in arrays], [a._spec for a in arrays])
        others = [] if self._tables.told else [entry.key for entry in table]
        entry = table.add(epoch, Entry(key, pattern, program, recorded))
        self._tables.note_integers(self._parameters, key, others, self._options.captures_max)
        return entry

    # Without a capture.

    def _inline(self, body: Body, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        is_async = body.is_async
        result = self._inlined(args, kwargs)
        return Ready(result) if is_async else result

    def _inlined(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def as_array(value: Any, _: str) -> Any:
            return asarray(value) if isinstance(value, np.ndarray | np.generic) else value

        values = self._parameters.rebuild(self._parameters.bind(args, kwargs), as_array)
        return run_body(self._function, self._parameters, values, self._name)

    def _warm_up(self, values: Values) -> Replay[Any]:
        """Run the function eagerly; the replay copies what it returned."""

        def as_array(value: Any, _: str) -> Any:
            return value if isinstance(value, Array) else asarray(value)

        result = run_body(self._function, self._parameters, self._parameters.rebuild(values, as_array), self._name)
        pieces, build = take_apart(result, self._name)
        arrays = tuple(array for _, array in pieces) or (zeros(1),)
        table, epoch, key, leaves, _ = copy_all._match((arrays,), {})
        return copy_all._first(table, epoch, key, leaves, (arrays,), {}, build)

    # What it holds.

    @property
    def captures(self) -> list[str]:
        """The signatures that are captured now, in words."""
        return [self._describe(entry) for table in self._tables.all() for entry in table]

    def _describe(self, entry: Entry) -> str:
        return f"{self._name}({self._parameters.describe(entry.key)})"

    def statistics(self) -> Statistics:
        """Counts since the function was made or ``reset``."""
        tables = self._tables.all()
        return Statistics(
            captures=sum(len(list(table)) for table in tables),
            captures_made=sum(table.made for table in tables),
            captures_dropped=sum(table.dropped for table in tables),
            replays=sum(table.replays() for table in tables),
        )

    def explain(self) -> str:
        """What each capture does: its calls, streams, waits and bytes, as a table to read."""
        return "\n\n".join(
            explain_table(self._describe(entry), entry) for table in self._tables.all() for entry in table
        )

    def reset(self) -> None:
        """Forget all captures; replays under way are not touched. The next call records anew."""
        self._tables.clear()

    def free_intermediates(self) -> None:
        """Free the frames that no replay uses at the moment; the next replays make new ones."""
        for table in self._tables.all():
            for entry in table:
                with table.engine._lock:
                    entry.program.loaded.drop_frames(table.group)

    def __repr__(self) -> str:
        return f"<jit {self._name}: {len(self.captures)} captured>"

    # Methods.

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> JitFunction[P, R]: ...
    @overload
    def __get__(
        self: JitFunction[Concatenate[S, Q], R], instance: S, owner: type | None = None
    ) -> JitFunction[Q, R]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: captures belong to the instance."""
        if instance is None:
            return self
        known = self._instances.get(id(instance))
        tables = known[1] if known is not None and known[0]() is instance else self._adopt(instance)
        return _Method(self, instance, tables)

    def _adopt(self, instance: Any) -> Tables:
        key, instances = id(instance), self._instances
        try:
            reference = weakref.ref(instance, lambda gone: _forget(instances, key, gone))
        except TypeError:
            raise CaptureError(
                f"{self._name!r} is a method of {type(instance).__qualname__!r}, whose instances cannot be referred to "
                "weakly; add '__weakref__' to its __slots__",
                function=self._name,
            ) from None
        tables = Tables(self._options.warm_up)
        instances[key] = (reference, tables)
        return tables


def _forget(instances: dict[int, tuple[weakref.ref[Any], Tables]], key: int, gone: weakref.ref[Any]) -> None:
    # The address may belong to another instance by now.
    known = instances.get(key)
    if known is not None and known[0] is gone:
        del instances[key]


class _Method(JitFunction[Any, Any]):
    """A jitted function as a method of one instance; a new one at every access, so it holds little."""

    def __init__(self, owner: JitFunction[Any, Any], instance: Any, tables: Tables) -> None:
        self._owner = owner
        self._function = types.MethodType(owner._function, instance)
        self._name = owner._name
        self._options = owner._options
        parameters = owner._method_parameters
        if parameters is None:
            parameters = Parameters(self._function, owner._options.static, owner._options.dynamic)
            owner._method_parameters = parameters
        self._parameters = parameters
        self._row, self._row_max = parameters.row, parameters.row_max
        self._tables = tables

    @property
    def __wrapped__(self) -> Any:
        return self._owner.__wrapped__  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        # The name, docstring and the like of the function.
        return getattr(object.__getattribute__(self, "_owner"), name)

    def _table(self) -> Table:
        engine = current_engine()
        # The plain function: captures must not keep the instance alive.
        return self._tables.of(engine, self._name, self._owner._function, self._options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Method) and self._function == other._function

    def __hash__(self) -> int:
        return hash(self._function)


def _check_function(function: object) -> None:
    if isinstance(function, staticmethod | classmethod):
        raise TypeError(f"put @aj.jit below @{type(function).__name__}, directly on the function")
    if not callable(function):
        raise TypeError(f"jit takes a function, got {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function!r} is a generator; a captured function returns its results at once")


def _copy_all(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(array.copy() for array in arrays)


#: Copies arrays under one ticket, any number of any kind.
copy_all: JitFunction[[tuple[Array, ...]], tuple[Array, ...]] = JitFunction(
    _copy_all, Options(captures_max=64, in_flight_max=64, exempt=True, admits_aliases=True)
)
