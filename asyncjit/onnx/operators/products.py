"""Matrix products.

Law: ``matmul`` and what goes before and after it.
"""

from __future__ import annotations

import asyncjit.numpy as anp
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Node
from asyncjit.onnx.operators._registry import operator

__all__: list[str] = []


@operator("MatMul")
def matmul(node: Node, a: Array, b: Array) -> Array:
    # Narrow types are multiplied in float32.
    return anp.matmul(a, b).astype(a.dtype, copy=False)


@operator("Gemm")
def gemm(node: Node, a: Array, b: Array, c: Array | None = None) -> Array:
    """``alpha * a @ b + beta * c``; either matrix transposed."""
    product = (a.T if node.int("transA") else a) @ (b.T if node.int("transB") else b)
    product = _scaled(product, node.float("alpha", 1.0))
    if c is not None:
        product = product + _scaled(c, node.float("beta", 1.0))
    return product.astype(a.dtype, copy=False)


def _scaled(x: Array, factor: float) -> Array:
    """Integers stay integers."""
    if factor == 1:
        return x
    return (x * factor).astype(x.dtype, copy=False)


@operator("Einsum", since=12)
def einsum(node: Node, *arrays: Array) -> Array:
    return anp.einsum(node.str("equation"), *arrays).astype(arrays[0].dtype, copy=False)
