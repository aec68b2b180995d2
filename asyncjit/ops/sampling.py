"""Images sampled at positions that come as arrays: grids, and regions of interest.

Law: shape and dtype rules, and kernels that go through images and blocks of positions; values between pixels are
those of ``_sampling``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._sampling import blocks, reflected, sample
from asyncjit.ops._spec import NumPyKernel, Op, Params, Spec, register, same_shape
from asyncjit.ops._windows import Extents, known
from asyncjit.ops.convolution import arithmetic
from asyncjit.symbols import same

__all__: list[str] = []


def _infer_grid(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    x, grid = specs
    mode = params[0]
    axes = len(x.shape) - 2
    if axes < 1 or len(grid.shape) != axes + 2 or not same(grid.shape[-1], axes) or not same(grid.shape[0], x.shape[0]):
        raise ValueError(
            f"grid_sample: expected x of shape (n, channels, *spatial) and a grid of shape (n, *outputs, spatial axes) "
            f"of as many axes, given {x.shape} and {grid.shape}"
        )
    if grid.dtype.kind != "f" or (mode != "nearest" and x.dtype.kind != "f"):
        raise TypeError(f"grid_sample: expected floats, given x of {x.dtype} and a grid of {grid.dtype}: use astype")
    known("grid_sample", x.shape[1:])
    return (Spec((*x.shape[:2], *grid.shape[1:-1]), x.dtype),)


def _kernel_grid(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    """A position of -1 is the first edge along an axis and 1 the last: the middle of the pixels there, or their outer
    edge. The last axis of the grid counts from the last spatial axis."""
    mode, padding, align_corners = cast("tuple[str, str, bool]", params)

    def run(x: Any, grid: Any, out: Any) -> None:
        extents = x.shape[2:]
        edges = [(0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5) for extent in extents]

        def inside(axis: int, at: Any) -> Any:
            if padding == "reflection":
                at = reflected(at, *edges[axis])
            return np.clip(at, 0, extents[axis] - 1)

        moves = padding != "zeros"
        for image in range(x.shape[0]):
            pixels = x[image].reshape(x.shape[1], -1)
            result, places = out[image].reshape(x.shape[1], -1), grid[image].reshape(-1, len(extents))
            for part in blocks(places.shape[0], x.shape[1]):
                at = []
                for axis, extent in enumerate(extents):
                    g = places[part, len(extents) - 1 - axis].astype(arithmetic(grid.dtype))
                    at.append((g + 1) / 2 * (extent - 1) if align_corners else ((g + 1) * extent - 1) / 2)
                if moves and mode != "cubic":
                    at = [inside(axis, each) for axis, each in enumerate(at)]
                values = np.empty((x.shape[1], len(at[0])), x.dtype if mode == "nearest" else arithmetic(x.dtype))
                sample(pixels, extents, at, mode, values, inside if moves else None)
                result[:, part] = values

    return run


def _check_rois(name: str, x: Spec, rois: Spec, columns: int) -> None:
    if len(x.shape) != 4 or len(rois.shape) != 2 or not same(rois.shape[1], columns):
        raise ValueError(
            f"{name}: expected x of shape (n, channels, h, w) and regions of shape (count, {columns}), given {x.shape} "
            f"and {rois.shape}"
        )
    if x.dtype.kind != "f" or rois.dtype != x.dtype:
        raise TypeError(f"{name}: expected floats of one dtype, given {x.dtype} and {rois.dtype}: use astype")


def _infer_align(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    x, rois, images = specs
    _check_rois("roi_align", x, rois, 4)
    if images.dtype.kind not in "iu" or not same_shape(images.shape, rois.shape[:1]):
        raise ValueError(f"roi_align: expected an image number a region, given {images.dtype} of shape {images.shape}")
    outputs = cast("Extents", params[0])
    return (Spec((rois.shape[0], x.shape[1], *outputs), x.dtype),)


def _points(start: float, size: float, bins: int, ratio: int, extent: int) -> tuple[Any, Any, Any, Any]:
    """Where samples of all bins along an axis stand: two pixels, the weight of the second, whether they count."""
    samples = ratio if ratio > 0 else max(1, int(np.ceil(size / bins)))
    at = start + (np.arange(bins * samples) + 0.5) * (size / bins / samples)
    is_near = (at >= -1) & (at <= extent)
    at = np.clip(at, 0, extent - 1)
    low = np.floor(at).astype(np.int64)
    return low, np.minimum(low + 1, extent - 1), at - low, is_near


def _kernel_align(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    """He and others, "Mask R-CNN", 2017. The largest is that of weighted pixels, not of their sums, as in ONNX."""
    outputs, ratio, scale, mode, shift = cast("tuple[Extents, int, float, str, float]", params)

    def run(x: Any, rois: Any, images: Any, out: Any) -> None:
        for index in range(rois.shape[0]):
            left, top, right, bottom = (float(each) * scale - shift for each in rois[index])
            sides = [bottom - top, right - left]
            if not shift:
                sides = [max(side, 1.0) for side in sides]
            image = x[int(images[index])]
            y = _points(top, sides[0], outputs[0], ratio, image.shape[1])
            z = _points(left, sides[1], outputs[1], ratio, image.shape[2])
            near = np.outer(y[3], z[3])
            parts = []
            for row, row_weight in ((y[0], 1 - y[2]), (y[1], y[2])):
                for column, weight in ((z[0], 1 - z[2]), (z[1], z[2])):
                    parts.append(image[:, row[:, None], column] * (np.outer(row_weight, weight) * near).astype(x.dtype))
            shape = (x.shape[1], outputs[0], len(y[0]) // outputs[0], outputs[1], len(z[0]) // outputs[1])
            if mode == "max":
                out[index] = np.maximum.reduce(parts).reshape(shape).max((2, 4))
            else:
                out[index] = sum(parts[1:], parts[0]).reshape(shape).mean((2, 4))

    return run


def _infer_max_roi(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    x, rois = specs
    _check_rois("max_roi_pool", x, rois, 5)
    return (Spec((rois.shape[0], x.shape[1], *cast("Extents", params[0])), x.dtype),)


def _kernel_max_roi(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    """Girshick, "Fast R-CNN", 2015. A bin without pixels is 0."""
    outputs, scale = cast("tuple[Extents, float]", params)

    def run(x: Any, rois: Any, out: Any) -> None:
        for index in range(rois.shape[0]):
            image = x[int(rois[index, 0])]
            left, top, right, bottom = (int(np.floor(float(each) * scale + 0.5)) for each in rois[index, 1:])
            for row, column in np.ndindex(*outputs):
                bins = [
                    slice(
                        min(max(start + int(np.floor(place * size)), 0), extent),
                        min(max(start + int(np.ceil((place + 1) * size)), 0), extent),
                    )
                    for start, size, place, extent in (
                        (top, max(bottom - top + 1, 1) / outputs[0], row, image.shape[1]),
                        (left, max(right - left + 1, 1) / outputs[1], column, image.shape[2]),
                    )
                ]
                seen = image[:, bins[0], bins[1]]
                out[index, :, row, column] = seen.max((1, 2)) if seen.size else 0

    return run


def _cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    return Cost(40 * outputs[0].size, sum(spec.nbytes for spec in (*inputs, *outputs)))


register(Op(name="grid_sample", infer=_infer_grid, kernel=_kernel_grid, cost=_cost))
register(Op(name="roi_align", infer=_infer_align, kernel=_kernel_align, cost=_cost))
register(Op(name="max_roi_pool", infer=_infer_max_roi, kernel=_kernel_max_roi, cost=_cost))
