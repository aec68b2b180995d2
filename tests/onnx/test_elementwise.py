"""Elementwise operators, activations and products of ONNX give what ONNX Runtime gives, in every opset that differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncjit as aj
from tests.onnx.one_node import check, model_of, ours

RNG = np.random.default_rng(0)


def values(*shape: int, dtype: str = "float32") -> Any:
    if np.dtype(dtype).kind in "iu":
        return RNG.integers(1 if dtype.startswith("u") else -9, 10, shape).astype(dtype)
    return (RNG.standard_normal(shape) * 2).astype(dtype)


UNARY = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "IsNaN"),
    *("Log", "Neg", "Reciprocal", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan", "Tanh", "HardSwish", "Mish", "Relu"),
    *(
        "Sigmoid",
        "Softplus",
        "Softsign",
        "LeakyRelu",
        "Elu",
        "Celu",
        "Selu",
        "HardSigmoid",
        "ThresholdedRelu",
        "Shrink",
    ),
    "Gelu",
)


@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("opset", [14, 21])
def test_functions_of_one_operand(op: str, opset: int) -> None:
    if (op, opset) in {("Mish", 14), ("Gelu", 14)}:
        opset = 20
    x = np.concatenate([values(50), np.float32([0, -0.0, 1, -1, 0.5, -0.5, 2.5, 30, -30])])
    check(op, [x], opset=opset)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("LeakyRelu", {"alpha": 1.5}),
        ("Elu", {"alpha": 0.3}),
        ("Celu", {"alpha": 2.0}),
        ("Selu", {"alpha": 1.5, "gamma": 0.7}),
        ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.4}),
        ("ThresholdedRelu", {"alpha": 0.3}),
        ("Shrink", {"bias": 0.2, "lambd": 1.0}),
        ("Gelu", {"approximate": "tanh"}),
    ],
)
def test_activations_with_attributes(op: str, attributes: dict[str, Any]) -> None:
    check(op, [values(4, 5)], attributes, opset=20)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Greater", "Less", "GreaterOrEqual"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_functions_of_two_operands_broadcast(op: str, dtype: str) -> None:
    check(op, [values(3, 1, 4, dtype=dtype), np.abs(values(5, 1, dtype=dtype)) + 1], opset=14)


def test_integers_divide_towards_zero_and_remainders_have_the_sign_that_is_asked_for() -> None:
    a, b = np.array([-7, -7, 7, 7, 6, -6], "int32"), np.array([2, -2, 2, -2, 3, 3], "int32")
    check("Div", [a, b], opset=14)
    check("Div", [a.astype("int64"), np.array(-3)], opset=14, constants=(1,))
    check("Div", [abs(a).astype("uint8"), abs(b).astype("uint8")], opset=14)
    check("Mod", [a, b], opset=13)
    check("Mod", [a, b], {"fmod": 1}, opset=13)
    check("Mod", [values(6), np.abs(values(6)) + 1], {"fmod": 1}, opset=13)
    for direction in ("LEFT", "RIGHT"):
        check("BitShift", [abs(a).astype("uint32"), abs(b).astype("uint32")], {"direction": direction}, opset=11)


@pytest.mark.parametrize("constants", [(), (1,)])
@pytest.mark.parametrize("exponent", [2, 0.5, -1, 3, 1.5, 0])
def test_powers_keep_the_dtype_of_the_base(exponent: float, constants: tuple[int, ...]) -> None:
    x = np.abs(values(3, 4)) + 1
    check("Pow", [x, np.array(exponent, "float32")], opset=15, constants=constants)
    check("Pow", [x, np.array([exponent], "float64")], opset=15, constants=constants)
    if exponent >= 0 and exponent == int(exponent):
        check("Pow", [x, np.array(exponent, "int64")], opset=15, constants=constants)
        check("Pow", [values(5, dtype="int32"), np.array(exponent, "int32")], opset=15, constants=constants)
    check("Pow", [np.array(3, "float32"), np.full((1, 2), exponent, "float32")], opset=15, constants=constants)


@pytest.mark.parametrize("constants", [(), (1,), (1, 2)])
def test_clip_takes_bounds_as_attributes_and_as_inputs(constants: tuple[int, ...]) -> None:
    x = values(4, 5)
    low, high = np.array(-1, "float32"), np.array(0.5, "float32")
    check("Clip", [x, low, high], opset=13, constants=constants)
    check("Clip", [x, None, high], opset=13, constants=constants and (2,))
    check("Clip", [x, low], opset=11, constants=constants and (1,))
    check("Clip", [x], opset=11)
    check("Clip", [values(9, dtype="int8"), np.int8(-3)[...], np.int8(4)[...]], opset=13, constants=constants)
    for attributes in ({"min": -1.0, "max": 0.5}, {"max": 0.5}, {}):
        check("Clip", [x], attributes, opset=10)


def test_any_number_of_operands() -> None:
    operands = [values(2, 3), values(3), values(2, 1)]
    for op in ("Max", "Min", "Sum", "Mean"):
        for count in (1, 2, 3):
            check(op, operands[:count], opset=13)


def test_logic_and_choices() -> None:
    a, b = RNG.random((2, 3)) > 0.5, RNG.random(3) > 0.5
    for op in ("And", "Or", "Xor"):
        check(op, [a, b], opset=13)
    check("Not", [a], opset=13)
    check("Where", [a, values(2, 1), values(3)], opset=16)
    infinite = np.float32([1, np.inf, -np.inf, np.nan])
    for attributes in (
        {},
        {"detect_negative": 0},
        {"detect_positive": 0},
        {"detect_negative": 0, "detect_positive": 0},
    ):
        check("IsInf", [infinite], attributes, opset=20)
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        check(op, [values(4, dtype="int32"), values(4, dtype="int32")], opset=18)


def test_slopes_of_channels() -> None:
    check("PRelu", [values(2, 3, 4), values(3, 1)], opset=16)
    check("PRelu", [values(2, 3, 4), values(1)], opset=16)


@pytest.mark.parametrize("op", ["Hardmax"])
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_hardmax_flattens_before_opset_13(op: str, opset: int, axis: int | None) -> None:
    check(op, [values(2, 3, 4)], {} if axis is None else {"axis": axis}, opset=opset)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running_sums(exclusive: int, reverse: int, axis: int) -> None:
    attributes = {"exclusive": exclusive, "reverse": reverse}
    check("CumSum", [values(3, 4), np.array(axis)], attributes, opset=14, constants=(1,))
    check("CumSum", [values(3, 4, dtype="int32"), np.array(axis)], attributes, opset=14)


def test_products() -> None:
    check("MatMul", [values(5, 1, 2, 3), values(4, 3, 2)], opset=13)
    check("MatMul", [values(3), values(3)], opset=13)
    check("MatMul", [values(2, 3, dtype="int32"), values(3, 2, dtype="int32")], opset=13)
    for trans in (0, 1):
        a = values(3, 2) if trans else values(2, 3)
        b = values(4, 3) if trans else values(3, 4)
        attributes = {"transA": trans, "transB": trans, "alpha": 0.5, "beta": 2.0}
        for c in (values(4), values(2, 1), np.float32(1.5)[...]):
            check("Gemm", [a, b, c], attributes, opset=13)
        check("Gemm", [a, b], attributes, opset=13)
    for equation, shapes in (
        ("bhwc,hkc->bhwk", [(2, 3, 4, 5), (3, 6, 5)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("ij,kj", [(2, 3), (4, 3)]),
        ("i,j->ij", [(2,), (3,)]),
    ):
        check("Einsum", [values(*shape) for shape in shapes], {"equation": equation}, opset=12)


def test_before_opset_7_an_operand_stands_beside_the_axes_that_an_attribute_names() -> None:
    a, b = values(2, 3, 4), values(3)
    for op, function in (("Add", np.add), ("Mul", np.multiply), ("Div", np.divide), ("Pow", np.power)):
        model = model_of(op, [np.abs(a), b], {"broadcast": 1, "axis": 1}, opset=6)
        (result,) = ours(model, {"x0": np.abs(a), "x1": b})
        np.testing.assert_allclose(result, function(np.abs(a), b[:, None]), rtol=1e-6)


def test_what_cannot_be_done_is_said_with_node_and_reason() -> None:
    model = model_of("BitCast", [values(3)], {"to": 11}, opset=26)
    with pytest.raises(aj.OnnxError, match=r"BitCast.*4 bytes an element, float64 has 8"):
        ours(model, {"x0": values(3)})
