"""Matrix products, and the determinant.

Law: the generalised ufuncs of NumPy; every other product is made of these and of views.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from asyncjit.ir import Cost
from asyncjit.ops._spec import NumPyKernel, Op, Params, Shape, Spec, broadcast, register
from asyncjit.ops.elementwise import ufunc_dtypes
from asyncjit.symbols import same, upper

__all__: list[str] = []


def _matmul_shape(left: Shape, right: Shape) -> Shape:
    """NumPy's rule: a vector on the left is a row, on the right a column, and its axis goes from the result."""
    if not left or not right:
        raise ValueError(f"matmul: a 0-d operand, shapes {left} and {right}; use * for scaling")
    inner = right[-2] if len(right) > 1 else right[0]
    if not same(left[-1], inner):
        raise ValueError(
            f"matmul: shapes {left} and {right} do not chain: {left[-1]} columns on the left, {inner} rows on the right"
        )
    batch = broadcast("matmul", [left[:-2], right[:-2]])
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def _infer_matmul(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    left, right = specs
    shape = _matmul_shape(left.shape, right.shape)
    return (Spec(shape, ufunc_dtypes("matmul", np.matmul, (left.dtype, right.dtype))[2]),)


def _infer_vecdot(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    left, right = specs
    if not left.shape or not right.shape or not same(left.shape[-1], right.shape[-1]):
        raise ValueError(f"vecdot: last axes differ, shapes {left.shape} and {right.shape}")
    shape = broadcast("vecdot", [left.shape[:-1], right.shape[:-1]])
    return (Spec(shape, ufunc_dtypes("vecdot", np.vecdot, (left.dtype, right.dtype))[2]),)


def _product_cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    nbytes = sum(spec.nbytes for spec in (*inputs, *outputs))
    return Cost(2 * outputs[0].size * upper(inputs[0].shape[-1]), nbytes)


def _infer_det(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    (spec,) = specs
    if len(spec.shape) < 2 or not same(spec.shape[-1], spec.shape[-2]):
        raise ValueError(f"det: the last two axes make square matrices, got shape {spec.shape}")
    if spec.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise TypeError(f"det is not defined for {spec.dtype}; use astype with float32 or float64")
    return (Spec(spec.shape[:-2], spec.dtype),)


def _det_cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    return Cost(inputs[0].size * upper(inputs[0].shape[-1]), inputs[0].nbytes)


def _det(params: Params, operands: object) -> NumPyKernel:
    def run(matrices: Any, out: Any) -> None:
        # Allocates the determinants, and one matrix at a time.
        out[...] = np.linalg.det(matrices)

    return run


def _plain(ufunc: np.ufunc, params: Params, operands: object) -> np.ufunc:
    return ufunc


register(Op(name="matmul", infer=_infer_matmul, kernel=partial(_plain, np.matmul), cost=_product_cost))
register(Op(name="vecdot", infer=_infer_vecdot, kernel=partial(_plain, np.vecdot), cost=_product_cost))
register(Op(name="det", infer=_infer_det, kernel=_det, cost=_det_cost))
