"""Operators that change the type of elements.

Law: values as C converts them, and to eight bits as ONNX says; text is in ``text``.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import asyncjit.numpy as anp
from asyncjit.numpy import Array
from asyncjit.onnx._dtypes import dtype_of_code
from asyncjit.onnx._model_data import Node
from asyncjit.onnx.operators._registry import Unsupported, operator

__all__: list[str] = []

_limits: Any = ml_dtypes.finfo


@operator("Cast")
def cast(node: Node, x: Array) -> Array:
    return _cast(node, x, dtype_of_code(node.int("to")))


@operator("CastLike", since=15)
def cast_like(node: Node, x: Array, like: Array) -> Array:
    return _cast(node, x, like.dtype)


def _cast(node: Node, x: Array, dtype: np.dtype[Any]) -> Array:
    if x.dtype is dtype or not dtype.name.startswith("float8"):
        return x.astype(dtype, copy=False)
    if dtype.name == "float8_e8m0fnu":
        return _to_powers_of_two(x, dtype, node.str("round_mode", "up"), bool(node.int("saturate", 1)))
    if node.int("saturate", 1):
        end = float(_limits(dtype).max)
        wide = x if x.dtype.name in ("float32", "float64") else x.astype("float32")
        x = anp.clip(wide, -end, end)
    return x.astype(dtype)


def _to_powers_of_two(x: Array, dtype: np.dtype[Any], mode: str, saturates: bool) -> Array:
    """Eight bits that are the exponent of a float32, 255 for nan; negative numbers count by their magnitude."""
    if mode == "nearest":
        smallest, largest = (float(getattr(_limits(dtype), name)) for name in ("tiny", "max"))
        return (anp.clip(x.astype("float32"), smallest, largest) if saturates else x).astype(dtype)
    wide = x.astype("float32")
    bits = anp.bitwise_and(_under(wide, np.dtype(np.int32)), 0x7FFFFFFF)
    exponent = anp.right_shift(bits, 23)
    if mode == "up":
        exponent = exponent + (anp.bitwise_and(bits, 0x7FFFFF) != 0).astype("int32")
    exponent = anp.where(anp.isnan(wide), 255, anp.minimum(exponent, 254 if saturates else 255))
    if not saturates:
        exponent = anp.where(wide == 0, 255, exponent)
    return _under(exponent.astype("uint8"), dtype)


@operator("BitCast", since=26)
def bit_cast(node: Node, x: Array) -> Array:
    """The same bytes under another dtype of the same size; a view."""
    dtype = dtype_of_code(node.int("to"))
    if dtype.itemsize != x.itemsize:
        raise Unsupported(f"{x.dtype} has {x.itemsize} bytes an element, {dtype} has {dtype.itemsize}")
    return _under(x, dtype)


def _under(x: Array, dtype: np.dtype[Any]) -> Array:
    return Array(x._storage, x._offset, x.shape, x.strides, dtype)
