"""The model as a user holds it.

Law: the surface; what a run is made of is ``_program``'s.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from asyncjit.errors import OnnxError, WouldBlockError
from asyncjit.jit import Batched, BatchStatistics, CheckReport, JitFunction
from asyncjit.jit.body import is_inlining
from asyncjit.jit.holding import draw_all
from asyncjit.jit.mapped import Mapped
from asyncjit.jit.options import Options, Statistics
from asyncjit.onnx._buckets import Buckets, Sizes
from asyncjit.onnx._driving import awaited, blocked
from asyncjit.onnx._fusing import fuse
from asyncjit.onnx._inputs import bind, describe, identifiers
from asyncjit.onnx._model_data import ValueType
from asyncjit.onnx._preparing import bind_operators, fold_constants
from asyncjit.onnx._program import Program, Weights
from asyncjit.onnx._reading import Source
from asyncjit.onnx._steps import HostStep, RecordedStep, steps_of
from asyncjit.streams import in_event_loop

__all__ = ["BatchedModel", "Model"]


class Model:
    """An ONNX model as an awaitable function of its inputs, made by ``load``.

    A call takes inputs by name, or in the model's order, and gives a ``Replay`` of a dict: outputs by name. The first
    call of each signature (shapes, dtypes and devices of arrays, values of *static* inputs) is recorded, every other
    one replays, as with ``jit``. Inputs are arrays, NumPy arrays of exactly the dtype that the model declares, or
    numbers and lists of numbers; lists of arrays where it takes a sequence; None or nothing where it takes an optional.

    An input is static when something that has to be known at the recording follows from its value: a shape, an axis,
    the condition of an ``If``. A model in which such a thing follows from what it computes (``NonMaxSuppression``, a
    ``Loop`` until something converges) is run in several steps, see ``is_recorded``.

    Callable from any thread, task and loop.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        static: tuple[str, ...],
        bucket: Mapping[str, Sizes],
        value_bytes_max: int,
        options: Options,
    ) -> None:
        graph = source.graph
        unknown = set(static) - {each.name for each in graph.inputs}
        if unknown:
            raise OnnxError(f"static= names {sorted(unknown)}; the inputs of {name!r} are {_listed(graph.inputs)}")
        bind_operators(graph)
        fold_constants(graph, value_bytes_max)
        fuse(graph)
        fold_constants(graph, value_bytes_max)
        self.name = name
        self.source = source
        self._inputs = graph.inputs
        self._outputs = graph.outputs
        steps = steps_of(graph, static)
        self._buckets = Buckets(bucket, graph.inputs, graph.outputs)
        self._weights = Weights(graph)
        self._program = Program(steps, self._weights, value_bytes_max, options, name, graph.inputs)

    @property
    def gives_replays(self) -> bool:
        """Whether a pipeline may chain calls without waiting; as ``is_recorded``."""
        return self.is_recorded

    # What it is.

    @property
    def inputs(self) -> tuple[ValueType, ...]:
        """The inputs, in the order in which they may be passed by position."""
        return self._inputs

    @property
    def outputs(self) -> tuple[ValueType, ...]:
        return self._outputs

    @property
    def static(self) -> tuple[str, ...]:
        """Inputs whose values are part of the signature."""
        first = self._program.steps.steps[0]
        names = getattr(first, "statics", ())
        return tuple(each.name for each in self._inputs if each.name in names)

    @property
    def is_recorded(self) -> bool:
        """Whether a call is one replay.

        Otherwise values that the model computes decide about shapes or branches of it; it is cut into parts that are
        replayed, and the host reads and computes between them. A call is then a coroutine to be awaited once, and its
        later parts have their places in the order of calls where they are reached.
        """
        return self._program.steps.is_recorded

    @property
    def weight_bytes(self) -> int:
        """Bytes of the constants, which all captures share."""
        return self._weights.nbytes

    # Calls.

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Start a run; awaiting it gives outputs by name. One dict passes all inputs by name.

        Raises:
            OnnxError: inputs do not fit, or a node cannot be done with their shapes.
            EngineBusyError, EngineClosedError: as a jitted function.
        """
        values = bind(self._inputs, args, kwargs, self.name)
        if not self.is_recorded:
            return awaited(self._program.run(values))
        function: JitFunction[..., Any] = self._program.function
        if not self._buckets or is_inlining():
            return function(*self._arguments(values))
        padded, cut = self._buckets.pad(values)
        then = (lambda outputs: self._buckets.cut(outputs, cut)) if cut else None
        return function._submit(tuple(self._arguments(padded)), {}, then)

    def _arguments(self, values: Mapping[str, Any]) -> list[Any]:
        step = self._program.steps.steps[0]
        assert isinstance(step, RecordedStep)
        return self._program.arguments(step, values)

    def run(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Call and block until the outputs are there. For scripts and plain threads.

        Raises:
            WouldBlockError: in a running event loop.
        """
        if in_event_loop():
            raise WouldBlockError(
                f"{self.name}.run() would freeze the running event loop; write `await model(…)` here", model=self.name
            )
        if self.is_recorded:
            result: dict[str, Any] = self(*args, **kwargs).wait()
            return result
        return blocked(self._program.run(bind(self._inputs, args, kwargs, self.name)))

    def map(
        self, source: Iterable[Any] | AsyncIterable[Any], in_flight: int = 2, *, star: bool = False
    ) -> Mapped[dict[str, Any]]:
        """An async iterator over the outputs for the items of ``source``, as of a jitted function.

        An item is the one input, or a dict of inputs by name; with ``star`` a tuple of inputs.
        """
        self._only_recorded("map")
        return Mapped((lambda item: self(*item)) if star else self, source, in_flight, self.name)

    def batched(
        self, rows_max: int, wait_max_s: float, buckets: Iterable[int] | None = None, shared: str | Iterable[str] = ()
    ) -> BatchedModel:
        """The model with concurrent calls sharing a replay, by rows of the first axis of every input and output; see
        ``batched`` of a jitted function. ``shared`` names inputs that are no rows; static ones never are."""
        self._only_recorded("batched")
        names = identifiers(self._parameters)
        given = (shared,) if isinstance(shared, str) else tuple(shared)
        unknown = [name for name in given if name not in names]
        if unknown:
            raise OnnxError(f"shared= names {unknown}; the inputs of {self.name!r} are {_listed(self._inputs)}")
        batched: Batched[..., Any] = self._program.function.batched(
            rows_max, wait_max_s, buckets, tuple(names[name] for name in given)
        )
        return BatchedModel(self, batched)

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Record, lower and compile the model for such inputs, before the first request needs it.

        Pass ``aj.spec(shape, dtype)`` for an array, the value of a static input.
        """
        self._only_recorded("prepare")
        values = bind(self._inputs, args, kwargs, self.name)
        await self._program.function.prepare(*self._arguments(values))

    async def check(self, *args: Any, **kwargs: Any) -> CheckReport:
        """Replay a call, run it eagerly beside it, and report every difference; as of a jitted function."""
        self._only_recorded("check")
        values = bind(self._inputs, args, kwargs, self.name)
        return await self._program.function.check(*self._arguments(values))

    def _only_recorded(self, what: str) -> None:
        if not self.is_recorded:
            raise OnnxError(
                f"{self.name!r} is run in several steps, because values that it computes decide about shapes or "
                f"branches ({self._reason()}); {what}() needs a model that is one replay"
            )

    def _reason(self) -> str:
        node = next((each.node for each in self._program.steps.steps if isinstance(each, HostStep)), None)
        return "a later part needs them" if node is None else node.title

    # What it holds.

    @property
    def captures(self) -> list[str]:
        """The signatures that are captured now, in words."""
        return [each for function in self._program.all_functions() for each in function.captures]

    def statistics(self) -> Statistics:
        """Counts since the model was loaded or ``reset``; of a model of several steps, over all of them."""
        all_counts = [function.statistics() for function in self._program.all_functions()]
        names = [field.name for field in fields(Statistics)]
        return Statistics(**{name: sum(getattr(each, name) for each in all_counts) for name in names})

    def explain(self) -> str:
        """What each capture does: calls, streams, waits, bytes, and the node that each call comes from."""
        return "\n\n".join(filter(None, (function.explain() for function in self._program.all_functions())))

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Write what each capture does as a drawing to ``path``, an SVG file.

        Raises:
            NothingCapturedError: it was not called yet.
        """
        functions = self._program.all_functions()
        draw_all([function for function in functions if function.captures] or functions[:1], path)

    def reset(self) -> None:
        """Forget all captures; weights stay."""
        for function in self._program.all_functions():
            function.reset()

    def free_intermediates(self) -> None:
        """Free the memory of intermediates that no replay uses at the moment."""
        for function in self._program.all_functions():
            function.free_intermediates()

    @property
    def _parameters(self) -> tuple[str, ...]:
        step = self._program.steps.steps[0]
        assert isinstance(step, RecordedStep)
        return step.parameters

    def __repr__(self) -> str:
        return f"<onnx {self.name}: ({_listed(self._inputs)}) -> ({_listed(self._outputs)})>"


def _listed(types: Iterable[ValueType]) -> str:
    return ", ".join(map(describe, types))


class BatchedModel:
    """A model whose concurrent calls share replays; made by ``Model.batched``. Any thread, task and loop."""

    def __init__(self, model: Model, batched: Batched[Any, Any]) -> None:
        self.model = model
        self._batched = batched

    async def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model on these rows together with those of other calls; gives the rows of this call."""
        values = bind(self.model.inputs, args, kwargs, self.model.name)
        result: dict[str, Any] = await self._batched(*self.model._arguments(values))
        return result

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Record and lower the model for every bucket of rows."""
        values = bind(self.model.inputs, args, kwargs, self.model.name)
        await self._batched.prepare(*self.model._arguments(values))

    @property
    def buckets(self) -> tuple[int, ...]:
        """Numbers of rows that batches are padded to."""
        return self._batched.buckets

    def statistics(self) -> BatchStatistics:
        """Counts since it was made."""
        return self._batched.statistics()
