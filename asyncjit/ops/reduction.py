"""Operations that fold axes, and running sums.

Law: one line an operation. Parameters of a fold are ``(axes, keepdims, dtype name)`` with axes sorted and counted from
the front; kernels call the ufunc's own ``reduce`` with ``out``, which is what NumPy's methods call.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._spec import DType, NumPyKernel, Op, Params, Shape, Spec, register
from asyncjit.symbols import same

__all__ = ["accumulator", "reduced_shape"]

Axes = tuple[int, ...]


def reduced_shape(shape: Shape, axes: Axes, keepdims: bool) -> Shape:
    """``shape`` without ``axes``, or with 1 in their places."""
    if keepdims:
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


def accumulator(dtype: DType) -> DType:
    """The dtype of a sum or product: bool and small integers grow to the platform's, as in NumPy."""
    if dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


def _fold_cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    return Cost(inputs[0].size, inputs[0].nbytes + outputs[0].nbytes)


def _infer(
    name: str, dtype: str | None, has_identity: bool, specs: tuple[Spec, ...], params: Params
) -> tuple[Spec, ...]:
    axes, keepdims, chosen = cast("tuple[Axes, bool, str | None]", params[:3])
    (spec,) = specs
    if not has_identity and any(same(spec.shape[axis], 0) for axis in axes):
        raise ValueError(f"{name} over an axis of extent 0 has no value; operand has shape {spec.shape}, axes {axes}")
    return (Spec(reduced_shape(spec.shape, axes, keepdims), np.dtype(chosen or dtype or spec.dtype)),)


def _reduce(ufunc: np.ufunc, params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    axes, keepdims, dtype = cast("tuple[Axes, bool, str | None]", params[:3])
    reduce: Any = ufunc.reduce
    loop_dtype = None if dtype is None else np.dtype(dtype)

    def run(a: object, out: object) -> None:
        reduce(a, axes, loop_dtype, out, keepdims)

    return run


def _mean(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    """A sum over a divisor. NumPy divides by a 64-bit integer and rounds once, whatever the dtype; so do we."""
    axes, keepdims, dtype, divisor = cast("tuple[Axes, bool, str, int]", params)
    reduce: Any = np.add.reduce
    divide: Any = np.divide
    loop_dtype, count = np.dtype(dtype), np.array(divisor, dtype=np.intp)

    def run(a: object, out: object) -> None:
        reduce(a, axes, loop_dtype, out, keepdims)
        divide(out, count, out, casting="unsafe")

    return run


def _arg(method: str, params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    axis, keepdims = cast("tuple[int | None, bool]", params)
    function = getattr(np.ndarray, method)

    def run(a: object, out: object) -> None:
        function(a, axis, out)

    def run_keepdims(a: object, out: object) -> None:
        function(a, axis, out, keepdims=True)

    return run_keepdims if keepdims else run


def _infer_arg(name: str, specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    axis, keepdims = cast("tuple[int | None, bool]", params)
    (spec,) = specs
    axes = tuple(range(len(spec.shape))) if axis is None else (axis,)
    if same(prod(spec.shape[each] for each in axes), 0):
        raise ValueError(f"{name} over an axis of extent 0 has no value; operand has shape {spec.shape}, axis {axis}")
    return (Spec(reduced_shape(spec.shape, axes, keepdims), np.dtype(np.intp)),)


def _infer_running(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    _, dtype = cast("tuple[int, str]", params)
    return (Spec(specs[0].shape, np.dtype(dtype)),)


def _running(ufunc: np.ufunc, params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    axis, dtype = cast("tuple[int, str]", params)
    accumulate: Any = ufunc.accumulate
    loop_dtype = np.dtype(dtype)

    def run(a: object, out: object) -> None:
        accumulate(a, axis, loop_dtype, out)

    return run


def _fold(name: str, ufunc: np.ufunc, dtype: str | None = None, has_identity: bool = True) -> None:
    infer = partial(_infer, name, dtype, has_identity)
    register(Op(name=name, infer=infer, kernel=partial(_reduce, ufunc), cost=_fold_cost))


_fold("sum", np.add)
_fold("prod", np.multiply)
_fold("max", np.maximum, has_identity=False)
_fold("min", np.minimum, has_identity=False)
_fold("any", np.logical_or, "bool")
_fold("all", np.logical_and, "bool")
register(Op(name="mean", infer=partial(_infer, "mean", None, True), kernel=_mean, cost=_fold_cost))
register(Op(name="argmax", infer=partial(_infer_arg, "argmax"), kernel=partial(_arg, "argmax"), cost=_fold_cost))
register(Op(name="argmin", infer=partial(_infer_arg, "argmin"), kernel=partial(_arg, "argmin"), cost=_fold_cost))
register(Op(name="cumulative_sum", infer=_infer_running, kernel=partial(_running, np.add)))
register(Op(name="cumulative_prod", infer=_infer_running, kernel=partial(_running, np.multiply)))
