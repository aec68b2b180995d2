"""The model as a user holds it.

Law: the surface; what a run is made of is ``_program``'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio.to_thread

from asyncjit.errors import OnnxError, WouldBlockError
from asyncjit.jit.options import Options
from asyncjit.numpy import Array
from asyncjit.onnx._inputs import bind, describe
from asyncjit.onnx._model_data import ValueType
from asyncjit.onnx._preparing import bind_operators, fold_constants
from asyncjit.onnx._program import Program, Run, Weights
from asyncjit.onnx._reading import Source
from asyncjit.onnx._steps import steps_of
from asyncjit.replay import Replay
from asyncjit.streams import in_event_loop

__all__ = ["Model"]


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
        self, source: Source, name: str, static: tuple[str, ...], value_bytes_max: int, options: Options
    ) -> None:
        graph = source.graph
        unknown = set(static) - {each.name for each in graph.inputs}
        if unknown:
            raise OnnxError(f"static= names {sorted(unknown)}; the inputs of {name!r} are {_listed(graph.inputs)}")
        bind_operators(graph)
        fold_constants(graph, value_bytes_max)
        self.name = name
        self.source = source
        self._inputs = graph.inputs
        self._outputs = graph.outputs
        steps = steps_of(graph, static)
        self._weights = Weights(graph)
        self._program = Program(steps, self._weights, value_bytes_max, options, name, graph.inputs)

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
        """Start a run; awaiting it gives outputs by name.

        Raises:
            OnnxError: inputs do not fit, or a node cannot be done with their shapes.
            EngineBusyError, EngineClosedError: as a jitted function.
        """
        values = bind(self._inputs, args, kwargs, self.name)
        if self.is_recorded:
            return self._program.replay(values)
        return _awaited(self._program.run(values))

    def run(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Call and block until the outputs are there. For scripts and plain threads.

        Raises:
            WouldBlockError: in a running event loop.
        """
        if in_event_loop():
            raise WouldBlockError(
                f"{self.name}.run() would freeze the running event loop; write `await model(…)` here", model=self.name
            )
        values = bind(self._inputs, args, kwargs, self.name)
        if self.is_recorded:
            result: dict[str, Any] = self._program.replay(values).wait()
            return result
        return _blocked(self._program.run(values))

    def __repr__(self) -> str:
        return f"<onnx {self.name}: ({_listed(self._inputs)}) -> ({_listed(self._outputs)})>"


def _listed(types: Iterable[ValueType]) -> str:
    return ", ".join(map(describe, types))


async def _awaited(run: Run) -> dict[str, Any]:
    """Drive the steps of a run from a task."""
    answer: Any = None
    try:
        while True:
            wanted = run.send(answer)
            if isinstance(wanted, Replay):
                answer = await wanted
                await _arrived(answer)
            else:
                answer = await anyio.to_thread.run_sync(wanted)
    except StopIteration as end:
        result: dict[str, Any] = end.value
        return result
    finally:
        run.close()


async def _arrived(value: Any) -> None:
    if isinstance(value, Array):
        await value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            await _arrived(each)


def _blocked(run: Run) -> dict[str, Any]:
    """Drive the steps of a run from a thread without a loop."""
    answer: Any = None
    while True:
        try:
            wanted = run.send(answer)
        except StopIteration as end:
            result: dict[str, Any] = end.value
            return result
        answer = wanted.wait() if isinstance(wanted, Replay) else wanted()
