"""Transposed convolution: every element of the input, times the weights, added into a window of the output.

Law: one operation; it is the adjoint of convolution with the same window.

The products are one matrix product of the transposed weights with the input as it is; then each tap is added into the
outputs that it reaches. Filters are taken in blocks whose products stay in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._spec import NumPyKernel, Op, Params, Spec, register
from asyncjit.ops._windows import Extents, Pads, known, seen
from asyncjit.ops.convolution import PLANS_MAX, arithmetic
from asyncjit.symbols import same, upper

__all__: list[str] = []

# Elements of the products of a block: 1 MiB of float32; and rows of the product, below which BLAS is slow.
BLOCK_ELEMENTS, ROWS_MIN = 1 << 18, 32


class _Plan:
    """How it is done for given extents, image by image."""

    def __init__(self, specs: Sequence[Spec], params: Params) -> None:
        strides, dilation, pads, self.groups, extra = cast("tuple[Extents, Extents, Pads, int, Extents]", params)
        x, weights = specs[:2]
        shape = known("conv_transpose", (*x.shape[1:], *weights.shape))
        axes = len(x.shape) - 2
        self.channels, self.extents = shape[0], shape[1 : axes + 1]
        self.per_group, self.kernel = shape[axes + 2], shape[axes + 3 :]
        if self.groups < 1 or shape[axes + 1] != self.channels or self.channels % self.groups:
            raise ValueError(
                f"conv_transpose: {self.channels} channels in {self.groups} groups and weights of shape "
                f"{weights.shape} do not fit: expected weights of shape (channels, filters / groups, *kernel), with "
                "channels a multiple of groups"
            )
        self.filters = self.per_group * self.groups
        reach = [(taps - 1) * step + 1 for taps, step in zip(self.kernel, dilation, strict=True)]
        self.outputs = tuple(
            (extent - 1) * stride + size + more - sum(pad)
            for extent, stride, size, more, pad in zip(self.extents, strides, reach, extra, pads, strict=True)
        )
        if any(extent < 1 for extent in self.outputs):
            raise ValueError(f"conv_transpose: extents {self.extents} give outputs {self.outputs}: pad less")
        self.has_cast = arithmetic(x.dtype) != x.dtype
        self.taps = prod(self.kernel)
        self.pixels = prod(self.extents)
        wanted = max(ROWS_MIN // self.taps, BLOCK_ELEMENTS // (self.groups * self.taps * self.pixels), 1)
        self.block = min(self.per_group, wanted)
        #: No two taps add to one output, or some outputs get none: then adding to the bias is what is right for all.
        self.is_tiling = not any(map(any, pads)) and not any(extra) and tuple(strides) == tuple(reach) == self.kernel
        self.reached = [
            tuple(
                seen(size, extent, stride, at * step - low)
                for size, extent, stride, at, step, (low, _) in zip(
                    self.outputs, self.extents, strides, tap, dilation, pads, strict=True
                )
            )
            for tap in np.ndindex(*self.kernel)
        ]

    @property
    def scratch_size(self) -> int:
        products = self.groups * self.block * self.taps * self.pixels
        if not self.has_cast:
            return products
        weights = self.channels * self.per_group * self.taps
        return products + weights + self.channels * self.pixels + self.filters * prod(self.outputs)

    def run(self, x: Any, weights: Any, bias: Any, out: Any, scratch: Any) -> None:
        matrix = weights.reshape(self.groups, -1, self.per_group * self.taps)
        products = self.groups * self.block * self.taps * self.pixels
        rest = scratch[products:]
        if self.has_cast:
            rest[: matrix.size].reshape(matrix.shape)[...] = matrix
            matrix, rest = rest[: matrix.size].reshape(matrix.shape), rest[matrix.size :]
        bias = 0 if bias is None else bias.reshape(self.groups, -1, *(1,) * len(self.extents))
        for image in range(x.shape[0]):
            source = x[image].reshape(self.groups, -1, self.pixels)
            target = result = out[image].reshape(self.groups, self.per_group, *self.outputs)
            if self.has_cast:
                rest[: source.size].reshape(source.shape)[...] = source
                source = rest[: source.size].reshape(source.shape)
                result = rest[source.size :].reshape(target.shape)
            if not self.is_tiling:
                result[...] = bias
            for low in range(0, self.per_group, self.block):
                count = min(self.block, self.per_group - low)
                part = bias if isinstance(bias, int) else bias[:, low : low + count]
                columns = matrix[:, :, low * self.taps : (low + count) * self.taps].swapaxes(1, 2)
                memory = scratch[: columns.shape[0] * columns.shape[1] * self.pixels]
                product = memory.reshape(*columns.shape[:2], self.pixels)
                np.matmul(columns, source, product)
                self._add(product, part, result[:, low : low + count])
            if result is not target:
                target[...] = result

    def _add(self, product: Any, bias: Any, result: Any) -> None:
        """Put the taps of a block into its outputs."""
        parts = product.reshape(self.groups, -1, self.taps, *self.extents)
        for tap, places in enumerate(self.reached):
            source = parts[(slice(None), slice(None), tap, *(inside for inside, _ in places))]
            view = result[(slice(None), slice(None), *(outside for _, outside in places))]
            np.add(source, bias if self.is_tiling else view, view)


def _infer(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    x, weights = specs[:2]
    if len(x.shape) < 3 or len(weights.shape) != len(x.shape):
        raise ValueError(
            f"conv_transpose: expected x of shape (n, channels, *spatial) and weights of shape (channels, "
            f"filters / groups, *kernel) with as many axes, given {x.shape} and {weights.shape}"
        )
    if any(spec.dtype != x.dtype for spec in specs):
        listed = ", ".join(str(spec.dtype) for spec in specs)
        raise TypeError(f"conv_transpose: operands have one dtype, given {listed}: use astype")
    plan = _Plan(specs, params)
    if len(specs) == 3 and not (len(specs[2].shape) == 1 and same(specs[2].shape[0], plan.filters)):
        raise ValueError(f"conv_transpose: expected a bias of shape ({plan.filters},), given {specs[2].shape}")
    result = Spec((x.shape[0], plan.filters, *plan.outputs), x.dtype)
    return result, Spec((plan.scratch_size,), arithmetic(x.dtype))


def _cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    depth = prod(upper(extent) for extent in inputs[1].shape[1:])
    return Cost(2 * inputs[0].size * depth, sum(spec.nbytes for spec in (*inputs, outputs[0])))


def _kernel(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    plans: dict[tuple[Any, ...], Callable[..., None]] = {}

    def run(x: Any, weights: Any, *rest: Any) -> None:
        bias, out, scratch = rest if len(rest) == 3 else (None, *rest)
        plan = plans.get(x.shape[1:])
        if plan is None:
            if len(plans) >= PLANS_MAX:
                plans.clear()
            specs = [Spec(each.shape, each.dtype) for each in (x, weights)]
            plan = plans[x.shape[1:]] = _Plan(specs, params).run
        plan(x, weights, bias, out, scratch)

    return run


register(Op(name="conv_transpose", infer=_infer, kernel=_kernel, cost=_cost))
