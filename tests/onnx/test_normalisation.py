"""The normalisations and the recurrent operators of ONNX give what ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncjit as aj
from tests.onnx.one_node import check, model_of, ours

RNG = np.random.default_rng(0)


def values(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_softmax_flattens_before_opset_13_and_not_after(op: str, opset: int, axis: int | None) -> None:
    check(op, [values(2, 3, 4)], {} if axis is None else {"axis": axis}, opset=opset)


@pytest.mark.parametrize("opset", [9, 14, 15])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_batch_normalization(opset: int, shape: tuple[int, ...]) -> None:
    channels = [values(3), values(3), values(3), np.abs(values(3))]
    check("BatchNormalization", [values(*shape), *channels], {"epsilon": 1e-3}, opset=opset)
    check("BatchNormalization", [values(*shape), *channels], {}, opset=opset, constants=(1, 2, 3, 4))


def test_the_other_normalizations() -> None:
    check("InstanceNormalization", [values(2, 3, 4, 5), values(3), values(3)], {"epsilon": 1e-3}, opset=11)
    check("LayerNormalization", [values(2, 3, 4), values(3, 4), values(3, 4)], {"axis": 1}, opset=17, outputs=3)
    check("LayerNormalization", [values(2, 3, 4), values(4)], opset=17)
    check("GroupNormalization", [values(2, 6, 4), values(6), values(6)], {"num_groups": 3}, opset=21)
    check("LpNormalization", [values(2, 3, 4)], {"p": 1, "axis": 1}, opset=11)
    check("MeanVarianceNormalization", [values(2, 3, 4, 5)], opset=13)


def test_a_factor_a_group_is_one_for_each_of_its_channels() -> None:
    x, scale, bias = values(2, 6, 4), values(3), values(3)
    old = model_of("GroupNormalization", [x, scale, bias], {"num_groups": 3}, opset=18)
    repeated = [x, np.repeat(scale, 2), np.repeat(bias, 2)]
    new = model_of("GroupNormalization", repeated, {"num_groups": 3}, opset=21)
    names = ("x0", "x1", "x2")
    np.testing.assert_allclose(
        ours(old, dict(zip(names, (x, scale, bias), strict=True)))[0],
        ours(new, dict(zip(names, repeated, strict=True)))[0],
    )


def test_dropout_with_a_seed_drops_the_same_and_without_one_draws_anew() -> None:
    x = np.ones(1000, "float32")
    rate = [np.array(0.25, "float32"), np.array(True)]
    for options, equal in (({"seed": 3}, True), ({}, False)):
        model = aj.onnx.load(model_of("Dropout", [x, *rate], options, opset=13, outputs=2, constants=(1, 2)))
        first, second = (model.run(x0=x) for _ in range(2))
        kept = np.asarray(first["y1"])
        assert 600 < kept.sum() < 900
        np.testing.assert_allclose(np.asarray(first["y0"]), kept / 0.75, rtol=1e-6)
        assert np.array_equal(kept, np.asarray(second["y1"])) is equal


LAYERS = {"LSTM": 4, "GRU": 3, "RNN": 1}


@pytest.mark.parametrize("op", list(LAYERS))
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_layers(op: str, direction: str) -> None:
    d, k, t, n, i, u = 1 + (direction == "bidirectional"), LAYERS[op], 5, 3, 2, 4
    x, w, r, b = values(t, n, i), values(d, k * u, i), values(d, k * u, u), values(d, 2 * k * u)
    lengths, state, cell = np.array([5, 2, 1], "int32"), values(d, n, u), values(d, n, u)
    attributes: dict[str, Any] = {"hidden_size": u, "direction": direction}
    outputs = 3 if op == "LSTM" else 2
    check(op, [x, w, r], attributes, opset=14, outputs=outputs, constants=(1, 2))
    check(op, [x, w, r, b, lengths, state], attributes, opset=14, outputs=outputs)
    if op == "LSTM":
        more = [x, w, r, b, None, state, cell, values(d, 3 * u)]
        check(op, more, attributes | {"clip": 0.9}, opset=14, outputs=3)
        check(op, more[:-1], attributes | {"input_forget": 1}, opset=14, outputs=3)
    if op == "GRU":
        check(op, [x, w, r, b, None, state], attributes | {"linear_before_reset": 1}, opset=14, outputs=2)


def test_activations_take_their_numbers_in_turn() -> None:
    x, w, r = values(4, 2, 3), values(2, 16, 3), values(2, 16, 4) * 0.3
    names = ["HardSigmoid", "LeakyRelu", "Tanh", "Sigmoid", "ScaledTanh", "Softsign"]
    attributes = {"hidden_size": 4, "direction": "bidirectional", "activations": names, "clip": 2.0}
    used = {"activation_alpha": [0.3, 0.1, 0.8], "activation_beta": [0.4, 0.7]}
    check("LSTM", [x, w, r], attributes | used, opset=14, outputs=3)
