"""Whether a node has the form that its operator asks for: its graphs, and how many values they take and give.

Law: what later code relies on without looking. What a handler looks at itself, it refuses itself.
"""

from __future__ import annotations

from asyncjit.errors import OnnxError
from asyncjit.onnx._model_data import Graph, Node

__all__ = ["check_graphs"]

#: Attributes of operators with graphs.
_GRAPHS = {
    "If": ("then_branch", "else_branch"),
    "Loop": ("body",),
    "Scan": ("body",),
    "SequenceMap": ("body",),
}

_FLEX_ATTENTION = "ai.onnx.preview", "FlexAttention"


def check_graphs(node: Node) -> None:
    """Check the graphs inside ``node``.

    Raises:
        OnnxError: one is missing, does not belong there, or takes or gives another number of values than it must.
    """
    if (node.domain, node.op) == _FLEX_ATTENTION:
        _check_flex_attention(node)
        return
    wanted = _GRAPHS.get(node.op, ()) if not node.domain else ()
    found = [name for name, value in node.attributes.items() if isinstance(value, Graph)]
    if node.domain and node.operator.whole:
        # An operator of its own kind, whose handler knows what to do with them.
        return
    if sorted(found) != sorted(wanted):
        _refuse(node, f"it has the graphs {found}, not {list(wanted)}")
    for name in wanted:
        graph = node.graph(name)
        taken, given = len(graph.inputs), len(graph.outputs)
        if node.op == "If":
            _check(node, name, taken == 0 and given >= len(node.outputs) and len(node.inputs) == 1, taken, given)
        elif node.op == "Loop":
            states = max(len(node.inputs) - 2, 0)
            _check(node, name, taken == states + 2 and given >= states + 1 and len(node.inputs) > 1, taken, given)
            _check(node, name, len(node.outputs) <= given - 1, taken, given)
        elif node.op == "SequenceMap":
            _check(node, name, taken == len(node.inputs) > 0 and given >= len(node.outputs), taken, given)
        else:
            # The first version has the lengths of rows before everything else.
            inputs = len(node.inputs) - (node.opset < 9)
            scanned = node.attributes.get("num_scan_inputs")
            is_right = isinstance(scanned, int) and 0 < scanned <= inputs == taken
            _check(node, name, is_right and given >= max(len(node.outputs), inputs - int(scanned or 0)), taken, given)


def _check_flex_attention(node: Node) -> None:
    """Either graph may be missing; each makes one value of one."""
    for name, value in node.attributes.items():
        if isinstance(value, Graph):
            if name not in ("score_mod", "prob_mod"):
                _refuse(node, f"it has the graph {name!r}, which is neither 'score_mod' nor 'prob_mod'")
            _check(node, name, (len(value.inputs), len(value.outputs)) == (1, 1), len(value.inputs), len(value.outputs))


def _check(node: Node, name: str, is_right: bool, taken: int, given: int) -> None:
    if not is_right:
        _refuse(
            node,
            f"its graph {name!r} takes {taken} values and gives {given}, which does not go with {len(node.inputs)} "
            f"inputs and {len(node.outputs)} outputs of the node",
        )


def _refuse(node: Node, reason: str) -> None:
    raise OnnxError(f"{node.title}: {reason}; the model is damaged", node=node.name, operator=node.op)
