"""Images sampled at positions that come as arrays.

Law: prepares arguments for the entries in ``ops``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

import asyncjit.numpy as anp
from asyncjit.nn._arguments import Padding, PerAxis, contiguous, pads_of, per_axis, spatial
from asyncjit.numpy._array import Array
from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._elementwise import ArrayLike

__all__ = ["affine_grid", "deform_conv", "grid_sample", "max_roi_pool", "roi_align"]


def _word(name: str, what: str, word: str, words: Sequence[str]) -> None:
    if word not in words:
        raise ValueError(f"{name}: {what} is one of {', '.join(words)}, given {word!r}")


def grid_sample(
    x: ArrayLike,
    grid: ArrayLike,
    /,
    *,
    mode: Literal["nearest", "linear", "cubic"] = "linear",
    padding: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
) -> Array:
    """The values of ``x``, shape ``(n, channels, *spatial)``, at the positions in ``grid``.

    ``grid`` has shape ``(n, *outputs, axes)``, the position along the last spatial axis first; -1 and 1 are the outer
    edges of the first and the last pixel, or with ``align_corners`` their middles. The result has shape
    ``(n, channels, *outputs)`` and the dtype of ``x``. What lies outside is 0, the nearest pixel (``border``) or thrown
    back at the edges (``reflection``).

    Raises:
        ValueError: shapes that do not fit, or an unknown word. TypeError: no floats, where values are summed.
    """
    array, _ = spatial("grid_sample", x)
    _word("grid_sample", "mode", mode, ("nearest", "linear", "cubic"))
    _word("grid_sample", "padding", padding, ("zeros", "border", "reflection"))
    return apply("grid_sample", [array, contiguous(grid)], (mode, padding, bool(align_corners)))


def affine_grid(theta: ArrayLike, /, extents: Sequence[int], *, align_corners: bool = False) -> Array:
    """A grid for ``grid_sample``: the positions of all pixels of an image of ``extents``, moved by ``theta``.

    ``theta`` has shape ``(n, axes, axes + 1)``: a matrix and a shift for each image, over coordinates from the last
    axis to the first. The result has shape ``(n, *extents, axes)`` and the dtype of ``theta``.

    Raises:
        ValueError: another shape of ``theta``.
    """
    matrices, axes = contiguous(theta), len(extents)
    if matrices.ndim != 3 or matrices.shape[1:] != (axes, axes + 1):
        raise ValueError(f"affine_grid: expected theta of shape (n, {axes}, {axes + 1}), given {matrices.shape}")
    lines = []
    for extent in extents:
        middles = (2 * np.arange(extent) + 1) / max(1, extent) - 1
        lines.append(np.linspace(-1, 1, extent) if align_corners and extent > 1 else middles)
    meshes = np.meshgrid(*lines, indexing="ij")[::-1]
    pixels = np.stack([*meshes, np.ones(tuple(extents))], -1).reshape(-1, axes + 1).astype(matrices.dtype)
    moved = anp.matmul(anp.asarray(pixels, device=matrices.device), matrices.mT)
    return moved.reshape(matrices.shape[0], *extents, axes)


def roi_align(
    x: ArrayLike,
    regions: ArrayLike,
    images: ArrayLike,
    /,
    outputs: tuple[int, int],
    *,
    mode: Literal["avg", "max"] = "avg",
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    half_pixel: bool = True,
) -> Array:
    """Regions of images as arrays of one size, by samples between pixels.

    ``x`` has shape ``(n, channels, h, w)``, ``regions`` ``(count, 4)``: left, top, right, bottom, times
    ``spatial_scale`` in pixels; ``images`` says which image, an integer a region. The result has shape
    ``(count, channels, *outputs)``: the mean or the largest of ``sampling_ratio**2`` samples a bin, with 0 as many as
    there are pixels. ``half_pixel`` takes half a pixel off positions, so that whole numbers are edges of pixels.

    Raises:
        ValueError: shapes that do not fit. TypeError: several dtypes, or no floats.
    """
    _word("roi_align", "mode", mode, ("avg", "max"))
    operands = [contiguous(x), contiguous(regions), contiguous(images)]
    sizes = (int(outputs[0]), int(outputs[1]))
    shift = 0.5 if half_pixel else 0.0
    return apply("roi_align", operands, (sizes, int(sampling_ratio), float(spatial_scale), mode, shift))


def max_roi_pool(x: ArrayLike, regions: ArrayLike, /, outputs: tuple[int, int], *, spatial_scale: float = 1.0) -> Array:
    """The largest pixel of each bin of regions, as arrays of one size.

    ``x`` has shape ``(n, channels, h, w)``, ``regions`` ``(count, 5)``: the number of the image, left, top, right,
    bottom, times ``spatial_scale`` in pixels and rounded. The result has shape ``(count, channels, *outputs)``; a bin
    without pixels is 0.

    Raises:
        ValueError: shapes that do not fit. TypeError: several dtypes, or no floats.
    """
    sizes = (int(outputs[0]), int(outputs[1]))
    return apply("max_roi_pool", [contiguous(x), contiguous(regions)], (sizes, float(spatial_scale)))


def deform_conv(
    x: ArrayLike,
    weights: ArrayLike,
    offset: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    /,
    *,
    strides: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    offset_groups: int = 1,
) -> Array:
    """``conv`` whose taps are moved by ``offset``, and weighted by ``mask``, for each output.

    ``offset`` has shape ``(n, offset_groups * taps * axes, *outputs)``, in pixels, ``mask``
    ``(n, offset_groups * taps, *outputs)``; the channels of ``x`` are shared out to the groups of offsets. Values
    between pixels are linear, those outside 0. All operands have one dtype.

    Raises:
        ValueError: shapes that do not fit. TypeError: several dtypes, or no floats.
    """
    array, axes = spatial("deform_conv", x)
    kernels = contiguous(weights)
    steps = per_axis("deform_conv", "strides", strides, axes)
    spread = per_axis("deform_conv", "dilation", dilation, axes)
    reach = [(taps - 1) * step + 1 for taps, step in zip(kernels.shape[2:], spread, strict=False)]
    pads = pads_of("deform_conv", padding, array.shape[2:], reach, steps)
    operands = [array, kernels, contiguous(offset)] + ([] if mask is None else [contiguous(mask)])
    result: Array
    result, _ = apply("deform_conv", operands, (steps, spread, pads, groups, offset_groups, mask is not None))
    return result if bias is None else result + contiguous(bias).reshape(-1, *(1,) * axes)
