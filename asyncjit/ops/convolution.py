"""Convolution: correlations of an input with weights over its spatial axes.

Law: shape and dtype rules, and the choice of an algorithm; the algorithms are in ``_conv_columns``, ``_conv_rows`` and
``_conv_taps``.

Time over that of ONNX Runtime 1.32, one thread each, float32 with a bias, least of 60 runs in turns (2026-11-30, two
cores of an EPYC of the third generation that others used too, OpenBLAS of NumPy 2.4; the figures came within 0.1):

=================================  =====  =====================================================
input, filters, kernel, stride     ratio  what else was tried
=================================  =====  =====================================================
64x56x56, 64, 3x3, 1                1.35  blocks of columns 1.45, Winograd F(4, 3) by products 1.29
128x28x28, 128, 3x3, 1               1.4  rows 1.5; Winograd 0.86 if the weights come transformed
32x160x160, 32, 3x3, 1              1.35  blocks of columns 1.7, Winograd 1.8
3x640x640, 16, 3x3, 2               1.25  blocks of columns 1.7
96x40x40, 576, 1x1, 1                1.1  without a bias 0.9
576x40x40, 96, 1x1, 1                1.0
96x80x80, depthwise 3x3, 1           2.8  multiply and add 2.6 to 2.8, columns 2.6, Toeplitz matrices 4.3
96x80x80, depthwise 5x5, 1           3.5  multiply and add 4.0 to 4.4, columns 4.3, Toeplitz matrices 5.0
129x4, 128, 3, 1                     1.3  42 us, of which the product takes 17
129x100, 128, 3, 1                   1.1
129x4, 128, 3, 1, batch of 31        0.8  a product for each image 2.5
96x1x1, 24, 1x1, 1                   0.7
=================================  =====  =====================================================

The product alone of 3 x 3 windows takes 1.0 to 1.1 of ONNX Runtime's time; the rest is making the columns. An
activation in the same operation takes 0.85 to 1.05 of the time of both apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._conv_columns import ColumnsPlan, Problem
from asyncjit.ops._conv_rows import RowsPlan
from asyncjit.ops._conv_taps import TapsPlan
from asyncjit.ops._spec import DType, NumPyKernel, Op, Params, Spec, register
from asyncjit.ops._windows import Extents, Pads, Window, known
from asyncjit.ops.activations import Activation
from asyncjit.symbols import same, upper

__all__ = ["arithmetic"]

# A product has as many columns as a row has outputs: with 40 to 160 of them 0.65 to 1.0 times the time of products over
# blocks of windows, with 28 1.2 times.
WIDTH_MIN = 40
#: Plans of one capture: a batch that a variable sizes has one for each size.
PLANS_MAX = 64


def arithmetic(dtype: DType) -> DType:
    """The dtype that sums of products are done in: float32 for halves, which BLAS does not know."""
    return np.dtype(np.float32) if dtype.itemsize < 4 and dtype.kind in "fV" else dtype


def _problem(specs: tuple[Spec, ...], params: Params) -> Problem:
    strides, dilation, pads, groups, fused = cast("tuple[Extents, Extents, Pads, int, Activation | None]", params)
    x, weights = specs[:2]
    shape = known("conv", (*x.shape[1:], *weights.shape))
    axes = len(x.shape) - 2
    channels, extents, filters, per_group, kernel = (
        shape[0],
        shape[1 : axes + 1],
        shape[axes + 1],
        shape[axes + 2],
        shape[axes + 3 :],
    )
    if groups < 1 or channels != per_group * groups or filters % groups:
        raise ValueError(
            f"conv: {channels} channels in, {groups} groups, and weights of shape {weights.shape} do not fit: expected "
            f"weights of shape (filters, channels / groups, *kernel), with filters a multiple of groups"
        )
    window = Window(kernel, strides, dilation, pads)
    return Problem(
        window,
        channels,
        extents,
        filters,
        groups,
        window.outputs("conv", extents),
        len(specs) == 3,
        arithmetic(x.dtype) != x.dtype,
        fused,
    )


def _plan(problem: Problem, batch: int) -> ColumnsPlan | TapsPlan | RowsPlan:
    window = problem.window
    if problem.channels == problem.groups and window.taps > 1 and problem.channels > 1:
        return TapsPlan(problem, batch)
    is_wide = len(window.kernel) == 2 and window.kernel[0] > 1 and problem.outputs[1] >= WIDTH_MIN
    if is_wide and problem.groups == 1 and window.dilation[0] == 1 and not problem.has_cast:
        return RowsPlan(problem)
    return ColumnsPlan(problem, batch)


def _infer(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    x, weights = specs[:2]
    if len(x.shape) < 3 or len(weights.shape) != len(x.shape):
        raise ValueError(
            f"conv: expected x of shape (n, channels, *spatial) and weights of shape (filters, channels / groups, "
            f"*kernel) with as many axes, given {x.shape} and {weights.shape}"
        )
    if any(spec.dtype != x.dtype for spec in specs):
        listed = ", ".join(str(spec.dtype) for spec in specs)
        raise TypeError(f"conv: operands have one dtype, given {listed}: use astype")
    problem = _problem(specs, params)
    if len(specs) == 3 and not (len(specs[2].shape) == 1 and same(specs[2].shape[0], problem.filters)):
        raise ValueError(f"conv: expected a bias of shape ({problem.filters},), given {specs[2].shape}")
    scratch = _plan(problem, upper(x.shape[0])).scratch_size
    return (
        Spec((x.shape[0], problem.filters, *problem.outputs), x.dtype),
        Spec((max(scratch, 1),), arithmetic(x.dtype)),
    )


def _cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    depth = prod(upper(extent) for extent in inputs[1].shape[1:])
    return Cost(2 * outputs[0].size * depth, sum(spec.nbytes for spec in (*inputs, outputs[0])))


def _kernel(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    plans: dict[tuple[Any, ...], Callable[..., None]] = {}

    def run(x: Any, weights: Any, *rest: Any) -> None:
        bias, out, scratch = rest if len(rest) == 3 else (None, *rest)
        plan = plans.get(x.shape)
        if plan is None:
            specs = tuple(Spec(each.shape, each.dtype) for each in (x, weights, *rest[:-2]))
            if len(plans) >= PLANS_MAX:
                plans.clear()
            plan = plans[x.shape] = _plan(_problem(specs, params), x.shape[0]).run
        plan(x, weights, bias, out, scratch)

    return run


register(Op(name="conv", infer=_infer, kernel=_kernel, cost=_cost))
