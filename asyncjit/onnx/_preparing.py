"""Between reading and running: every node gets its handler, and what follows from weights alone is computed.

Law: rewrites graphs in place, once, when a model is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from asyncjit.errors import OnnxError
from asyncjit.onnx._checking import check_graphs
from asyncjit.onnx._folding import HostSink
from asyncjit.onnx._interpreter import Interpreter
from asyncjit.onnx._model_data import Graph, Host, Node
from asyncjit.onnx.operators import find
from asyncjit.onnx.operators.text import MAKES_TEXT, TEXT, gives_text

__all__ = ["bind_operators", "fold_constants", "unsupported"]


def unsupported(graph: Graph) -> list[Node]:
    """The nodes for which there is no handler."""
    return [node for node in graph.all_nodes() if find(node.domain, node.op, node.opset) is None]


def bind_operators(graph: Graph) -> None:
    """Give every node its handler.

    Raises:
        OnnxError: there is none.
    """
    missing = unsupported(graph)
    if missing:
        listed = sorted({f"{node.domain}::{node.op}" if node.domain else node.op for node in missing})
        first = missing[0]
        raise OnnxError(
            f"{first.title} of opset {first.opset} is not supported; operators of this model that are not: "
            f"{', '.join(listed)}",
            node=first.name,
            operator=first.op,
            unsupported=tuple(listed),
        )
    _bind(graph, frozenset())


def _bind(graph: Graph, outer: frozenset[str]) -> set[str]:
    """Set the handlers, those for text where an input is text; which of the graph's values are text."""
    text = set(outer)
    text |= {each.name for each in graph.inputs if each.is_text}
    text |= {name for name, value in graph.initializers.items() if value.dtype == object}
    for node in graph.nodes:
        has_text = any(name in text for name in node.inputs)
        entry = find(node.domain, node.op, node.opset)
        assert entry is not None
        if not (entry.whole or entry.on_host or entry.of_shapes) and (
            has_text or (node.op == "Cast" and gives_text(node, has_text))
        ):
            entry = TEXT.get(node.op)
            if entry is None:
                raise OnnxError(f"{node.title} of text is not supported", node=node.name, operator=node.op)
        node.operator = entry
        check_graphs(node)
        inner = [_bind(each, frozenset(text)) for each in node.graphs]
        if gives_text(node, has_text) or any(
            each.name in found for graph, found in zip(node.graphs, inner, strict=True) for each in graph.outputs
        ):
            text |= {name for name in node.outputs[: 1 if node.op in MAKES_TEXT else None] if name}
    return text


def fold_constants(graph: Graph, value_bytes_max: int, outer: Mapping[str, Host] | None = None) -> None:
    """Compute what follows from weights alone, in graphs inside nodes too, and drop what nobody reads any more."""

    def refuse(host: Host) -> object:
        raise AssertionError("folding needs no device")

    interpreter = Interpreter(HostSink(value_bytes_max), refuse)  # type: ignore[arg-type]
    known: dict[str, Host] = {**(outer or {}), **graph.initializers}
    kept: list[Node] = []
    for node in graph.nodes:
        for inner in node.graphs:
            shadowed = {each.name for each in inner.inputs}
            fold_constants(inner, value_bytes_max, {k: v for k, v in known.items() if k not in shadowed})
        entry = node.operator
        if node.graphs or entry.whole or not entry.is_pure or not all(n in known for n in node.inputs if n):
            kept.append(node)
            continue
        values = [known[name] if name else None for name in node.inputs]
        for name, value in zip(node.outputs, interpreter.node(node, values, {}), strict=False):
            if name:
                assert isinstance(value, np.ndarray)
                known[name] = graph.initializers[name] = value
    graph.nodes[:] = kept
    _drop_unread(graph)


def _drop_unread(graph: Graph) -> None:
    read = {each.name for each in graph.outputs}
    for node in reversed(graph.nodes):
        read |= {*node.inputs, *(name for inner in node.graphs for name in _free_now(inner))}
    for name in [name for name in graph.initializers if name not in read]:
        del graph.initializers[name]
    graph.free = frozenset(_free_now(graph))


def _free_now(graph: Graph) -> set[str]:
    """What a graph reads from outside after nodes of it were folded."""
    made = {*graph.initializers, *(each.name for each in graph.inputs)}
    made |= {name for node in graph.nodes for name in node.outputs}
    read = {each.name for each in graph.outputs}
    for node in graph.nodes:
        read |= {name for name in node.inputs if name}
        for inner in node.graphs:
            read |= _free_now(inner)
    return read - made
