"""A graph as steps: parts that are recorded and replayed, and between them nodes that the host has to do.

Law: data and the rule that makes it; nothing runs. Most models are one recorded step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from asyncjit.errors import OnnxError
from asyncjit.onnx._analysis import recordable
from asyncjit.onnx._model_data import Graph, Node, ValueType

__all__ = ["HostStep", "RecordedStep", "Steps", "steps_of"]

#: Operators that move text about without looking at it run where text is: on the host.
_NUMBERED_RANKS = (0, 1)


@dataclass(slots=True, eq=False)
class RecordedStep:
    """Nodes that are recorded as one function of ``statics``, by value, and ``inputs``, by layout."""

    nodes: list[Node]
    statics: tuple[str, ...]
    inputs: tuple[str, ...]
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

    ``forced`` inputs may always be static. Others may if they are numbers or vectors: shapes, axes, conditions.
    """
    always = frozenset(forced)
    types = {each.name: each for each in graph.inputs}
    text = {each.name for each in graph.inputs if each.is_text}
    known = {*graph.initializers, *outer_known}
    there = {*types, *(graph.free - known)}
    remaining = list(graph.nodes)
    wanted = [each.name for each in graph.outputs]
    steps: list[RecordedStep | HostStep] = []
    first = True

    def may_be_static(name: str) -> bool:
        # Later on, everything that is there has been computed and can be read.
        return not first or name in always or _is_small(types.get(name))

    while remaining or not steps:
        found = recordable(remaining, there, known, _with_text(may_be_static, text))
        if found.nodes or not remaining:
            steps.append(_recorded(found.nodes, found.statics, found.blocked, there, wanted, first))
            there |= {name for node in found.nodes for name in node.outputs if name}
        remaining = found.blocked
        taken = [node for node in remaining if _runs_on_host(node, text) and _is_there(node, there | known)]
        for node in taken:
            bodies = {
                name: steps_of(value, (), known) for name, value in node.attributes.items() if isinstance(value, Graph)
            }
            steps.append(HostStep(node, bodies))
            there |= {name for name in node.outputs if name}
            if node.operator.on_host and node.op in _MAKES_TEXT:
                text |= set(node.outputs)
        remaining = [node for node in remaining if node not in taken]
        if remaining and not taken and not first and not found.nodes:
            raise OnnxError(
                f"{remaining[0].title} needs values that cannot be had when it runs", node=remaining[0].name
            )
        first = False
    return Steps(graph, steps, frozenset(graph.free - known))


_MAKES_TEXT = frozenset({"StringConcat", "StringNormalizer", "StringSplit"})


def _with_text(rule: Callable[[str], bool], text: set[str]) -> Callable[[str], bool]:
    return lambda name: name not in text and rule(name)


def _is_small(kind: ValueType | None) -> bool:
    return kind is not None and kind.kind == "tensor" and kind.shape is not None and len(kind.shape) in _NUMBERED_RANKS


def _is_there(node: Node, there: set[str]) -> bool:
    names = [*filter(None, node.inputs), *(name for graph in node.graphs for name in graph.free)]
    return all(name in there for name in names)


def _runs_on_host(node: Node, text: set[str]) -> bool:
    return node.operator.on_host or bool(node.graphs) or any(name in text for name in node.inputs)


def _recorded(
    nodes: list[Node], statics: set[str], blocked: list[Node], there: set[str], wanted: list[str], first: bool
) -> RecordedStep:
    """A step, with the values that it reads and those that somebody reads later."""
    made = {name for node in nodes for name in node.outputs if name}
    read = {name for node in nodes for name in _reads(node)}
    later = {name for node in blocked for name in _reads(node)}
    outputs = [name for name in dict.fromkeys(wanted) if name in made]
    outputs += sorted(name for name in later & made if name not in outputs)
    if first and not blocked:
        # The whole graph: inputs and weights that are outputs as well go through it.
        outputs = list(dict.fromkeys(wanted))
    inputs = (read | set(outputs)) & there - statics
    return RecordedStep(nodes, tuple(sorted(statics)), tuple(sorted(inputs)), tuple(outputs))


def _reads(node: Node) -> set[str]:
    return {*filter(None, node.inputs), *(name for graph in node.graphs for name in graph.free)}
