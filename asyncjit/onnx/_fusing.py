"""Rules that make one operation of several: fewer passes over memory, fewer calls.

Law: each rule says what it looks for and what it puts there, and nothing that anybody else reads is dropped. Results
differ from those of the nodes in the last bits, as between two engines.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from asyncjit.onnx._model_data import Graph, Host, Node
from asyncjit.onnx._rewriting import Rewriter
from asyncjit.onnx.operators.contrib import DOMAIN

__all__ = ["fuse"]


def fuse(graph: Graph) -> None:
    """Apply every rule to ``graph`` and to the graphs inside of it, in place."""
    for node in graph.nodes:
        for inner in node.graphs:
            fuse(inner)
    rewriter = Rewriter(graph)
    for rule in RULES:
        for node in list(graph.nodes):
            if node in graph.nodes:
                rule(rewriter, node)


# Affine maps into the weights of a convolution.


def _affine_into_conv(graph: Rewriter, node: Node) -> None:
    """``conv`` then batch norm, or arithmetic with constants a channel: into its weights and bias."""
    if node.domain or node.op != "Conv":
        return
    while True:
        weights = graph.constant(node.inputs[1])
        bias = graph.constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
        has_bias = len(node.inputs) > 2 and bool(node.inputs[2])
        if weights is None or weights.dtype.kind != "f" or (has_bias and bias is None):
            return
        after = graph.user(node.outputs[0], "BatchNormalization", "Mul", "Div", "Add", "Sub")
        found = None if after is None else _affine(graph, after, node.outputs[0], weights)
        if after is None or found is None:
            return
        factor, shift = found
        wide = weights.astype(np.float64) * factor.reshape(-1, *(1,) * (weights.ndim - 1))
        moved = shift if bias is None else bias.astype(np.float64) * factor + shift
        names = [
            graph.weight(f"{node.inputs[1]}*", wide.astype(weights.dtype)),
            graph.weight(f"{node.outputs[0]}+", moved.astype(weights.dtype)),
        ]
        node = graph.replace([node, after], "Conv", [node.inputs[0], *names], node.attributes, opset=node.opset)


def _affine(graph: Rewriter, node: Node, source: str, weights: Host) -> tuple[Host, Host] | None:
    """Factor and shift a channel, in float64, that ``node`` applies to ``source``."""
    channels = len(weights)
    if node.op == "BatchNormalization":
        if node.int("training_mode", 0) or len(list(filter(None, node.outputs))) > 1 or not node.int("spatial", 1):
            return None
        found = [graph.constant(name) for name in node.inputs[1:5]]
        if any(each is None or each.shape != (channels,) for each in found):
            return None
        scale, offset, mean, variance = (each.astype(np.float64) for each in found if each is not None)
        factor = scale / np.sqrt(variance + node.float("epsilon", 1e-5))
        return factor, offset - mean * factor
    if node.opset < 7 or node.inputs.count(source) != 1 or (node.op in ("Div", "Sub") and node.inputs[0] != source):
        return None
    (other,) = (name for name in node.inputs if name != source)
    operand = _by_channel(graph.constant(other), channels, weights.ndim)
    if operand is None:
        return None
    one, zero = np.ones(channels), np.zeros(channels)
    if node.op in ("Mul", "Div"):
        return (operand if node.op == "Mul" else one / operand), zero
    return one, (operand if node.op == "Add" else -operand)


def _by_channel(value: Host | None, channels: int, ndim: int) -> Host | None:
    """A constant that has one element, or one a channel, as float64 of shape ``(channels,)``."""
    if value is None or value.dtype.kind != "f" or value.ndim > ndim:
        return None
    shape = (1,) * (ndim - value.ndim) + value.shape
    if any(extent != 1 for axis, extent in enumerate(shape) if axis != 1) or shape[1] not in (1, channels):
        return None
    return np.broadcast_to(value.reshape(-1).astype(np.float64), (channels,))


# Activations.


def _sigmoid_times(graph: Rewriter, node: Node) -> None:
    """``x * sigmoid(x)`` is Swish."""
    if node.domain or node.op != "Mul" or len(set(node.inputs)) != 2:
        return
    for x, gate in (node.inputs, node.inputs[::-1]):
        sigmoid = graph.maker(gate, "Sigmoid")
        if sigmoid is not None and sigmoid.inputs[0] == x and graph.user(gate) is node:
            graph.replace([sigmoid, node], "Swish", [x], {}, opset=24)
            return


def _hard_swish(graph: Rewriter, node: Node) -> None:
    """``x * hard_sigmoid(x)``, and ``x * clip(x + 3, 0, 6) / 6``, are HardSwish."""
    if node.domain or node.op != "Mul" or len(set(node.inputs)) != 2:
        return
    for x, gate in (node.inputs, node.inputs[::-1]):
        hard = graph.maker(gate, "HardSigmoid")
        if hard is not None and hard.inputs[0] == x and graph.user(gate) is node:
            if math.isclose(hard.float("alpha", 0.2), 1 / 6, rel_tol=1e-5) and hard.float("beta", 0.5) == 0.5:
                graph.replace([hard, node], "HardSwish", [x], {}, opset=14)
            return
        chain = _clipped_by_six(graph, x, gate, node)
        if chain is not None:
            graph.replace(chain, "HardSwish", [x], {}, opset=14)
            return


def _clipped_by_six(graph: Rewriter, x: str, gate: str, product: Node) -> list[Node] | None:
    clip = graph.maker(gate, "Clip")
    shifted = None if clip is None else graph.maker(clip.inputs[0], "Add")
    after = graph.user(product.outputs[0], "Div", "Mul")
    if clip is None or shifted is None or after is None or graph.user(gate) is not product or x not in shifted.inputs:
        return None
    three = next((name for name in shifted.inputs if name != x), "")
    divisor = next((name for name in after.inputs if name != product.outputs[0]), "")
    sixth = graph.number(divisor)
    is_sixth = sixth is not None and math.isclose(sixth, 6 if after.op == "Div" else 1 / 6, rel_tol=1e-5)
    if after.op == "Div" and after.inputs[0] != product.outputs[0]:
        return None
    if graph.number(three) != 3 or _limits(graph, clip) != (0, 6) or not is_sixth:
        return None
    return [shifted, clip, product, after] if graph.user(shifted.outputs[0]) is clip else None


def _limits(graph: Rewriter, clip: Node) -> tuple[float, float] | None:
    """The bounds of a Clip, where both are known."""
    if clip.opset < 11:
        return clip.float("min", -math.inf), clip.float("max", math.inf)
    given = [*clip.inputs[1:], "", ""]
    low, high = (
        graph.number(name) if name else bound for name, bound in zip(given, (-math.inf, math.inf), strict=False)
    )
    return None if low is None or high is None else (low, high)


def _activation_into_conv(graph: Rewriter, node: Node) -> None:
    """``conv`` then an activation: done block by block while the result is in cache."""
    if node.domain or node.op != "Conv":
        return
    after = graph.user(node.outputs[0])
    if after is None or after.inputs[0] != node.outputs[0]:
        return
    numbers: list[float] = []
    if after.op == "Clip":
        limits = _limits(graph, after)
        if limits is None:
            return
        numbers = list(limits)
    elif after.op == "LeakyRelu":
        numbers = [after.float("alpha", 0.01)]
    elif after.op == "HardSigmoid":
        numbers = [after.float("alpha", 0.2), after.float("beta", 0.5)]
    elif after.op not in ("Relu", "Sigmoid", "Tanh", "HardSwish") and (
        after.op != "Swish" or after.float("alpha", 1.0) != 1.0
    ):
        return
    attributes = {**node.attributes, "activation": after.op, "activation_params": tuple(numbers)}
    graph.replace([node, after], "FusedConv", list(node.inputs), attributes, domain=DOMAIN, opset=1)


# Chains that exporters write out.


def _gelu(graph: Rewriter, node: Node) -> None:
    """``x * (1 + erf(x / sqrt(2))) / 2``, in the orders in which it is written."""
    if node.domain or node.op != "Erf":
        return
    scaled = graph.maker(node.inputs[0], "Div", "Mul")
    plus = graph.user(node.outputs[0], "Add")
    product = None if plus is None else graph.user(plus.outputs[0], "Mul")
    if scaled is None or plus is None or product is None or graph.user(scaled.outputs[0]) is not node:
        return
    x, by = scaled.inputs[0], graph.number(scaled.inputs[1])
    root = math.sqrt(2) if scaled.op == "Div" else math.sqrt(0.5)
    one = next((name for name in plus.inputs if name != node.outputs[0]), "")
    if by is None or not math.isclose(by, root, rel_tol=1e-4) or graph.number(one) != 1:
        return
    other = next((name for name in product.inputs if name != plus.outputs[0]), "")
    if other == x:
        half = graph.user(product.outputs[0], "Mul")
        name = "" if half is None else next((each for each in half.inputs if each != product.outputs[0]), "")
        if half is not None and graph.number(name) == 0.5:
            graph.replace([scaled, node, plus, product, half], "Gelu", [x], {}, opset=20)
        return
    halved = graph.maker(other, "Mul")
    if halved is not None and graph.user(other) is product and x in halved.inputs:
        name = next((each for each in halved.inputs if each != x), "")
        if graph.number(name) == 0.5:
            graph.replace([scaled, node, plus, halved, product], "Gelu", [x], {}, opset=20)


def _layer_norm(graph: Rewriter, node: Node) -> None:
    """``(x - mean) / sqrt(mean((x - mean) ** 2) + epsilon) * scale + bias`` over the last axis."""
    if node.domain or node.op != "ReduceMean" or not _over_last(graph, node):
        return
    x = node.inputs[0]
    minus = graph.user(node.outputs[0], "Sub")
    if minus is None or minus.inputs[0] != x:
        return
    centred = minus.outputs[0]
    found = _deviation(graph, centred)
    if found is None:
        return
    nodes, epsilon, quotient = found
    scale_node = graph.user(quotient.outputs[0], "Mul")
    scale = "" if scale_node is None else next((n for n in scale_node.inputs if n != quotient.outputs[0]), "")
    weight = graph.constant(scale)
    if scale_node is None or weight is None or weight.ndim != 1:
        return
    chain, inputs = [node, minus, *nodes, quotient, scale_node], [x, scale]
    bias_node = graph.user(scale_node.outputs[0], "Add")
    bias = "" if bias_node is None else next((n for n in bias_node.inputs if n != scale_node.outputs[0]), "")
    offset = graph.constant(bias)
    if bias_node is not None and offset is not None and offset.shape == weight.shape:
        chain, inputs = [*chain, bias_node], [x, scale, bias]
    graph.replace(chain, "LayerNormalization", inputs, {"axis": -1, "epsilon": epsilon}, opset=17)


def _deviation(graph: Rewriter, centred: str) -> tuple[list[Node], float, Node] | None:
    """From the centred values to their quotient by the deviation: the nodes, epsilon, and the division."""
    users = graph.users(centred)
    quotient = next((each for each in users if each.op == "Div" and each.inputs[0] == centred), None)
    square = next((each for each in users if each.op in ("Pow", "Mul") and each is not quotient), None)
    if len(users) != 2 or quotient is None or square is None:
        return None
    is_square = graph.number(square.inputs[1]) == 2 if square.op == "Pow" else set(square.inputs) == {centred}
    mean = graph.user(square.outputs[0], "ReduceMean")
    plus = None if mean is None else graph.user(mean.outputs[0], "Add")
    root = None if plus is None else graph.user(plus.outputs[0], "Sqrt")
    if mean is None or plus is None or root is None or not is_square or not _over_last(graph, mean):
        return None
    epsilon = graph.number(next((name for name in plus.inputs if name != mean.outputs[0]), ""))
    if epsilon is None or graph.user(root.outputs[0]) is not quotient:
        return None
    return [square, mean, plus, root], epsilon, quotient


def _over_last(graph: Rewriter, node: Node) -> bool:
    """Whether a ReduceMean keeps the axis and goes over the last one."""
    axes = node.ints("axes", None)
    if axes is None and len(node.inputs) > 1:
        known = graph.constant(node.inputs[1])
        axes = None if known is None else tuple(known.reshape(-1).tolist())
    return axes == (-1,) and bool(node.int("keepdims", 1))


#: In this order: later ones use what earlier ones made.
RULES: tuple[Callable[[Rewriter, Node], None], ...] = (
    _affine_into_conv,
    _sigmoid_times,
    _hard_swish,
    _activation_into_conv,
    _gelu,
    _layer_norm,
)
