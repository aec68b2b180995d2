"""The model as data of our own: graphs, nodes, attributes; every tensor a NumPy array.

Law: what the importer works on after a file has been read; no protobuf beyond this line, nothing runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from asyncjit.named import ValueType

if TYPE_CHECKING:
    from asyncjit.onnx.operators._registry import Operator

__all__ = ["Graph", "Host", "Node"]

Host: TypeAlias = "np.ndarray[Any, Any]"

# Getters of a node are called like the types that they give, which hides these in its class.
Integer: TypeAlias = int
Real: TypeAlias = float
Name: TypeAlias = str


@dataclass(slots=True, eq=False)
class Node:
    """One node: its operator, the names of its values, its attributes as Python values.

    An absent optional input or output has the name "". Attributes are int, float, str, tuples of these, NumPy arrays,
    and graphs.
    """

    name: Name
    op: Name
    domain: Name
    opset: Integer
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]
    attributes: dict[Name, Any] = field(default_factory=dict)
    #: How it is done here; set when the model is checked.
    operator: Operator = field(init=False)

    def has(self, name: Name) -> bool:
        return name in self.attributes

    def int(self, name: Name, default: Any = 0) -> Integer:
        return cast(Integer, self.attributes.get(name, default))

    def float(self, name: Name, default: Any = 0.0) -> Real:
        return cast(Real, self.attributes.get(name, default))

    def str(self, name: Name, default: Any = "") -> Name:
        return cast(Name, self.attributes.get(name, default))

    def ints(self, name: Name, default: Any = ()) -> tuple[Integer, ...]:
        return cast("tuple[Integer, ...]", self.attributes.get(name, default))

    def floats(self, name: Name, default: Any = ()) -> tuple[Real, ...]:
        return cast("tuple[Real, ...]", self.attributes.get(name, default))

    def strs(self, name: Name, default: Any = ()) -> tuple[Name, ...]:
        return cast("tuple[Name, ...]", self.attributes.get(name, default))

    def tensor(self, name: Name) -> Host:
        return cast(Host, self.attributes[name])

    def graph(self, name: Name) -> Graph:
        return cast(Graph, self.attributes[name])

    @property
    def graphs(self) -> list[Graph]:
        return [value for value in self.attributes.values() if isinstance(value, Graph)]

    @property
    def title(self) -> Name:
        """What messages call it."""
        domain = f"{self.domain}::" if self.domain else ""
        name = self.name or next((output for output in self.outputs if output), "")
        return f"node {name!r} ({domain}{self.op})"


@dataclass(slots=True, eq=False)
class Graph:
    """Nodes in an order in which they can run. ``free`` names what the graph and the graphs in it read from outside."""

    name: str
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]
    nodes: list[Node]
    initializers: dict[str, Host]
    free: frozenset[str] = frozenset()

    def all_nodes(self) -> list[Node]:
        """Its nodes and those of the graphs in them."""
        return [each for node in self.nodes for each in (node, *(e for g in node.graphs for e in g.all_nodes()))]
