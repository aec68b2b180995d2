"""Reductions, indexing, shapes and creation in ONNX give what ONNX Runtime gives, in every opset that differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncjit as aj
from tests.onnx.one_node import check, model_of, ours

RNG = np.random.default_rng(0)


def values(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


def ints(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions_take_axes_as_an_attribute_or_as_an_input(name: str, keepdims: int) -> None:
    op, x = f"Reduce{name}", np.abs(values(2, 3, 4))
    for axes in ([1], [0, -1], [0, 1, 2]):
        check(op, [x], {"axes": axes, "keepdims": keepdims}, opset=12)
        check(op, [x, ints(*axes)], {"keepdims": keepdims}, opset=18)
        check(op, [x, ints(*axes)], {"keepdims": keepdims}, opset=18, constants=(1,))
    check(op, [x], {"keepdims": keepdims}, opset=12)
    check(op, [x], {"keepdims": keepdims}, opset=18)
    check(op, [x, ints()], {"keepdims": keepdims, "noop_with_empty_axes": 0}, opset=18, constants=(1,))
    check("ReduceSum", [x, ints(1)], {"keepdims": keepdims}, opset=13)
    check("ReduceSum", [x, ints()], {"noop_with_empty_axes": 1}, opset=13, constants=(1,))


@pytest.mark.parametrize("name", ["Max", "Min", "Sum", "Prod", "Mean"])
def test_reductions_of_integers_keep_their_dtype(name: str) -> None:
    x = RNG.integers(-4, 5, (3, 4)).astype("int32")
    check(f"Reduce{name}", [x, ints(0)], {}, opset=18)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_positions_of_extremes(op: str, last: int, axis: int) -> None:
    x = RNG.integers(0, 3, (4, 5)).astype("float32")
    for keepdims in (0, 1):
        check(op, [x], {"axis": axis, "keepdims": keepdims, "select_last_index": last}, opset=13)


@pytest.mark.parametrize("constants", [(), (1, 2, 3, 4)])
def test_slices(constants: tuple[int, ...]) -> None:
    x = values(5, 6, 7)
    far = np.iinfo(np.int64)
    for starts, ends, axes, steps in (
        ([1, 0], [4, far.max], [0, 2], [2, 1]),
        ([-1], [far.min], [1], [-1]),
        ([5, -3], [0, 100], [1, -1], [-2, 1]),
        ([4], [2], [0], [1]),
    ):
        parts = [ints(*each) for each in (starts, ends, axes, steps)]
        check("Slice", [x, *parts], opset=13, constants=constants)
    check("Slice", [x, ints(1), ints(3)], opset=13, constants=constants[:2])
    check("Slice", [x], {"starts": [0, -2], "ends": [3, 100], "axes": [1, 2]}, opset=9)
    check("Slice", [x], {"starts": [1], "ends": [-1]}, opset=9)


def test_parts() -> None:
    x = values(7, 4)
    check("Split", [x], {"axis": 0, "split": [2, 5]}, opset=11, outputs=2)
    check("Split", [values(6, 4)], {"axis": 1}, opset=11, outputs=2)
    check("Split", [x, ints(3, 4)], {"axis": 0}, opset=13, outputs=2, constants=(1,))
    check("Split", [x], {"axis": 0, "num_outputs": 3}, opset=18, outputs=3)
    check("Concat", [x, values(2, 4), x], {"axis": 0}, opset=13)
    check("Concat", [x, x], {"axis": -1}, opset=13)
    model = model_of("Split", [x, ints(3, 3)], {}, opset=13, outputs=2, constants=(1,))
    with pytest.raises(aj.OnnxError, match=r"lengths \(3, 3\) of axis 0 of extent 7"):
        ours(model, {"x0": x})


@pytest.mark.parametrize("constants", [(), (1,)])
def test_axes_come_and_go(constants: tuple[int, ...]) -> None:
    x = values(1, 3, 1, 2)
    check("Squeeze", [x], {"axes": [0, -2]}, opset=11)
    check("Squeeze", [x], {}, opset=11)
    check("Squeeze", [x, ints(0, 2)], opset=13, constants=constants)
    check("Squeeze", [x], opset=13)
    check("Unsqueeze", [x], {"axes": [0, 5]}, opset=11)
    check("Unsqueeze", [x, ints(-1, 1)], opset=13, constants=constants)
    check("Reshape", [x, ints(0, -1)], opset=14, constants=constants)
    check("Reshape", [values(0, 3), ints(3, 0)], {"allowzero": 1}, opset=14, constants=constants)
    check("Expand", [x, ints(4, 1, 3, 5, 1)], opset=13, constants=constants)
    check("Expand", [x, ints(2)], opset=13, constants=constants)
    check("Tile", [x, ints(2, 1, 3, 2)], opset=13, constants=constants)
    for axis in (0, 2, 4, -1):
        check("Flatten", [x], {"axis": axis}, opset=13)
    check("Transpose", [x], {"perm": [3, 1, 0, 2]}, opset=13)
    check("Transpose", [x], opset=13)


@pytest.mark.parametrize("constants", [(), (1,)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(constants: tuple[int, ...], axis: int) -> None:
    x = values(4, 5, 4)
    for index in (np.array(2), np.array(-1), ints(0, -2, 3), ints(1, 1).reshape(2, 1).astype("int32")):
        check("Gather", [x, index], {"axis": axis}, opset=13, constants=constants)
    check("GatherElements", [x, RNG.integers(-4, 4, (2, 3, 4))], {"axis": axis}, opset=13, constants=constants)


def test_gather_by_tuples() -> None:
    x = values(2, 3, 4, 5)
    for depth in (1, 2, 4):
        check("GatherND", [x, RNG.integers(-2, 2, (6, depth))], opset=13)
    check("GatherND", [x, RNG.integers(-2, 2, (2, 3, 2))], {"batch_dims": 1}, opset=13)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatters(reduction: str) -> None:
    x, opset = values(4, 5), 18
    index = RNG.permuted(np.tile(np.arange(-2, 2), (3, 1)), axis=1).T.copy()
    check("ScatterElements", [x, index, values(4, 3)], {"axis": 0, "reduction": reduction}, opset=opset)
    if reduction != "none":
        # Several values for one element: without a reduction any may stay.
        twice = RNG.integers(-4, 4, (2, 3))
        check("ScatterElements", [x, twice, values(2, 3)], {"axis": 1, "reduction": reduction}, opset=opset)
        check("ScatterND", [x, RNG.integers(0, 4, (6, 1)), values(6, 5)], {"reduction": reduction}, opset=opset)
    check("ScatterND", [x, np.array([[0, 1], [3, -1]]), values(2)], {"reduction": reduction}, opset=opset)
    check("ScatterElements", [x, index, values(4, 3)], {"axis": 0}, opset=11)
    check("Scatter", [x, index, values(4, 3)], {"axis": 0}, opset=9)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k(axis: int, largest: int) -> None:
    x = RNG.integers(0, 4, (5, 6)).astype("float32")
    for k in (1, 3, 5):
        check("TopK", [x, ints(k)], {"axis": axis, "largest": largest}, opset=11, outputs=2, constants=(1,))
    check("TopK", [x, ints(2)], {"axis": axis}, opset=10, outputs=2)


def test_one_hot() -> None:
    index, ends = np.array([[0, -1, 2], [5, -4, 1]]), np.array([0.5, 2], "float32")
    for axis in (0, 1, -1):
        check("OneHot", [index, ints(4), ends], {"axis": axis}, opset=11, constants=(1,))
        check("OneHot", [index, ints(4), ends], {"axis": axis}, opset=11)


def test_how_many_elements_there_are_may_depend_on_values() -> None:
    x = RNG.integers(0, 3, (4, 5)).astype("float32")
    check("NonZero", [x], opset=13)
    # Of a number the standard wants shape (0, N), where ONNX Runtime gives (1, N).
    model = model_of("NonZero", [np.array(3, "float32")], {}, opset=13)
    assert ours(model, {"x0": np.array(3, "float32")})[0].shape == (0, 1)
    check("Compress", [x, np.array([True, False, True])], {"axis": 0}, opset=11)
    check("Compress", [x, np.array([True, False, True])], opset=11)
    for attributes in ({}, {"sorted": 0}, {"axis": 0}, {"axis": 1, "sorted": 0}):
        check("Unique", [x], attributes, opset=11, outputs=4)


def test_triangles_sequences_and_windows() -> None:
    x = values(2, 4, 5)
    for upper in (0, 1):
        check("Trilu", [x], {"upper": upper}, opset=14)
        check("Trilu", [x, np.array(-2)], {"upper": upper}, opset=14, constants=(1,))
        check("Trilu", [x, np.array(1)], {"upper": upper}, opset=14)
    check("ReverseSequence", [values(4, 3, 2), ints(4, 1, 2)], opset=10)
    check("ReverseSequence", [values(3, 4), ints(2, 3, 0)], {"time_axis": 1, "batch_axis": 0}, opset=10)
    for numbers, dtype in (((1, 7, 2), "int64"), ((5, -4, -3), "int32"), ((0.5, 3, 0.5), "float32")):
        check("Range", [np.array(each, dtype) for each in numbers], opset=11)
    check("EyeLike", [x[0]], {"k": 1}, opset=9)
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for periodic in (0, 1):
            check(op, [np.array(9)], {"periodic": periodic}, opset=17, tolerance=1e-4)


def test_random_numbers_are_new_in_each_run_and_the_same_with_a_seed() -> None:
    for op, inputs, attributes in (
        ("RandomNormal", [], {"shape": [1000], "mean": 3.0, "scale": 0.5}),
        ("RandomUniform", [], {"shape": [1000], "low": 2.0, "high": 4.0}),
        ("RandomNormalLike", [values(1000)], {"mean": 3.0, "scale": 0.5}),
        ("Bernoulli", [np.full(1000, 0.3)], {}),
        ("Multinomial", [np.log(np.tile([0.1, 0.2, 0.7], (1, 1))).astype("float32")], {"sample_size": 1000}),
    ):
        feed = {f"x{place}": each for place, each in enumerate(inputs)}
        free = aj.onnx.load(model_of(op, inputs, attributes, opset=15))
        one, two = (np.asarray(free.run(**feed)["y0"]) for _ in range(2))
        assert (one != two).any()
        seeded = aj.onnx.load(model_of(op, inputs, {**attributes, "seed": 4.0}, opset=15))
        one, two = (np.asarray(seeded.run(**feed)["y0"]) for _ in range(2))
        np.testing.assert_array_equal(one, two)
        wanted = {"Bernoulli": 0.3, "Multinomial": 1.6}.get(op, 3.0)
        # A thousand draws of a standard deviation below 0.7: five times that of their mean.
        assert abs(one.mean() - wanted) < 0.11
