"""A graph as steps: parts that are recorded and replayed, and between them nodes that the host has to do.

Law: data and the rule that makes it; nothing runs. Most models are one recorded step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from asyncjit.errors import OnnxError
from asyncjit.named import ValueType
from asyncjit.onnx._analysis import Recordable, recordable
from asyncjit.onnx._model_data import Graph, Node

__all__ = ["HostStep", "RecordedStep", "Steps", "steps_of"]


@dataclass(slots=True, eq=False)
class RecordedStep:
    """Nodes that are recorded as one function of ``parameters``, of which ``statics`` count by value."""

    nodes: list[Node]
    parameters: tuple[str, ...]
    statics: frozenset[str]
    outputs: tuple[str, ...]


@dataclass(slots=True, eq=False)
class HostStep:
    """One node that needs values. Graphs in it are steps of their own."""

    node: Node
    bodies: dict[str, Steps] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Steps:
    """``free``: what the steps read besides the graph's own inputs."""

    graph: Graph
    steps: list[RecordedStep | HostStep]
    free: frozenset[str]

    @property
    def is_recorded(self) -> bool:
        """Whether a run is one replay."""
        return len(self.steps) == 1 and isinstance(self.steps[0], RecordedStep)


def steps_of(graph: Graph, forced: Iterable[str] = (), outer_known: Iterable[str] = ()) -> Steps:
    """Cut ``graph`` into as few steps as its needs for values allow.

    ``forced`` inputs are static. Others become so where something needs their value, if they are numbers or vectors:
    shapes, axes, conditions. What is computed from fractions is data, and is read when it is there.
    """
    always = frozenset(forced)
    types = {each.name: each for each in graph.inputs}
    known = {*graph.initializers, *outer_known}
    there = {*types, *(graph.free - known)}
    remaining = list(graph.nodes)
    steps: list[RecordedStep | HostStep] = []
    first = True

    def may_be_static(name: str, is_needed_itself: bool) -> bool:
        # Later on, everything that is there has been computed and can be read.
        return not first or _counts_by_value(types.get(name), is_needed_itself)

    while remaining or not steps:
        found = recordable(remaining, there, known, may_be_static, always if first else ())
        if found.nodes or not remaining:
            steps.append(_recorded(graph, found, there, first))
            there |= {name for node in found.nodes for name in node.outputs if name}
        remaining = found.blocked
        taken = [node for node in remaining if _runs_on_host(node) and _is_there(node, there | known)]
        for node in taken:
            bodies = {
                name: steps_of(value, (), known) for name, value in node.attributes.items() if isinstance(value, Graph)
            }
            steps.append(HostStep(node, bodies))
            there |= {name for name in node.outputs if name}
        remaining = [node for node in remaining if node not in taken]
        if remaining and not taken and not first and not found.nodes:
            raise OnnxError(
                f"{remaining[0].title} needs values that cannot be had when it runs", node=remaining[0].name
            )
        first = False
    return Steps(graph, steps, frozenset(graph.free - known))


def _counts_by_value(kind: ValueType | None, is_needed_itself: bool) -> bool:
    if kind is None or kind.kind != "tensor" or kind.dtype is None or kind.shape is None or len(kind.shape) > 1:
        return False
    return is_needed_itself or kind.dtype.kind in "biu"


def _is_there(node: Node, there: set[str]) -> bool:
    names = [*filter(None, node.inputs), *(name for graph in node.graphs for name in graph.free)]
    return all(name in there for name in names)


def _runs_on_host(node: Node) -> bool:
    return node.operator.on_host or bool(node.graphs)


def _recorded(graph: Graph, found: Recordable, there: set[str], first: bool) -> RecordedStep:
    """A step, with the values that it reads and those that somebody reads later."""
    nodes, statics, blocked = found.nodes, found.statics, found.blocked
    wanted = [each.name for each in graph.outputs]
    declared = [each.name for each in graph.inputs]
    made = {name for node in nodes for name in node.outputs if name}
    read = {name for node in nodes for name in _reads(node)}
    later = {name for node in blocked for name in _reads(node)}
    outputs = [name for name in dict.fromkeys(wanted) if name in made]
    outputs += sorted(name for name in later & made if name not in outputs)
    if first and not blocked:
        # The whole graph: inputs and weights that are outputs as well go through it.
        outputs = list(dict.fromkeys(wanted))
    inputs = (read | set(outputs)) & there
    parameters = [name for name in declared if name in inputs]
    parameters += sorted(inputs.difference(declared))
    return RecordedStep(nodes, tuple(parameters), frozenset(statics), tuple(outputs))


def _reads(node: Node) -> set[str]:
    return {*filter(None, node.inputs), *(name for graph in node.graphs for name in graph.free)}
