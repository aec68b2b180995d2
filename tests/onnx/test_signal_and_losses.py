"""Transforms, losses, optimisers and encoders of ONNX give what ONNX Runtime gives, or what their formulas say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from tests.onnx.one_node import check, model_of, ours

RNG = np.random.default_rng(0)


def values(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("parts", [1, 2])
def test_transforms(parts: int) -> None:
    x = values(2, 9, parts)
    length, axis = np.array(12, "int64"), np.array(1, "int64")
    # Where the length is no power of two ONNX Runtime loses a digit.
    check("DFT", [x, length], {"axis": 1}, opset=17, constants=(1,), tolerance=2e-4)
    check("DFT", [x, None, axis], opset=20, constants=(2,), tolerance=2e-4)
    check("DFT", [values(2, 9, 2), length, axis], {"inverse": 1}, opset=20, constants=(1, 2), tolerance=2e-4)
    if parts == 1:
        check("DFT", [x, length, axis], {"onesided": 1}, opset=20, constants=(1, 2), tolerance=2e-4)
        step = np.array(3, "int64")
        check("STFT", [values(2, 20, 1), step, values(8)], {"onesided": 1}, opset=17, constants=(1,))


def test_the_mel_scale() -> None:
    numbers = [np.array(each, "int64") for each in (8, 64, 8000)] + [np.array(each, "float32") for each in (20, 3900)]
    check("MelWeightMatrix", numbers, opset=17, constants=(0, 1, 2, 3, 4))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(5, 4), (3, 4, 2, 2)])
def test_losses(reduction: str, shape: tuple[int, ...]) -> None:
    x, weights = values(*shape), np.abs(values(4))
    target = RNG.integers(0, 4, (shape[0], *shape[2:]))
    target.reshape(-1)[0] = 1
    for op, outputs in (("NegativeLogLikelihoodLoss", 1), ("SoftmaxCrossEntropyLoss", 2)):
        check(op, [x, target], {"reduction": reduction}, opset=13, outputs=outputs)
        attributes = {"reduction": reduction, "ignore_index": 1}
        check(op, [x, target, weights], attributes, opset=13, outputs=outputs)


def test_a_target_that_is_no_class_may_be_ignored() -> None:
    x, target = values(3, 4), np.array([0, -100, 2])
    model = model_of("NegativeLogLikelihoodLoss", [x, target], {"ignore_index": -100}, opset=13)
    (loss,) = ours(model, {"x0": x, "x1": target})
    np.testing.assert_allclose(loss, -(x[0, 0] + x[2, 2]) / 2, rtol=1e-6)


def test_the_first_update_of_adam_is_not_corrected_and_later_ones_are() -> None:
    x, gradient, mean, square = values(3), values(3), values(3), np.abs(values(3))
    attributes = {"alpha": 0.9, "beta": 0.99, "epsilon": 1e-3}
    for count in (0, 4):
        inputs = [np.float32(0.1), np.int64(count), x, gradient, mean, square]
        arrays = [np.asarray(each) for each in inputs]
        domain = "ai.onnx.preview.training"
        model = model_of("Adam", arrays, attributes, opset=1, domain=domain, outputs=3)
        got = ours(model, {f"x{place}": each for place, each in enumerate(arrays)})
        new_mean, new_square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        rate = 0.1 * (np.sqrt(1 - 0.99**count) / (1 - 0.9**count) if count else 1)
        np.testing.assert_allclose(got[0], x - rate * new_mean / (np.sqrt(new_square) + 1e-3), rtol=1e-4)
        np.testing.assert_allclose(got[1], new_mean, rtol=1e-5)
        np.testing.assert_allclose(got[2], new_square, rtol=1e-5)


def test_encoders() -> None:
    ml: dict[str, Any] = {"domain": "ai.onnx.ml"}
    check("ArrayFeatureExtractor", [values(3, 5), np.array([4, 0])], opset=1, **ml)
    check("Binarizer", [values(3, 5)], {"threshold": 0.2}, opset=1, **ml)
    keys = {"keys_int64s": [3, 1], "values_floats": [0.5, 0.25], "default_float": 9.0}
    check("LabelEncoder", [np.array([1, 2, 3])], keys, opset=2, **ml)
    text = {"keys_strings": ["a", "b"], "values_int64s": [7, 8], "default_int64": -3}
    check("LabelEncoder", [np.array(["b", "c", "a"], object)], text, opset=2, **ml)


@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_trees_walk_every_row_to_its_leaf(aggregate: int) -> None:
    def tensor(host: Any) -> Any:
        return numpy_helper.from_array(np.asarray(host))

    attributes = {
        "n_targets": 2,
        "aggregate_function": aggregate,
        "tree_roots": [0, 2],
        "nodes_modes": tensor(np.array([0, 3, 1], "uint8")),
        "nodes_splits": tensor(np.array([0.5, -0.3, 0.1], "float32")),
        "nodes_featureids": [0, 1, 2],
        "nodes_truenodeids": [1, 0, 2],
        "nodes_falsenodeids": [3, 1, 4],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falseleafs": [1, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 1],
        "leaf_weights": tensor(np.array([1.0, 2.0, 4.0, 8.0, 16.0], "float32")),
    }
    if aggregate == 0:
        # ONNX Runtime divides the sums of each target by the trees that reached it, here all of them count.
        attributes["leaf_targetids"] = [0, 0, 0, 0, 0]
        attributes["n_targets"] = 1
    check("TreeEnsemble", [values(20, 3)], attributes, opset=5, domain="ai.onnx.ml")
