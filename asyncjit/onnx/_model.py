"""The model as a user holds it.

Law: the surface; what a run is made of is ``_program``'s.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from asyncjit.errors import OnnxError, SaveError, WouldBlockError
from asyncjit.jit import CheckReport
from asyncjit.jit.holding import draw_all
from asyncjit.jit.mapped import Mapped
from asyncjit.jit.options import Options, Statistics
from asyncjit.named import BatchedModel, Buckets, NamedFunction, NamedModel, Sizes, ValueType, bind, listed
from asyncjit.onnx._driving import awaited, blocked
from asyncjit.onnx._fusing import fuse
from asyncjit.onnx._preparing import bind_operators, fold_constants
from asyncjit.onnx._program import Program, Weights
from asyncjit.onnx._reading import Source
from asyncjit.onnx._steps import HostStep, RecordedStep, steps_of
from asyncjit.streams import in_event_loop

__all__ = ["Model"]


class Model(NamedModel):
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
            raise OnnxError(f"static= names {sorted(unknown)}; the inputs of {name!r} are {listed(graph.inputs)}")
        bind_operators(graph)
        fold_constants(graph, value_bytes_max)
        fuse(graph)
        fold_constants(graph, value_bytes_max)
        self.name = name
        self.source = source
        self._inputs = graph.inputs
        self._outputs = graph.outputs
        steps = steps_of(graph, static)
        buckets = Buckets(bucket, graph.inputs, graph.outputs)
        self._weights = Weights(graph)
        self._program = Program(steps, self._weights, value_bytes_max, options, name, graph.inputs)
        #: What a call replays, where it is one replay.
        self._named = self._as_one(buckets)

    def _as_one(self, buckets: Buckets) -> NamedFunction | None:
        step = self._program.steps.steps[0]
        if not self._program.steps.is_recorded or not isinstance(step, RecordedStep):
            return None
        function = self._program.functions[step]
        return NamedFunction(self.name, function, step.parameters, step.statics, self._inputs, self._outputs, buckets)

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
        if self._named is not None:
            return self._named(*args, **kwargs)
        return awaited(self._program.run(bind(self._inputs, args, kwargs, self.name)))

    def run(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Call and block until the outputs are there. For scripts and plain threads.

        Raises:
            WouldBlockError: in a running event loop.
        """
        if self._named is not None:
            return self._named.run(*args, **kwargs)
        if in_event_loop():
            raise WouldBlockError(
                f"{self.name}.run() would freeze the running event loop; write `await model(…)` here", model=self.name
            )
        return blocked(self._program.run(bind(self._inputs, args, kwargs, self.name)))

    def map(
        self, source: Iterable[Any] | AsyncIterable[Any], in_flight: int = 2, *, star: bool = False
    ) -> Mapped[dict[str, Any]]:
        """An async iterator over the outputs for the items of ``source``, as of a jitted function.

        An item is the one input, or a dict of inputs by name; with ``star`` a tuple of inputs.
        """
        return self._one_replay("map").map(source, in_flight, star=star)

    def batched(
        self, rows_max: int, wait_max_s: float, buckets: Iterable[int] | None = None, shared: str | Iterable[str] = ()
    ) -> BatchedModel:
        """The model with concurrent calls sharing a replay, by rows of the first axis of every input and output; see
        ``batched`` of a jitted function. ``shared`` names inputs that are no rows; static ones never are."""
        return self._one_replay("batched").batched(rows_max, wait_max_s, buckets, shared)

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Record, lower and compile the model for such inputs, before the first request needs it.

        Pass ``aj.spec(shape, dtype)`` for an array, the value of a static input.
        """
        await self._one_replay("prepare").prepare(*args, **kwargs)

    async def check(self, *args: Any, **kwargs: Any) -> CheckReport:
        """Replay a call, run it eagerly beside it, and report every difference; as of a jitted function."""
        return await self._one_replay("check").check(*args, **kwargs)

    def as_function(self) -> NamedFunction:
        """The model as ``aj.save`` stores it: its captures, and the weights that they read.

        Raises:
            SaveError: it is run in several steps.
        """
        if self._named is None:
            raise SaveError(
                f"{self.name!r} is run in several steps, because values that it computes decide about shapes or "
                f"branches ({self._reason()}), and only captures can be saved; keep the .onnx file and load it with "
                "aj.onnx.load, or cut the model before that node and save the parts",
                model=self.name,
            )
        return self._named

    def _one_replay(self, what: str) -> NamedFunction:
        if self._named is None:
            raise OnnxError(
                f"{self.name!r} is run in several steps, because values that it computes decide about shapes or "
                f"branches ({self._reason()}); {what}() needs a model that is one replay"
            )
        return self._named

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

    def __repr__(self) -> str:
        return f"<onnx {self.name}: ({listed(self._inputs)}) -> ({listed(self._outputs)})>"
