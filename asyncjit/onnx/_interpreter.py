"""Nodes one after the other: known values are folded, the rest becomes array operations.

Law: runs inside the recording of a function (or eagerly, where recording is off) and never waits. Which nodes it is
given was decided by ``_analysis``: every value that a handler needs to know is known by then.

A value is a NumPy array (known now), an array, a list of values (a sequence) or None (absent).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from asyncjit.errors import AsyncJitError, InternalError, OnnxError
from asyncjit.numpy import Array
from asyncjit.numpy._dispatch import recording
from asyncjit.onnx._folding import HostSink, fold, hosted
from asyncjit.onnx._model_data import Graph, Host, Node
from asyncjit.onnx.operators._registry import Unsupported

__all__ = ["Interpreter", "Value", "is_known"]

Value: TypeAlias = Any


def is_known(value: Value) -> bool:
    """Whether nothing of the value is on a device."""
    if isinstance(value, list):
        return all(map(is_known, value))
    return not isinstance(value, Array)


class Interpreter:
    """Evaluates nodes. ``place`` brings host data to the device."""

    def __init__(self, sink: HostSink, place: Callable[[Host], Array]) -> None:
        self._sink = sink
        self._place = place
        self._placed: dict[int, tuple[Host, Array]] = {}

    def nodes(self, nodes: Iterable[Node], env: MutableMapping[str, Value]) -> None:
        """Evaluate nodes in their order; values go into ``env``."""
        recorder: Any = recording.get()
        names_places = hasattr(recorder, "where")
        for node in nodes:
            if names_places:
                recorder.where = node.title
            outputs = self.node(node, [env[name] if name else None for name in node.inputs], env)
            for name, value in zip(node.outputs, outputs, strict=False):
                if name:
                    env[name] = value
        if names_places:
            recorder.where = ""

    def graph(self, graph: Graph, env: Mapping[str, Value], inputs: Sequence[Value]) -> list[Value]:
        """The outputs of a graph inside a node, for given inputs."""
        inner: dict[str, Value] = {name: env[name] for name in graph.free}
        inner |= graph.initializers
        inner |= zip((each.name for each in graph.inputs), inputs, strict=True)
        self.nodes(graph.nodes, inner)
        return [inner[each.name] for each in graph.outputs]

    def array(self, value: Value) -> Array:
        """``value`` as an array; host data is brought to the device once."""
        if isinstance(value, Array):
            return value
        known = self._placed.get(id(value))
        if known is None:
            known = self._placed[id(value)] = (value, self._place(value))
        return known[1]

    def node(self, node: Node, values: list[Value], env: Mapping[str, Value]) -> Sequence[Value]:
        """The outputs of one node.

        Raises:
            OnnxError: the handler cannot do it.
        """
        entry = node.operator
        try:
            if entry.whole:
                result = entry.function(node, self, env, *values)
            elif entry.of_shapes:
                result = entry.function(node, *values)
            elif entry.on_host:
                result = entry.function(node, *[self._known(node, value) for value in values])
            elif entry.is_pure and all(map(is_known, values)):
                result = fold(self._sink, lambda: entry.function(node, *self._given(node, values, hosted)))
            else:
                result = entry.function(node, *self._given(node, values, self.array))
        except Unsupported as error:
            raise self.error(node, values, error) from None
        except AsyncJitError:
            raise
        except Exception as error:
            raise self.error(node, values, error) from error
        return result if isinstance(result, tuple) else (result,)

    def _given(self, node: Node, values: list[Value], array: Callable[[Value], Array]) -> list[Value]:
        """Values as the handler wants them."""
        entry = node.operator
        given: list[Value] = []
        for position, value in enumerate(values):
            if value is None:
                given.append(None)
                continue
            if entry.needs(position):
                given.append(self._known(node, value))
            elif position in entry.known and is_known(value):
                given.append(value)
            else:
                given.append(array(value))
        return given

    def _known(self, node: Node, value: Value) -> Value:
        if not is_known(value):
            raise InternalError(f"{node.title} needs a value that is not known when it is recorded")
        return value

    def error(self, node: Node, values: Sequence[Value], error: BaseException) -> OnnxError:
        shown = ", ".join(map(_shown, values))
        return OnnxError(
            f"{node.title} of opset {node.opset} with inputs ({shown}): {error}",
            node=node.name,
            operator=node.op,
            reason=str(error),
        )


def _shown(value: Value) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"sequence of {len(value)}"
    return f"{np.dtype(value.dtype).name}{list(value.shape)}"
