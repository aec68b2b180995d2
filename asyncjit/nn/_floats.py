"""Which dtype an operation computes in.

Law: float16 and whatever is narrower is computed in float32 and rounded once, at the end; other dtypes stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncjit.numpy._array import Array
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._movement import as_array

__all__ = ["is_narrow", "rounded", "widened"]

DType = np.dtype[Any]


def is_narrow(dtype: DType) -> bool:
    """Whether ``dtype`` is a floating-point one of 16 bits or fewer."""
    return dtype.itemsize <= 2 and dtype.name.startswith(("float", "bfloat"))


def widened(*operands: ArrayLike | None) -> tuple[DType, list[Any]]:
    """The dtype of the first operand, which results are rounded to, and all of them in the dtype to compute in; None
    stays None."""
    first = as_array(operands[0])  # type: ignore[arg-type]
    target = np.dtype(np.float32) if is_narrow(first.dtype) else first.dtype
    arrays = [None if each is None else as_array(each).astype(target, copy=False) for each in operands]
    return first.dtype, arrays


def rounded(x: Array, dtype: DType) -> Array:
    """``x`` in ``dtype``; itself where it is."""
    return x.astype(dtype, copy=False)
