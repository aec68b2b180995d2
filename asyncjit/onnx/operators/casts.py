"""Operators that change the type of elements.

Law: values as C converts them; text is in ``text``.
"""

from __future__ import annotations

from asyncjit.numpy import Array
from asyncjit.onnx._dtypes import dtype_of_code
from asyncjit.onnx._model_data import Node
from asyncjit.onnx.operators._registry import Unsupported, operator

__all__: list[str] = []


@operator("Cast")
def cast(node: Node, x: Array) -> Array:
    return x.astype(dtype_of_code(node.int("to")), copy=False)


@operator("CastLike", since=15)
def cast_like(node: Node, x: Array, like: Array) -> Array:
    return x.astype(like.dtype, copy=False)


@operator("BitCast", since=26)
def bit_cast(node: Node, x: Array) -> Array:
    """The same bytes under another dtype of the same size; a view."""
    dtype = dtype_of_code(node.int("to"))
    if dtype.itemsize != x.itemsize:
        raise Unsupported(f"{x.dtype} has {x.itemsize} bytes an element, {dtype} has {dtype.itemsize}")
    return Array(x._storage, x._offset, x.shape, x.strides, dtype)
