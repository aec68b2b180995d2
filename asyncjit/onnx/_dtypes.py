"""Element types of ONNX as dtypes of NumPy.

Law: one table, and what follows from it.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

from asyncjit.numpy._dispatch import dtype_of
from asyncjit.ops import admit

__all__ = ["TEXT", "dtype_of_code", "is_integer", "is_text_code", "name_of_code"]

TEXT = np.dtype(object)

#: What ONNX has and NumPy has not; a byte an element or two.
NARROW = (
    *("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float4_e2m1fn", "int4", "uint4", "int2", "uint2"),
)
for _name in NARROW:
    # Those of two bits came later than the others.
    if hasattr(ml_dtypes, _name):
        admit(np.dtype(getattr(ml_dtypes, _name)))


def dtype_of_code(code: int) -> np.dtype[Any]:
    """The dtype of a ``TensorProto.DataType``; objects for text.

    Raises:
        ValueError: there is no such type, or arrays cannot hold it.
    """
    if is_text_code(code):
        return TEXT
    try:
        return dtype_of(onnx.helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, TypeError):
        raise ValueError(f"arrays cannot hold elements of type {name_of_code(code)}") from None


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Whether elements are integers, of any width."""
    return dtype.kind in "iu" or dtype.name.startswith(("int", "uint"))


def is_text_code(code: int) -> bool:
    return code == TensorProto.STRING


def name_of_code(code: int) -> str:
    """``FLOAT``, ``INT64``, …, or the number where it has no name."""
    try:
        return str(TensorProto.DataType.Name(code))
    except ValueError:
        return str(code)
