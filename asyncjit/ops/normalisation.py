"""Operations that bring values to a common scale: softmax, its logarithm, standardising by rows, and by channels.

Law: float32 and float64; narrower types are widened before they come here. Every operation passes over its input in
blocks that stay in the cache, except where an axis before the last one is folded.

Sums of rows are products with a vector of equal weights: BLAS takes 26 us for 1000 rows of 197 where ``add.reduce``
takes 83 us, and 42 us for 10,000 rows of 8 where that takes 264 us (min of 5, one thread).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._blocks import BLOCK_ELEMENTS, leading_blocks, ranges
from asyncjit.ops._spec import NumPyKernel, Op, Params, Spec, broadcast, register, same_shape

__all__: list[str] = []

# Called by position, which NumPy's stubs do not know for ``out``.
_largest: Any = np.maximum.reduce
_total: Any = np.add.reduce


def _check_float(name: str, specs: Sequence[Spec]) -> None:
    for spec in specs:
        if spec.dtype.char not in "fd" or spec.dtype is not specs[0].dtype:
            listed = ", ".join(each.dtype.name for each in specs)
            raise TypeError(f"{name} takes operands of one dtype, float32 or float64, got {listed}; use astype")


def _cost(flops: int) -> Callable[[Sequence[Spec], Sequence[Spec], Params], Cost]:
    def cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
        return Cost(flops * inputs[0].size, inputs[0].nbytes + outputs[0].nbytes)

    return cost


# --------------------------------------------------------------------------------------------------------- softmax


def _folded(spec: Spec, axis: int) -> Spec:
    return Spec((*spec.shape[:axis], 1, *spec.shape[axis + 1 :]), spec.dtype)


def _infer_softmax(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """The result, and scratch for an element a row."""
    (axis,) = cast("tuple[int]", params)
    _check_float("softmax", specs)
    return specs[0], _folded(specs[0], axis)


def _infer_log_softmax(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """The result, scratch for an element a row, and scratch like the result."""
    (axis,) = cast("tuple[int]", params)
    _check_float("log_softmax", specs)
    return specs[0], _folded(specs[0], axis), specs[0]


def _add_rows(values: Any, axis: int, out: Any) -> None:
    if axis == values.ndim - 1 and values.flags.c_contiguous:
        np.matmul(values, np.ones(values.shape[-1], values.dtype), out[..., 0])
    else:
        _total(values, axis, None, out, True)


def _softmax_block(axis: int, x: Any, out: Any, row: Any) -> None:
    _largest(x, axis, None, row, True)
    np.subtract(x, row, out)
    np.exp(out, out)
    _add_rows(out, axis, row)
    np.divide(out, row, out)


def _log_softmax_block(axis: int, x: Any, out: Any, row: Any, exponentials: Any) -> None:
    _largest(x, axis, None, row, True)
    np.subtract(x, row, out)
    np.exp(out, exponentials)
    _add_rows(exponentials, axis, row)
    np.log(row, row)
    np.subtract(out, row, out)


def _by_rows(block: Callable[..., None], params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    (axis,) = cast("tuple[int]", params)

    def run(x: Any, out: Any, row: Any, *scratch: Any) -> None:
        if not x.size:
            return
        if axis == 0:
            block(0, x, out, row, *scratch)
            return
        if axis == x.ndim - 1 and x.flags.c_contiguous:
            shape = (-1, x.shape[-1])
            views = [
                x.reshape(shape),
                out.reshape(shape),
                row.reshape(-1, 1),
                *(each.reshape(shape) for each in scratch),
            ]
            for parts in leading_blocks(views[0].shape, *views):
                block(1, *parts)
            return
        for parts in leading_blocks(x.shape, x, out, row, *scratch):
            block(axis, *parts)

    return run


# ----------------------------------------------------------------------------------------------- standardised rows


def _infer_standardize(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """The result; the means, where rows are centred; and what the rows were multiplied by.

    Parameters: epsilon, whether rows are centred, whether there is a factor and whether there is a summand.
    """
    _, centred, _, _ = cast("tuple[float, bool, bool, bool]", params)
    _check_float("standardize", specs)
    x = specs[0]
    for each in specs[1:]:
        if len(each.shape) >= len(x.shape) or not same_shape(broadcast("standardize", [x.shape, each.shape]), x.shape):
            raise ValueError(
                f"standardize: a factor or summand of shape {each.shape} does not go with rows of shape {x.shape}; it "
                "has fewer axes, and extents that are those of the rows or 1"
            )
    row = _folded(x, len(x.shape) - 1)
    return (x, row, row) if centred else (x, row)


def _standardize_block(epsilon: float, weights: Any, x: Any, out: Any, mean: Any, inverse: Any) -> None:
    if mean is None:
        rows = x
        np.vecdot(x, x, inverse[..., 0])
    else:
        np.matmul(x, weights, mean[..., 0])
        np.subtract(x, mean, out)
        rows = out
        np.vecdot(out, out, inverse[..., 0])
    np.multiply(inverse, weights[0], inverse)
    np.add(inverse, epsilon, inverse)
    np.sqrt(inverse, inverse)
    np.reciprocal(inverse, inverse)
    np.multiply(rows, inverse, out)


def _standardize(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    epsilon, centred, scaled, shifted = cast("tuple[float, bool, bool, bool]", params)

    def run(x: Any, *rest: Any) -> None:
        given = scaled + shifted
        factor = rest[0] if scaled else None
        summand = rest[given - 1] if shifted else None
        out, *rows = rest[given:]
        if not x.size:
            return
        weights = np.full(x.shape[-1], 1 / x.shape[-1], x.dtype)
        added = x.dtype.type(epsilon)
        for parts in leading_blocks(x.shape, x, out, *rows):
            x_part, out_part, *row_parts = parts
            _standardize_block(added, weights, x_part, out_part, row_parts[0] if centred else None, row_parts[-1])
            if factor is not None:
                np.multiply(out_part, factor, out_part)
            if summand is not None:
                np.add(out_part, summand, out_part)

    return run


# ------------------------------------------------------------------------------------------------------- channels


def _infer_scale_channels(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """``x`` of shape (n, c, …) times a factor plus a summand a channel."""
    _check_channels("scale_channels", specs)
    return (specs[0],)


def _infer_batch_norm(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    """The result for ``x``, scale, bias, mean, variance; and scratch for a factor and a summand a channel."""
    _check_channels("batch_norm", specs)
    return specs[0], Spec((2, specs[0].shape[1]), specs[0].dtype)


def _check_channels(name: str, specs: tuple[Spec, ...]) -> None:
    _check_float(name, specs)
    x, *channels = specs
    if len(x.shape) < 2 or not all(same_shape(each.shape, (x.shape[1],)) for each in channels):
        listed = ", ".join(str(each.shape) for each in channels)
        raise ValueError(
            f"{name}: for x of shape {x.shape}, expected (n, c, …), every other operand has shape (c,), got {listed}"
        )


def _channels_times(x: Any, factor: Any, summand: Any, out: Any) -> None:
    """Both passes on a block of channels of one batch element, or of many where channels are small."""
    n, c = x.shape[:2]
    column = (c, *(1,) * (x.ndim - 2))
    factors, summands = factor.reshape(column), summand.reshape(column)
    inner = x.size // max(n * c, 1)
    if c * inner <= BLOCK_ELEMENTS:
        for x_part, out_part in leading_blocks(x.shape, x, out):
            np.multiply(x_part, factors, out_part)
            np.add(out_part, summands, out_part)
        return
    for low, high in ranges(c, BLOCK_ELEMENTS // max(inner, 1)):
        for index in range(n):
            part = out[index, low:high]
            np.multiply(x[index, low:high], factors[low:high], part)
            np.add(part, summands[low:high], part)


def _scale_channels(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    return _channels_times


def _batch_norm(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    (epsilon,) = cast("tuple[float]", params)

    def run(x: Any, scale: Any, bias: Any, mean: Any, variance: Any, out: Any, scratch: Any) -> None:
        factor, summand = scratch
        np.add(variance, x.dtype.type(epsilon), factor)
        np.sqrt(factor, factor)
        np.divide(scale, factor, factor)
        np.multiply(mean, factor, summand)
        np.subtract(bias, summand, summand)
        _channels_times(x, factor, summand, out)

    return run


register(Op(name="softmax", infer=_infer_softmax, kernel=partial(_by_rows, _softmax_block), cost=_cost(14)))
register(Op(name="log_softmax", infer=_infer_log_softmax, kernel=partial(_by_rows, _log_softmax_block), cost=_cost(14)))
register(Op(name="standardize", infer=_infer_standardize, kernel=_standardize, cost=_cost(6)))
register(Op(name="scale_channels", infer=_infer_scale_channels, kernel=_scale_channels, cost=_cost(2)))
register(Op(name="batch_norm", infer=_infer_batch_norm, kernel=_batch_norm, cost=_cost(2)))
