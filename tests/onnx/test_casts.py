"""Casts of ONNX: as C converts where ONNX Runtime can tell, and to eight bits as the table of the standard says."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.onnx.one_node import check, model_of, ours

MIXED = np.float32([0, -0.0, 1.5, -2.7, 100.9, np.nan, np.inf, -np.inf])


@pytest.mark.parametrize("target", ["FLOAT", "DOUBLE", "FLOAT16", "BOOL", "INT8", "INT32", "INT64", "UINT8"])
def test_casts_of_numbers(target: str) -> None:
    to = getattr(TensorProto, target)
    finite = MIXED[:4]
    for given in (finite, finite.astype("float64"), finite.astype("int64"), finite.astype("bool")):
        values = np.abs(given) if target == "UINT8" and given.dtype != bool else given
        check("Cast", [values], {"to": to}, opset=21)
        check("CastLike", [values, np.zeros(1, helper.tensor_dtype_to_np_dtype(to))], opset=21)


#: What becomes of numbers beyond the largest one and of infinity, with and without ``saturate``; "nan" stays "nan".
BEYOND = {
    "FLOAT8E4M3FN": ("float8_e4m3fn", 448.0, float("nan")),
    "FLOAT8E4M3FNUZ": ("float8_e4m3fnuz", 240.0, float("nan")),
    "FLOAT8E5M2": ("float8_e5m2", 57344.0, float("inf")),
    "FLOAT8E5M2FNUZ": ("float8_e5m2fnuz", 57344.0, float("nan")),
}


@pytest.mark.parametrize("target", BEYOND)
@pytest.mark.parametrize("given", ["float32", "float16"])
def test_casts_to_eight_bits_saturate_or_do_not(target: str, given: str) -> None:
    name, largest, beyond = BEYOND[target]
    x = np.array([1.0, -1.0, 65000.0, -65000.0, np.inf, -np.inf, np.nan, 0.1], given)
    for saturate, end in ((1, largest), (0, beyond)):
        wanted = np.array([1.0, -1.0, end, -end, end, -end, np.nan, float(np.float32(0.1).astype(_narrow(name)))])
        (result,) = ours(_cast(x, target, saturate=saturate), {"x0": x})
        assert result.dtype == _narrow(name)
        np.testing.assert_array_equal(result.astype("float64"), wanted)


@pytest.mark.parametrize(
    ("mode", "saturate", "wanted"),
    [
        ("up", 1, [2.0**-127, 2.0, 4.0, 2.0**127, np.nan]),
        ("down", 1, [2.0**-127, 2.0, 2.0, 2.0**127, np.nan]),
        ("nearest", 1, [2.0**-127, 2.0, 4.0, 2.0**127, np.nan]),
        ("up", 0, [np.nan, 2.0, 4.0, np.nan, np.nan]),
    ],
)
def test_casts_to_powers_of_two_round_as_asked(mode: str, saturate: int, wanted: list[float]) -> None:
    x = np.float32([0.0, 2.0, 3.0, np.inf, np.nan])
    model = _cast(x, "FLOAT8E8M0", round_mode=mode, saturate=saturate)
    np.testing.assert_array_equal(ours(model, {"x0": x})[0].astype("float64"), wanted)


def test_bits_stay_under_another_type() -> None:
    x = MIXED
    model = model_of("BitCast", [x], {"to": TensorProto.INT32}, opset=26)
    np.testing.assert_array_equal(ours(model, {"x0": x})[0], x.view(np.int32))


def test_products_of_narrow_types_keep_them() -> None:
    x = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    for op, inputs, attributes in (
        ("MatMul", [x, x.T.copy()], {}),
        ("Gemm", [x, x], {"transB": 1}),
        ("Einsum", [x, x], {"equation": "ij,kj->ik"}),
    ):
        (result,) = ours(model_of(op, inputs, attributes, opset=22), dict(zip(("x0", "x1"), inputs, strict=True)))
        assert result.dtype == x.dtype
        np.testing.assert_array_equal(result.astype("float32"), [[5, 14], [14, 50]])


def _narrow(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name))


def _cast(x: Any, target: str, **attributes: Any) -> Any:
    return model_of("Cast", [x], {"to": getattr(TensorProto, target), **attributes}, opset=24)
