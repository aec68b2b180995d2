"""Deformable convolution: each tap of each window is moved by an offset of its own.

Law: one operation: columns of values between pixels, which are those of ``_sampling``, and a matrix product. Zhu and
others, "Deformable ConvNets v2: More Deformable, Better Results", 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._sampling import blocks, sample
from asyncjit.ops._spec import NumPyKernel, Op, Params, Shape, Spec, register, same_shape
from asyncjit.ops._windows import Extents, Pads, Window, known
from asyncjit.ops.convolution import arithmetic
from asyncjit.symbols import upper

__all__: list[str] = []


def _window(x: Shape, weights: Shape, params: Params) -> tuple[Window, Extents, Extents]:
    """The window, the extents of the input, and those of the output."""
    strides, dilation, pads = cast("tuple[Extents, Extents, Pads]", params[:3])
    extents, kernel = known("deform_conv", x[2:]), known("deform_conv", weights[2:])
    window = Window(kernel, strides, dilation, pads)
    return window, extents, window.outputs("deform_conv", extents)


def _infer(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    x, weights = specs[:2]
    groups, offset_groups = cast("tuple[int, int]", params[3:5])
    if len(x.shape) < 3 or len(weights.shape) != len(x.shape):
        raise ValueError(f"deform_conv: expected x and weights of as many axes, given {x.shape} and {weights.shape}")
    if any(spec.dtype != x.dtype or spec.dtype.kind != "f" for spec in specs):
        listed = ", ".join(str(spec.dtype) for spec in specs)
        raise TypeError(f"deform_conv: expected floats of one dtype, given {listed}: use astype")
    window, _, outputs = _window(x.shape, weights.shape, params)
    filters, per_group = known("deform_conv", weights.shape[:2])
    (channels,) = known("deform_conv", x.shape[1:2])
    if channels != per_group * groups or filters % groups or channels % offset_groups:
        raise ValueError(
            f"deform_conv: {channels} channels, {groups} groups, {offset_groups} groups of offsets and weights of "
            f"shape {weights.shape} do not fit: channels are shared out to groups, and to groups of offsets"
        )
    counts = {"offsets": offset_groups * window.taps * len(outputs), "a mask": offset_groups * window.taps}
    for spec, (what, count) in zip(specs[2:], counts.items(), strict=False):
        wanted = (x.shape[0], count, *outputs)
        if not same_shape(spec.shape, wanted):
            raise ValueError(f"deform_conv: expected {what} of shape {wanted}, given {spec.shape}")
    windows = prod(outputs)
    # The columns, the weights where the arithmetic is done in another dtype, and the products.
    scratch = channels * window.taps * windows
    if arithmetic(x.dtype) != x.dtype:
        scratch += prod(known("deform_conv", weights.shape)) + filters * windows
    return Spec((x.shape[0], filters, *outputs), x.dtype), Spec((scratch,), arithmetic(x.dtype))


def _kernel(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    groups, offset_groups, has_mask = cast("tuple[int, int, bool]", params[3:])

    def run(x: Any, weights: Any, offset: Any, *rest: Any) -> None:
        mask, (out, scratch) = rest[0] if has_mask else None, rest[-2:]
        window, extents, outputs = _window(x.shape, weights.shape, params)
        windows = prod(outputs)
        size = x.shape[1] * window.taps * windows
        columns, rest_of = scratch[:size].reshape(offset_groups, -1, window.taps, windows), scratch[size:]
        matrix = weights.reshape(groups, weights.shape[0] // groups, -1)
        if scratch.dtype != x.dtype:
            given, matrix = matrix, rest_of[: matrix.size].reshape(matrix.shape)
            matrix[...] = given
        for image in range(x.shape[0]):
            pixels = x[image].reshape(offset_groups, -1, prod(extents))
            moved = offset[image].reshape(offset_groups, window.taps, len(extents), -1)
            weighted = None if mask is None else mask[image].reshape(offset_groups, window.taps, -1)
            for group in range(offset_groups):
                _fill(pixels[group], moved[group], window, extents, outputs, columns[group])
                if weighted is not None:
                    np.multiply(columns[group], weighted[group], columns[group])
            target = result = out[image].reshape(groups, matrix.shape[1], -1)
            if scratch.dtype != x.dtype:
                result = rest_of[matrix.size :].reshape(target.shape)
            np.matmul(matrix, columns.reshape(groups, matrix.shape[2], -1), result)
            if result is not target:
                target[...] = result

    return run


def _fill(pixels: Any, moved: Any, window: Window, extents: Extents, outputs: Extents, columns: Any) -> None:
    """Write what the windows see of ``pixels``, shape (channels, pixels), into (channels, taps, windows)."""
    starts = np.meshgrid(*map(np.arange, outputs), indexing="ij")
    for index, tap in enumerate(np.ndindex(*window.kernel)):
        at = [
            start.reshape(-1) * stride - low + place * step + move
            for start, stride, (low, _), place, step, move in zip(
                starts, window.strides, window.pads, tap, window.dilation, moved[index], strict=True
            )
        ]
        for part in blocks(columns.shape[2], pixels.shape[0]):
            sample(pixels, extents, [each[part] for each in at], "linear", columns[:, index, part])


def _cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    depth = prod(upper(extent) for extent in inputs[1].shape[1:])
    return Cost(2 * outputs[0].size * depth + 40 * outputs[1].size, sum(spec.nbytes for spec in (*inputs, *outputs)))


register(Op(name="deform_conv", infer=_infer, kernel=_kernel, cost=_cost))
