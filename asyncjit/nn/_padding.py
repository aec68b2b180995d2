"""Padding, cropping, and sums of windows.

Law: prepares arguments for the entries in ``ops``; what is cut off is a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from asyncjit.nn._arguments import Padding, PerAxis, contiguous, pads_of, per_axis
from asyncjit.numpy._array import Array
from asyncjit.numpy._creation import full
from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._layout import normalize_axes
from asyncjit.numpy._movement import as_array
from asyncjit.ops.padding import PAD_MODES

__all__ = ["center_crop_or_pad", "col2im", "pad"]


def pad(
    x: ArrayLike,
    /,
    pads: Sequence[tuple[int, int]],
    *,
    mode: Literal["constant", "edge", "reflect", "wrap"] = "constant",
    value: ArrayLike = 0,
) -> Array:
    """``x`` with ``pads`` (before, behind) elements more along each axis; negative ones are cut off.

    They are ``value``, a number or an array without axes; or the nearest element (``edge``), elements in turn on either
    side of the edge, which itself is not repeated (``reflect``), or those of the other end (``wrap``), of what is left
    after cutting.

    Raises:
        ValueError: another number of pads than axes, another mode, or nothing to repeat. TypeError: a value of another
            dtype.
    """
    array = as_array(x)
    if len(pads) != array.ndim:
        raise ValueError(f"pad: expected pads for {array.ndim} axes, given {pads}")
    if mode not in PAD_MODES:
        raise ValueError(f"pad: mode is one of {', '.join(PAD_MODES)}, given {mode!r}")
    if any(low < 0 or high < 0 for low, high in pads):
        cuts = zip(array.shape, pads, strict=True)
        array = array[tuple(slice(max(0, -low), extent - max(0, -high)) for extent, (low, high) in cuts)]
    grown = tuple((max(0, int(low)), max(0, int(high))) for low, high in pads)
    if mode != "constant":
        return apply("pad", [array], (mode, grown))
    filling = value if isinstance(value, Array) else full((), value, array.dtype, device=array.device)
    if filling.size != 1:
        raise ValueError(f"pad: expected one value, given shape {filling.shape}")
    return apply("pad", [array, filling.reshape(())], (mode, grown))


def center_crop_or_pad(x: ArrayLike, /, shape: Sequence[int], *, axes: Sequence[int] | None = None) -> Array:
    """``x`` cut or padded with zeros to ``shape`` along ``axes``, or along all of them, its middle in the middle.

    Where the difference is odd, the one more element goes, or comes, behind.

    Raises:
        ValueError: another number of extents than axes.
    """
    array = as_array(x)
    places = normalize_axes(None if axes is None else tuple(axes), array.ndim, "center_crop_or_pad")
    if len(shape) != len(places):
        raise ValueError(f"center_crop_or_pad: expected extents for {len(places)} axes, given {tuple(shape)}")
    pads = [(0, 0)] * array.ndim
    for place, wanted in zip(places, shape, strict=True):
        missing = int(wanted) - array.shape[place]
        low = abs(missing) // 2
        pads[place] = (low, missing - low) if missing > 0 else (-low, missing + low)
    return pad(array, pads)


def col2im(
    x: ArrayLike,
    /,
    image: Sequence[int],
    kernel: Sequence[int],
    *,
    strides: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
) -> Array:
    """Columns of windows, shape ``(n, channels * taps, windows)``, added up into images of extents ``image``.

    The result has shape ``(n, channels, *image)``: the adjoint of taking the windows of a convolution.

    Raises:
        ValueError: a shape that is not that of the windows of such an image.
    """
    array, axes = contiguous(x), len(image)
    sides = per_axis("col2im", "kernel", tuple(kernel), axes)
    steps, spread = per_axis("col2im", "strides", strides, axes), per_axis("col2im", "dilation", dilation, axes)
    reach = [(taps - 1) * step + 1 for taps, step in zip(sides, spread, strict=True)]
    pads = pads_of("col2im", padding, tuple(image), reach, steps)
    return apply("col2im", [array], (tuple(map(int, image)), sides, steps, spread, pads))
