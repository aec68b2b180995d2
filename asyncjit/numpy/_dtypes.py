"""Dtypes, constants and questions about them.

Law: NumPy's answers, for the dtypes that arrays may have; touches no element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncjit.numpy._array import Array
from asyncjit.numpy._dispatch import dtype_of
from asyncjit.numpy._handle import DType
from asyncjit.ops import DTYPES
from asyncjit.ops._spec import EXTENDED, is_floating

__all__ = ["can_cast", "finfo", "iinfo", "isdtype", "result_type"]

bool_: DType = DTYPES["bool"]
int8: DType = DTYPES["int8"]
int16: DType = DTYPES["int16"]
int32: DType = DTYPES["int32"]
int64: DType = DTYPES["int64"]
uint8: DType = DTYPES["uint8"]
uint16: DType = DTYPES["uint16"]
uint32: DType = DTYPES["uint32"]
uint64: DType = DTYPES["uint64"]
float16: DType = DTYPES["float16"]
float32: DType = DTYPES["float32"]
float64: DType = DTYPES["float64"]
complex64: DType = DTYPES["complex64"]
complex128: DType = DTYPES["complex128"]

pi = float(np.pi)
e = float(np.e)
inf = float("inf")
nan = float("nan")
newaxis = None


def _dtype_or_number(value: Any) -> Any:
    if isinstance(value, Array):
        return (0.0 if value.dtype.kind == "f" else 0j) if value._weak else value.dtype
    return value if isinstance(value, (bool, int, float, complex, np.ndarray, np.generic)) else dtype_of(value)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that arrays, dtypes and numbers have in common, by NumPy's promotion."""
    return dtype_of(np.result_type(*map(_dtype_or_number, arrays_and_dtypes)))


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether every value of one dtype (or of an array's) is a value of the other."""
    return bool(np.can_cast(from_.dtype if isinstance(from_, Array) else dtype_of(from_), dtype_of(to)))


def isdtype(dtype: Any, kind: Any, /) -> bool:
    """Whether ``dtype`` is of a kind: "bool", "signed integer", "real floating", "numeric", …, a dtype, or a tuple."""
    given = dtype_of(dtype)
    if given.name in EXTENDED:
        # NumPy asks whether a dtype is one of its own.
        kinds = kind if isinstance(kind, tuple) else (kind,)
        own = ("real floating" if is_floating(given) else _integer_kind(given), "numeric")
        return any(each in (*own, "integral" if own[0] != "real floating" else None) or each is given for each in kinds)
    return bool(np.isdtype(given, kind))


def _integer_kind(dtype: DType) -> str:
    return "unsigned integer" if dtype.name.startswith("uint") else "signed integer"


def finfo(type: Any, /) -> np.finfo[Any]:
    """Limits of a floating-point dtype, or of an array's."""
    return np.finfo(type.dtype if isinstance(type, Array) else dtype_of(type))


def iinfo(type: Any, /) -> np.iinfo[Any]:
    """Limits of an integer dtype, or of an array's."""
    return np.iinfo(type.dtype if isinstance(type, Array) else dtype_of(type))
