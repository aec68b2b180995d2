"""What rules that rewrite a graph need: who makes a value, who uses it, what is known of it.

Law: looking and replacing; no rule is here.
"""

from __future__ import annotations

from typing import Any

from asyncjit.onnx._model_data import Graph, Host, Node
from asyncjit.onnx.operators import find

__all__ = ["Rewriter"]


class Rewriter:
    """One graph while it is rewritten. Values that leave it, or that graphs inside of it read, are never dropped."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._makers: dict[str, Node] = {}
        self._users: dict[str, list[Node]] = {}
        self._kept = {each.name for each in graph.outputs}
        for node in graph.nodes:
            self._enter(node)
            self._kept |= {name for inner in node.graphs for name in inner.free}

    def _enter(self, node: Node) -> None:
        self._makers.update((name, node) for name in node.outputs if name)
        for name in dict.fromkeys(filter(None, node.inputs)):
            self._users.setdefault(name, []).append(node)

    def constant(self, name: str) -> Host | None:
        """The value of a weight."""
        return self.graph.initializers.get(name)

    def number(self, name: str) -> float | None:
        """The value of a weight with one element."""
        host = self.constant(name)
        return float(host.reshape(-1)[0]) if host is not None and host.size == 1 and host.dtype.kind in "fiu" else None

    def maker(self, name: str, *ops: str) -> Node | None:
        """The node of the standard domain that makes ``name``, if it is one of ``ops``."""
        node = self._makers.get(name)
        return node if node is not None and not node.domain and node.op in ops else None

    def users(self, name: str) -> list[Node]:
        """The nodes that read ``name``; empty where something else may, too."""
        return [] if name in self._kept else list(self._users.get(name, ()))

    def user(self, name: str, *ops: str) -> Node | None:
        """The one node that reads ``name``, if it is one of ``ops`` of the standard domain."""
        users = self.users(name)
        if len(users) != 1 or users[0].domain or (ops and users[0].op not in ops):
            return None
        return users[0]

    def weight(self, base: str, value: Host) -> str:
        """A new weight; its name."""
        name = base
        while name in self.graph.initializers or name in self._makers:
            name += "'"
        self.graph.initializers[name] = value
        return name

    def replace(self, old: list[Node], op: str, inputs: list[str], attributes: dict[str, Any], **place: Any) -> Node:
        """Put one node in the place of the last of ``old``, which makes its outputs; ``place``: domain and opset."""
        last = old[-1]
        new = Node(
            last.name or last.outputs[0],
            op,
            place.get("domain", ""),
            place.get("opset", last.opset),
            tuple(inputs),
            last.outputs,
            attributes,
        )
        entry = find(new.domain, new.op, new.opset)
        assert entry is not None, (new.op, new.opset)
        new.operator = entry
        self.graph.nodes[self.graph.nodes.index(last)] = new
        for node in old:
            if node is not last:
                self.graph.nodes.remove(node)
            for name in filter(None, node.inputs):
                if node in self._users.get(name, ()):
                    self._users[name].remove(node)
            for name in node.outputs:
                self._makers.pop(name, None)
        self._enter(new)
        return new
