"""A jitted function under the names of its inputs and outputs, and the one that shares replays between calls.

Law: names in, names out; recording and replaying is ``jit``'s.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any

from asyncjit.errors import OnnxError, WouldBlockError
from asyncjit.jit import Batched, BatchStatistics, CheckReport, JitFunction, Statistics
from asyncjit.jit.body import is_inlining
from asyncjit.jit.mapped import Mapped
from asyncjit.named.buckets import Buckets
from asyncjit.named.inputs import ValueType, bind, identifiers, listed
from asyncjit.named.known import Known, to_host
from asyncjit.streams import in_event_loop

__all__ = ["BatchedModel", "NamedFunction", "NamedModel"]


class NamedModel(ABC):
    """What ``save`` stores as a function of named inputs."""

    name: str

    @abstractmethod
    def as_function(self) -> NamedFunction:
        """The function, with its captures.

        Raises:
            SaveError: it is not one function; says what to do.
        """


class NamedFunction(NamedModel):
    """A jitted function that is called with inputs by name, or in the model's order, and gives outputs by name.

    Inputs are arrays, NumPy arrays of exactly the dtype that is declared, or numbers and lists of numbers; lists of
    arrays where it takes a sequence; None or nothing where it takes an optional. The values of *static* ones are part
    of the signature.

    Callable from any thread, task and loop.
    """

    #: A pipeline may chain calls without waiting.
    gives_replays = True

    def __init__(
        self,
        name: str,
        function: JitFunction[..., Any],
        parameters: tuple[str, ...],
        statics: frozenset[str],
        inputs: tuple[ValueType, ...],
        outputs: tuple[ValueType, ...],
        buckets: Buckets,
    ) -> None:
        """``function`` takes the inputs named in ``parameters``, in that order; ``statics`` among them as ``Known``."""
        self.name = name
        self.function = function
        self.parameters = parameters
        self.statics = statics
        self.inputs = inputs
        self.outputs = outputs
        self.buckets = buckets

    def as_function(self) -> NamedFunction:
        """Itself."""
        return self

    @property
    def static(self) -> tuple[str, ...]:
        """Inputs whose values are part of the signature."""
        return tuple(each.name for each in self.inputs if each.name in self.statics)

    # Calls.

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Start a replay; awaiting it gives outputs by name. One dict passes all inputs by name.

        Raises:
            OnnxError: inputs do not fit what is declared, or cannot be recorded with their shapes.
            ReplayMismatchError: it was loaded by ``aj.load``, and this call was not captured before it was saved.
            EngineBusyError, EngineClosedError: as a jitted function.
        """
        values = bind(self.inputs, args, kwargs, self.name)
        if not self.buckets or is_inlining():
            return self.function(*self.arguments(values))
        padded, cut = self.buckets.pad(values)
        then = (lambda outputs: self.buckets.cut(outputs, cut)) if cut else None
        return self.function._submit(tuple(self.arguments(padded)), {}, then)

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """What the function is called with."""
        return [Known(to_host(values[name])) if name in self.statics else values[name] for name in self.parameters]

    def run(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Call and block until the outputs are there. For scripts and plain threads.

        Raises:
            WouldBlockError: in a running event loop.
        """
        if in_event_loop():
            raise WouldBlockError(
                f"{self.name}.run() would freeze the running event loop; write `await model(…)` here", model=self.name
            )
        result: dict[str, Any] = self(*args, **kwargs).wait()
        return result

    def map(
        self, source: Iterable[Any] | AsyncIterable[Any], in_flight: int = 2, *, star: bool = False
    ) -> Mapped[dict[str, Any]]:
        """An async iterator over the outputs for the items of ``source``, as of a jitted function.

        An item is the one input, or a dict of inputs by name; with ``star`` a tuple of inputs.
        """
        return Mapped((lambda item: self(*item)) if star else self, source, in_flight, self.name)

    def batched(
        self, rows_max: int, wait_max_s: float, buckets: Iterable[int] | None = None, shared: str | Iterable[str] = ()
    ) -> BatchedModel:
        """The function with concurrent calls sharing a replay, by rows of the first axis of every input and output; see
        ``batched`` of a jitted function. ``shared`` names inputs that are no rows; static ones never are."""
        names = identifiers(self.parameters)
        given = (shared,) if isinstance(shared, str) else tuple(shared)
        unknown = [name for name in given if name not in names]
        if unknown:
            raise OnnxError(f"shared= names {unknown}; the inputs of {self.name!r} are {listed(self.inputs)}")
        shared_names = tuple(names[name] for name in given)
        return BatchedModel(self, self.function.batched(rows_max, wait_max_s, buckets, shared_names))

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Record, lower and compile it for such inputs, before the first request needs it.

        Pass ``aj.spec(shape, dtype)`` for an array, the value of a static input.
        """
        await self.function.prepare(*self.arguments(bind(self.inputs, args, kwargs, self.name)))

    async def check(self, *args: Any, **kwargs: Any) -> CheckReport:
        """Replay a call, run it eagerly beside it, and report every difference; as of a jitted function."""
        return await self.function.check(*self.arguments(bind(self.inputs, args, kwargs, self.name)))

    # What it holds.

    @property
    def captures(self) -> list[str]:
        """The signatures that are captured now, in words."""
        return self.function.captures

    def statistics(self) -> Statistics:
        """Counts since it was made, or ``reset``."""
        return self.function.statistics()

    def explain(self) -> str:
        """What each capture does: calls, streams, waits, bytes, and the node that each call comes from."""
        return self.function.explain()

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Write what each capture does as a drawing to ``path``, an SVG file.

        Raises:
            NothingCapturedError: nothing was captured yet.
        """
        self.function.draw(path)

    def reset(self) -> None:
        """Forget all captures."""
        self.function.reset()

    def free_intermediates(self) -> None:
        """Free the memory of intermediates that no replay uses at the moment."""
        self.function.free_intermediates()

    def __repr__(self) -> str:
        return f"<model {self.name}: ({listed(self.inputs)}) -> ({listed(self.outputs)})>"


class BatchedModel:
    """A model whose concurrent calls share replays; made by its ``batched``. Any thread, task and loop."""

    def __init__(self, model: NamedFunction, batched: Batched[..., Any]) -> None:
        self.model = model
        self._batched = batched

    async def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model on these rows together with those of other calls; gives the rows of this call."""
        result: dict[str, Any] = await self._batched(*self._arguments(args, kwargs))
        return result

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Record and lower the model for every bucket of rows."""
        await self._batched.prepare(*self._arguments(args, kwargs))

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        return self.model.arguments(bind(self.model.inputs, args, kwargs, self.model.name))

    @property
    def buckets(self) -> tuple[int, ...]:
        """Numbers of rows that batches are padded to."""
        return self._batched.buckets

    def statistics(self) -> BatchStatistics:
        """Counts since it was made."""
        return self._batched.statistics()
