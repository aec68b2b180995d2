"""Rules that make one node of several: what they take, what they leave, and that answers stay the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from asyncjit.onnx import load
from asyncjit.onnx._fusing import fuse
from asyncjit.onnx._model_data import Graph
from asyncjit.onnx._preparing import bind_operators, fold_constants
from asyncjit.onnx._reading import read_model
from tests.onnx._building import model, node, value

F = np.float32
RANDOM = np.random.default_rng(5)

W = RANDOM.standard_normal((4, 3, 3, 3)).astype(F)
CHANNEL = RANDOM.uniform(0.5, 2, (1, 4, 1, 1)).astype(F)
CONSTANTS = {
    "w": W,
    "b": RANDOM.standard_normal(4).astype(F),
    "channel": CHANNEL,
    "three": np.array(3, F),
    "six": np.array(6, F),
    "zero": np.array(0, F),
    "half": np.array([0.5], F),
    "one": np.array(1, F),
    "two": np.array(2, F),
    "root": np.array(math.sqrt(2), F),
    "epsilon": np.array(1e-5, F),
    "scale": RANDOM.uniform(0.5, 2, 8).astype(F),
    "offset": RANDOM.standard_normal(8).astype(F),
    "pixel": RANDOM.uniform(0.5, 2, (1, 1, 8, 8)).astype(F),
}
for _name in ("mean", "variance", "gain", "shift"):
    CONSTANTS[_name] = RANDOM.uniform(0.5, 2, 4).astype(F)

CONV = node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1])


def graph_of(nodes: list[Any], shape: Any = (1, 3, 8, 8), outputs: tuple[str, ...] = ("z",), opset: int = 21) -> Any:
    used = {name for each in nodes for name in each.input}
    weights = {name: host for name, host in CONSTANTS.items() if name in used}
    return model(
        nodes, [value("x", F, shape)], [value(name, F, [None] * len(shape)) for name in outputs], weights, opset
    )


def fused(proto: Any) -> Graph:
    graph = read_model(proto, 2**20).graph
    bind_operators(graph)
    fold_constants(graph, 2**20)
    fuse(graph)
    return graph


def check(nodes: list[Any], expected: list[str], shape: Any = (1, 3, 8, 8), outputs: tuple[str, ...] = ("z",)) -> Graph:
    """Fusing leaves these operators, and the answer is that of the nodes one by one."""
    import onnxruntime

    proto = graph_of(nodes, shape, outputs)
    graph = fused(proto)
    assert [each.op for each in graph.nodes] == expected
    x = np.random.default_rng(1).standard_normal(shape).astype(F)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = load(proto).run(x=x)
    for name, wanted in zip(outputs, session.run(list(outputs), {"x": x}), strict=True):
        np.testing.assert_allclose(np.asarray(given[name]), wanted, rtol=2e-5, atol=2e-6 * float(np.abs(wanted).max()))
    return graph


@pytest.mark.parametrize(
    "after",
    [
        [node("BatchNormalization", ["c", "gain", "shift", "mean", "variance"], ["z"])],
        [node("Mul", ["c", "channel"], ["z"])],
        [node("Mul", ["channel", "c"], ["z"])],
        [node("Div", ["c", "three"], ["z"])],
        [node("Add", ["c", "channel"], ["d"]), node("Sub", ["d", "half"], ["z"])],
        [
            node("Mul", ["c", "three"], ["d"]),
            node("Add", ["half", "d"], ["e"]),
            node("BatchNormalization", ["e", "gain", "shift", "mean", "variance"], ["z"]),
        ],
    ],
)
@pytest.mark.parametrize("has_bias", [True, False])
def test_affine_maps_go_into_the_weights_of_a_convolution(after: list[Any], has_bias: bool) -> None:
    conv = CONV if has_bias else node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1])
    check([conv, *after], ["Conv"])


@pytest.mark.parametrize(
    ("after", "left"),
    [
        ([node("Mul", ["c", "pixel"], ["z"])], ["Conv", "Mul"]),
        ([node("Div", ["three", "c"], ["z"])], ["Conv", "Div"]),
        ([node("Sub", ["three", "c"], ["z"])], ["Conv", "Sub"]),
        ([node("Mul", ["c", "c"], ["z"])], ["Conv", "Mul"]),
        ([node("Mul", ["c", "three"], ["d"]), node("Add", ["c", "d"], ["z"])], ["Conv", "Mul", "Add"]),
    ],
)
def test_what_is_no_affine_map_a_channel_or_has_other_readers_stays(after: list[Any], left: list[str]) -> None:
    check([CONV, *after], left)


def test_a_value_that_leaves_the_graph_is_still_made() -> None:
    check([CONV, node("Mul", ["c", "three"], ["z"])], ["Conv", "Mul"], outputs=("z", "c"))


@pytest.mark.parametrize(
    "after",
    [
        [node("Relu", ["c"], ["z"])],
        [node("Clip", ["c", "zero", "six"], ["z"])],
        [node("Clip", ["c", "", "six"], ["z"])],
        [node("LeakyRelu", ["c"], ["z"], alpha=0.2)],
        [node("HardSigmoid", ["c"], ["z"])],
        [node("Sigmoid", ["c"], ["z"])],
        [node("Tanh", ["c"], ["z"])],
        [node("Sigmoid", ["c"], ["s"]), node("Mul", ["c", "s"], ["z"])],
        [node("HardSigmoid", ["c"], ["s"], alpha=1 / 6, beta=0.5), node("Mul", ["s", "c"], ["z"])],
        [
            node("Add", ["c", "three"], ["s"]),
            node("Clip", ["s", "zero", "six"], ["k"]),
            node("Mul", ["c", "k"], ["m"]),
            node("Div", ["m", "six"], ["z"]),
        ],
        [node("Mul", ["c", "channel"], ["d"]), node("Relu", ["d"], ["z"])],
    ],
)
def test_an_activation_after_a_convolution_is_part_of_it(after: list[Any]) -> None:
    check([CONV, *after], ["FusedConv"])


def test_a_hard_sigmoid_of_another_slope_is_no_hard_swish() -> None:
    check([node("HardSigmoid", ["x"], ["s"], alpha=0.2), node("Mul", ["s", "x"], ["z"])], ["HardSigmoid", "Mul"])


@pytest.mark.parametrize(
    "nodes",
    [
        [
            node("Div", ["x", "root"], ["d"]),
            node("Erf", ["d"], ["e"]),
            node("Add", ["e", "one"], ["p"]),
            node("Mul", ["x", "p"], ["m"]),
            node("Mul", ["m", "half"], ["z"]),
        ],
        [
            node("Div", ["x", "root"], ["d"]),
            node("Erf", ["d"], ["e"]),
            node("Add", ["one", "e"], ["p"]),
            node("Mul", ["half", "x"], ["h"]),
            node("Mul", ["h", "p"], ["z"]),
        ],
    ],
)
def test_gelu_is_found_in_the_orders_in_which_it_is_written(nodes: list[Any]) -> None:
    check(nodes, ["Gelu"], shape=(2, 8))


def test_an_error_function_of_another_scale_is_no_gelu() -> None:
    nodes = [
        node("Div", ["x", "three"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["p"]),
        node("Mul", ["x", "p"], ["m"]),
        node("Mul", ["m", "half"], ["z"]),
    ]
    check(nodes, ["Div", "Erf", "Add", "Mul", "Mul"], shape=(2, 8))


def layer_norm(square: Any, *more: Any) -> list[Any]:
    return [
        node("ReduceMean", ["x"], ["mean0"], axes=[-1]),
        node("Sub", ["x", "mean0"], ["d"]),
        square,
        node("ReduceMean", ["q"], ["v"], axes=[-1]),
        node("Add", ["v", "epsilon"], ["e"]),
        node("Sqrt", ["e"], ["r"]),
        node("Div", ["d", "r"], ["n"]),
        *more,
    ]


def test_layer_norm_is_found_with_and_without_a_bias() -> None:
    power, product = node("Pow", ["d", "two"], ["q"]), node("Mul", ["d", "d"], ["q"])
    scaled = [node("Mul", ["n", "scale"], ["s"]), node("Add", ["s", "offset"], ["z"])]
    for square in (power, product):
        proto = graph_of(layer_norm(square, *scaled), (2, 3, 8), opset=17)
        graph = fused(proto)
        assert [each.op for each in graph.nodes] == ["LayerNormalization"]
        assert graph.nodes[0].inputs == ("x", "scale", "offset")
        x = RANDOM.standard_normal((2, 3, 8)).astype(F)
        d = x - x.mean(-1, keepdims=True)
        wanted = d / np.sqrt((d**2).mean(-1, keepdims=True) + F(1e-5)) * CONSTANTS["scale"] + CONSTANTS["offset"]
        np.testing.assert_allclose(np.asarray(load(proto).run(x=x)["z"]), wanted, rtol=1e-5, atol=1e-6)


def test_graphs_inside_of_nodes_are_fused_and_what_they_read_is_kept() -> None:
    from onnx import helper

    inner = helper.make_graph(
        [node("Sigmoid", ["x"], ["s"]), node("Mul", ["x", "s"], ["t"]), node("Add", ["t", "c"], ["u"])],
        "then",
        [],
        [value("u", F, None)],
    )
    other = helper.make_graph([node("Neg", ["x"], ["e"])], "else", [], [value("e", F, None)])
    conv = node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1])
    nodes = [conv, node("Relu", ["c"], ["r"]), node("If", ["flag"], ["z"], then_branch=inner, else_branch=other)]
    proto = model(
        nodes,
        [value("x", F, (1, 3, 8, 8)), value("flag", bool, [])],
        [value("z", F, [None] * 4), value("r", F, [None] * 4)],
        {"w": W[:3, :, :, :]},
    )
    graph = fused(proto)
    assert [each.op for each in graph.nodes] == ["Conv", "Relu", "If"]
    assert [each.op for each in graph.nodes[2].graph("then_branch").nodes] == ["Swish", "Add"]
