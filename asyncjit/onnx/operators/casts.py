"""Operators that change the type of elements.

Law: values as C converts them; text is converted on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncjit.numpy import Array
from asyncjit.onnx._dtypes import TEXT, dtype_of_code
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import Unsupported, operator

__all__: list[str] = []


@operator("Cast", known=(0,))
def cast(node: Node, x: Array | Host) -> Array | Host:
    return _cast(x, dtype_of_code(node.int("to")))


@operator("CastLike", since=15, known=(0,))
def cast_like(node: Node, x: Array | Host, like: Array | Host) -> Array | Host:
    return _cast(x, like.dtype)


def _cast(x: Array | Host, dtype: np.dtype[Any]) -> Array | Host:
    if isinstance(x, np.ndarray):
        if x.dtype == TEXT or dtype == TEXT:
            return _text(x, dtype)
        with np.errstate(all="ignore"):
            return x.astype(dtype)
    if dtype == TEXT:
        raise Unsupported("numbers that are computed become no text; read them and convert them on the host")
    return x.astype(dtype, copy=False)


def _text(x: Host, dtype: np.dtype[Any]) -> Host:
    """Text from numbers in as few digits as give them back, and numbers from text."""
    if dtype != TEXT:
        numbers = [float(each) if dtype.kind == "f" else int(float(each)) for each in x.reshape(-1)]
        return np.array(numbers, dtype).reshape(x.shape)
    if x.dtype == TEXT:
        return x
    return np.array([str(each) for each in x.reshape(-1)], object).reshape(x.shape)


@operator("BitCast", since=26)
def bit_cast(node: Node, x: Array) -> Array:
    """The same bytes under another dtype of the same size; a view."""
    dtype = dtype_of_code(node.int("to"))
    if dtype.itemsize != x.itemsize:
        raise Unsupported(f"{x.dtype} has {x.itemsize} bytes an element, {dtype} has {dtype.itemsize}")
    return Array(x._storage, x._offset, x.shape, x.strides, dtype)
