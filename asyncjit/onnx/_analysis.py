"""What can be recorded at once: which values are known by then, and which nodes have to wait for a value.

Law: decides, runs nothing. A handler that needs the value of an input (a shape, an axis, a condition) gets it when the
function is recorded, so that value has to follow from weights, from shapes, or from *static* inputs, whose values are
part of the signature. Every value therefore carries its *leaves*: the names of all inputs that its elements depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import TypeAlias

from asyncjit.onnx._model_data import Graph, Node

__all__ = ["KNOWN", "OPAQUE", "Leaves", "Recordable", "recordable"]

Leaves: TypeAlias = frozenset[str]
KNOWN: Leaves = frozenset()
#: What is different each time; no value has the empty name.
OPAQUE: Leaves = frozenset({""})
#: Whether an input of that name may be static; and whether it is needed itself, not something computed from it.
MayBeStatic: TypeAlias = Callable[[str, bool], bool]


class _AgainError(Exception):
    """More inputs are static than was assumed."""


class Recordable:
    """The nodes of a list that can be recorded together, those that cannot, and the inputs that must be static."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.blocked: list[Node] = []
        self.statics: set[str] = set()


def recordable(
    nodes: Iterable[Node],
    inputs: Iterable[str],
    known: Iterable[str],
    may_be_static: MayBeStatic,
    static: Iterable[str] = (),
) -> Recordable:
    """Take every node that can be recorded when ``inputs`` are there and ``known`` are known.

    ``static`` inputs are static in any case, others where they must be and may be.
    """
    listed, statics = list(nodes), set(static)
    while True:
        result = Recordable()
        result.statics = statics
        leaves: dict[str, Leaves] = {name: frozenset({name}) for name in inputs}
        leaves |= dict.fromkeys(known, KNOWN)
        attempt = _Attempt(statics, may_be_static)
        try:
            for node in listed:
                (result.nodes if attempt.node(node, leaves) else result.blocked).append(node)
        except _AgainError:
            continue
        return result


class _Attempt:
    """One pass, under the assumption that ``statics`` are known; adds to them and starts again when more have to be."""

    def __init__(self, statics: set[str], may_be_static: MayBeStatic) -> None:
        self._statics = statics
        self._may_be_static = may_be_static

    def _needs(self, leaves: Leaves, name: str = "") -> bool:
        """Have a value known, which is called ``name`` where that matters; False where that cannot be."""
        missing = leaves - self._statics
        if not missing:
            return True
        if not all(each and self._may_be_static(each, each == name) for each in missing):
            return False
        self._statics |= missing
        raise _AgainError

    def node(self, node: Node, leaves: MutableMapping[str, Leaves]) -> bool:
        """Whether ``node`` can be recorded; notes the leaves of its outputs if so."""
        entry = node.operator
        names = [name for name in node.inputs if name]
        if any(name not in leaves for name in names) or any(
            name not in leaves for graph in node.graphs for name in graph.free
        ):
            return False
        given = [leaves[name] if name else KNOWN for name in node.inputs]
        if entry.of_shapes:
            outputs = [KNOWN] * len(node.outputs)
        elif node.graphs:
            found = self._control(node, given, leaves)
            if found is None:
                return False
            outputs = found
        else:
            if entry.on_host and not KNOWN.union(*given) <= self._statics:
                return False
            if not all(self._needs(given[at], name) for at, name in enumerate(node.inputs) if entry.needs(at)):
                return False
            together = KNOWN.union(*given)
            outputs = [together if entry.is_pure else OPAQUE] * len(node.outputs)
        leaves.update((name, each) for name, each in zip(node.outputs, outputs, strict=False) if name)
        return True

    def _control(self, node: Node, given: list[Leaves], leaves: Mapping[str, Leaves]) -> list[Leaves] | None:
        if node.op == "If":
            return self._if(node, given, leaves)
        if node.op == "Loop":
            return self._loop(node, given, leaves)
        if node.op not in ("Scan", "SequenceMap"):
            together = KNOWN.union(*given)
            results = [self._graph(graph, [together] * len(graph.inputs), leaves) for graph in node.graphs]
            if any(each is None for each in results):
                return None
            return [together.union(*(leaf for each in results for leaf in each or ()))] * len(node.outputs)
        # As many rounds as shapes and structure say.
        (body,) = node.graphs
        states = list(given[: len(body.inputs)]) + [KNOWN] * (len(body.inputs) - len(given))
        for _ in range(len(body.inputs) + 1):
            outputs = self._graph(body, states, leaves)
            if outputs is None:
                return None
            merged = [each | (outputs[place] if place < len(outputs) else KNOWN) for place, each in enumerate(states)]
            if merged == states:
                break
            states = merged
        assert outputs is not None
        together = KNOWN.union(*given, *outputs)
        return [together] * len(node.outputs)

    def _if(self, node: Node, given: list[Leaves], leaves: Mapping[str, Leaves]) -> list[Leaves] | None:
        if not self._needs(given[0]):
            return None
        branches = [self._graph(graph, [], leaves) for graph in node.graphs]
        if any(each is None for each in branches):
            return None
        return [KNOWN.union(*each) for each in zip(*(b for b in branches if b is not None), strict=True)]

    def _loop(self, node: Node, given: list[Leaves], leaves: Mapping[str, Leaves]) -> list[Leaves] | None:
        """Unrolled: the number of rounds, and whether there is another, must be known."""
        body = node.graph("body")
        if not all(self._needs(each) for each in given[:2]):
            return None
        states = [*given[2:]]
        while True:
            outputs = self._graph(body, [KNOWN, KNOWN, *states], leaves)
            if outputs is None or not self._needs(outputs[0]):
                return None
            merged = [each | new for each, new in zip(states, outputs[1:], strict=False)]
            if merged == states:
                return [*merged, *outputs[1 + len(states) :]]
            states = merged

    def _graph(self, graph: Graph, inputs: list[Leaves], outer: Mapping[str, Leaves]) -> list[Leaves] | None:
        """Leaves of the outputs of a graph inside a node, or None where a node of it cannot be recorded."""
        leaves: dict[str, Leaves] = {name: outer[name] for name in graph.free}
        leaves |= dict.fromkeys(graph.initializers, KNOWN)
        leaves |= zip((each.name for each in graph.inputs), inputs, strict=True)
        if not all(self.node(node, leaves) for node in graph.nodes):
            return None
        return [leaves[each.name] for each in graph.outputs]
