"""Padding, and windows put back into the image that they were taken from.

Law: operations that place elements at other positions of a larger or smaller array; nothing is computed but sums.

``pad`` copies the operand into the middle of the result and then, axis by axis, fills both ends from what stands in the
result already, in runs of neighbouring positions that go up, down or stand still.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from asyncjit.ir import Operand
from asyncjit.ops._spec import NumPyKernel, Op, Params, Spec, register
from asyncjit.ops._windows import Extents, Pads, Window, known, seen
from asyncjit.ops.convolution import PLANS_MAX
from asyncjit.symbols import same

__all__ = ["PAD_MODES"]

#: Where a position beyond the ends of ``extent`` elements comes from; counted from the first element.
_SOURCES: dict[str, Callable[[int, int], int]] = {
    "edge": lambda at, extent: min(max(at, 0), extent - 1),
    "wrap": lambda at, extent: at % extent,
    "reflect": lambda at, extent: extent - 1 - abs(at % max(1, 2 * extent - 2) - (extent - 1)),
}
PAD_MODES = ("constant", *_SOURCES)


def _infer_pad(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    mode, pads = cast("tuple[str, Pads]", params)
    x = specs[0]
    if any(spec.dtype != x.dtype for spec in specs):
        raise TypeError(f"pad: the value has the dtype of the array, {x.dtype}, given {specs[1].dtype}: use astype")
    for extent, pad in zip(x.shape, pads, strict=True):
        if mode != "constant" and same(extent, 0) and any(pad):
            raise ValueError(f"pad: an axis of extent 0 has nothing for mode {mode!r} to repeat, shape {x.shape}")
    return (Spec(tuple(low + extent + high for extent, (low, high) in zip(x.shape, pads, strict=True)), x.dtype),)


def _runs(mode: str, extent: int, low: int, high: int) -> list[tuple[slice, slice]]:
    """What goes where along one axis of the result, as few slices."""
    runs: list[list[int]] = []
    for at in (*range(-low, 0), *range(extent, extent + high)):
        source = _SOURCES[mode](at, extent)
        last = runs[-1] if runs else None
        # Target, source, step, length; the second element of a run decides its step.
        if last is not None and last[0] + last[3] == at and (last[3] == 1 or source == last[1] + last[2] * last[3]):
            last[2] = last[2] if last[3] > 1 else source - last[1]
            last[3] += 1
        else:
            runs.append([at, source, 0, 1])
    return [
        (slice(low + target, low + target + length), _slice(low + source, step, length))
        for target, source, step, length in runs
    ]


def _slice(start: int, step: int, length: int) -> slice:
    if step == 0:
        return slice(start, start + 1)
    stop = start + step * length
    return slice(start, stop if stop >= 0 else None, step)


def _kernel_pad(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    mode, pads = cast("tuple[str, Pads]", params)
    plans: dict[Extents, list[list[tuple[slice, slice]]]] = {}

    def constant(x: Any, value: Any, out: Any) -> None:
        middle: tuple[slice, ...] = ()
        for axis, (low, _) in enumerate(pads):
            inside = slice(low, low + x.shape[axis])
            out[(*middle, slice(0, low))] = value
            out[(*middle, slice(inside.stop, None))] = value
            middle = (*middle, inside)
        out[middle] = x

    def repeated(x: Any, out: Any) -> None:
        plan = plans.get(x.shape)
        if plan is None:
            if len(plans) >= PLANS_MAX:
                plans.clear()
            sizes = zip(x.shape, pads, strict=True)
            plan = plans[x.shape] = [_runs(mode, extent, low, high) for extent, (low, high) in sizes]
        middle = tuple(slice(low, low + extent) for extent, (low, _) in zip(x.shape, pads, strict=True))
        out[middle] = x
        for axis, runs in enumerate(plan):
            before, behind = (slice(None),) * axis, middle[axis + 1 :]
            for target, source in runs:
                out[(*before, target, *behind)] = out[(*before, source, *behind)]

    return constant if mode == "constant" else repeated


def _infer_fold(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    image, kernel, strides, dilation, pads = cast("tuple[Extents, Extents, Extents, Extents, Pads]", params)
    (spec,) = specs
    counts = Window(kernel, strides, dilation, pads).outputs("col2im", image)
    shape = spec.shape
    if len(shape) != 3 or not same(shape[2], prod(counts)) or known("col2im", shape[1:])[0] % prod(kernel):
        raise ValueError(
            f"col2im: expected shape (n, channels * {prod(kernel)}, {prod(counts)}) for an image of {image} and "
            f"windows of {kernel}, given {shape}"
        )
    return (Spec((shape[0], known("col2im", shape[1:])[0] // prod(kernel), *image), spec.dtype),)


def _kernel_fold(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    image, kernel, strides, dilation, pads = cast("tuple[Extents, Extents, Extents, Extents, Pads]", params)
    counts = Window(kernel, strides, dilation, pads).outputs("col2im", image)
    taps: Sequence[Any] = [
        tuple(
            seen(extent, count, stride, at * step - low)
            for extent, count, stride, at, step, (low, _) in zip(
                image, counts, strides, tap, dilation, pads, strict=True
            )
        )
        for tap in np.ndindex(*kernel)
    ]

    def run(x: Any, out: Any) -> None:
        out.fill(0)
        columns = x.reshape(x.shape[0], -1, len(taps), *counts)
        for index, places in enumerate(taps):
            view = out[(slice(None), slice(None), *(inside for _, inside in places))]
            part = columns[(slice(None), slice(None), index, *(outside for outside, _ in places))]
            np.add(view, part, view)

    return run


register(Op(name="pad", infer=_infer_pad, kernel=_kernel_pad))
register(Op(name="col2im", infer=_infer_fold, kernel=_kernel_fold))
