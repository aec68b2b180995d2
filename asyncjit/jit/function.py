"""The jitted function: a call is matched, recorded where nothing fits, and submitted.

Law: the surface that a user calls; what is decided here is only which of the three happens.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload

import anyio.to_thread

from asyncjit.errors import CaptureError, WouldBlockError
from asyncjit.jit.batching import Batched, buckets_of
from asyncjit.jit.body import Body, Ready, inlining, is_inlining
from asyncjit.jit.holding import Holding
from asyncjit.jit.hosts import PrepareHost
from asyncjit.jit.mapped import Mapped, refuse_to_map
from asyncjit.jit.matching import Matching
from asyncjit.jit.options import Options
from asyncjit.jit.signature import Parameters
from asyncjit.jit.tables import Tables
from asyncjit.replay import Replay
from asyncjit.streams import in_event_loop

__all__ = ["JitFunction", "MethodFunction"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")


class JitFunction(Holding[P, R]):
    """A function whose calls are replays; made by ``jit``. Callable from any thread, task and loop.

    As a method it captures for each instance apart.
    """

    #: Whether calls are replays, which a pipeline chains without waiting.
    gives_replays = True

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        _check_function(function)
        functools.update_wrapper(self, function)
        parameters = Parameters(function, options.static, options.dynamic)
        super().__init__(function, options, parameters, Tables(options.warm_up))
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
        return self._submit(args, kwargs)

    def run(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call, block until the replay has ended, and return its result. For scripts and plain threads.

        Raises:
            WouldBlockError: in a running event loop; await the call there.
        """
        if is_inlining():
            result: R = self._run_here(self._parameters.bind(args, kwargs))
            return result
        if in_event_loop():
            raise WouldBlockError(
                f"{self._name}.run() would freeze the running event loop; write `await {self._name}(…)` here, and keep "
                "run() for scripts and threads without a loop",
                function=self._name,
            )
        return self(*args, **kwargs).wait()

    def map(self, source: Iterable[Any] | AsyncIterable[Any], in_flight: int = 2, *, star: bool = False) -> Mapped[R]:
        """An async iterator over the results for the items of ``source``, in their order; starts no task.

        Calls the function for up to ``in_flight`` items ahead, and waits for the oldest. An item is the one argument;
        with ``star`` it is unpacked into positional ones. When to wait, errors and the end: see ``Mapped``.

        Raises:
            TypeError: ``source`` cannot be iterated over.
            ValueError: ``in_flight`` is less than 1.
            CaptureError: inside the recording of a function, where nothing runs.
        """
        if is_inlining():
            refuse_to_map(self._name)
        call: Callable[..., Replay[R]] = self
        return Mapped((lambda item: call(*item)) if star else call, source, in_flight, self._name)

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
        key, bound = self._parameters.key_of(values, leaves, PrepareHost(table.engine))
        epoch = table.current()
        entry = epoch.entries.get(key)
        if entry is None:
            entry = self._capture(table, epoch, key, leaves, bound, values, lowering=False)
            self._tables.tell()
        for program in entry.programs():
            await anyio.to_thread.run_sync(table.engine.lower, program, self._options.executor)

    def batched(
        self, rows_max: int, wait_max_s: float, buckets: Iterable[int] | None = None, shared: str | Iterable[str] = ()
    ) -> Batched[P, R]:
        """This function with concurrent calls sharing a replay: each passes rows and gets its own rows of every output.

        A call that comes while no batch is in flight starts at once. Otherwise calls gather until a batch ends, until
        they make ``rows_max`` rows, or until one has waited ``wait_max_s`` seconds. Only calls whose arguments differ
        in nothing but rows share a batch. A call with more than ``rows_max`` rows is not split and runs alone.

        The function must treat each row by itself: one that mixes rows (a mean over the first axis, batch norm in
        training) gives results that depend on who else called, and writes to an argument reach only the batch's copy.

        Args:
            buckets: numbers of rows to which batches are padded, by repeating their first row; powers of two unless
                given, and always ``rows_max``. Each is a capture; ``captures_max`` counts them as one.
            shared: parameters that are no rows, such as weights: batched calls pass the same Array there.

        Raises:
            ValueError: an option out of its range; ``strict`` with several buckets; ``shared`` names no parameter.
        """
        if rows_max < 1 or not wait_max_s >= 0:
            raise ValueError(f"rows_max must be at least 1 and wait_max_s at least 0, got {rows_max} and {wait_max_s}")
        sizes = buckets_of(rows_max, buckets)
        if self._options.strict and len(sizes) > 1:
            raise ValueError(
                f"{self._name!r} is strict and has one capture, but buckets={sizes} need one each; leave out "
                f"strict=True, or pass buckets=({rows_max},)"
            )
        # Captures of its own, so that buckets do not drive out those of plain calls.
        options = replace(self._options, captures_max=self._options.captures_max * len(sizes))
        function: JitFunction[Any, Any] = JitFunction(self._function, options)
        names = (shared,) if isinstance(shared, str) else tuple(shared)
        return Batched(function, function._parameters, self._name, sizes, wait_max_s, names)

    def _inline(self, body: Body, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Part of the function around it: arrays in a ``def`` body, an awaitable of them in an ``async def`` one."""
        is_async = body.is_async
        result = self._run_here(self._parameters.bind(args, kwargs))
        return Ready(result) if is_async else result

    def match(self, *args: P.args, **kwargs: P.kwargs) -> object:
        """The capture that a call with these arguments would replay, opaque, or None; calls nothing."""
        return self._match(args, kwargs)[4]

    def __copy__(self) -> Self:
        """Itself, as with Python's functions: what it reads outside is not copied either."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

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
        return MethodFunction(self, instance, tables)

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


class MethodFunction(JitFunction[Any, Any]):
    """A jitted function as a method of one instance; a new one at every access, so it holds little."""

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        doc: str | None = self._owner.__doc__
        return doc

    def __init__(self, owner: JitFunction[Any, Any], instance: Any, tables: Tables) -> None:
        self._owner = owner
        function = types.MethodType(owner._function, instance)
        parameters = owner._method_parameters
        if parameters is None:
            parameters = Parameters(function, owner._options.static, owner._options.dynamic)
            owner._method_parameters = parameters
        Matching.__init__(self, function, owner._options, parameters, tables)

    def _guarded(self) -> object:
        return self._owner._function

    @property
    def __wrapped__(self) -> Any:
        return self._owner.__wrapped__  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        # The name, docstring and the like of the function.
        return getattr(object.__getattribute__(self, "_owner"), name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MethodFunction) and self._function == other._function

    def __hash__(self) -> int:
        return hash(self._function)


def _check_function(function: object) -> None:
    if isinstance(function, staticmethod | classmethod):
        raise TypeError(f"put @aj.jit below @{type(function).__name__}, directly on the function")
    if not callable(function):
        raise TypeError(f"jit takes a function, got {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function!r} is a generator; a captured function returns its results at once")
