"""Resizing of arrays along some of their axes.

Law: works out how many elements there will be, and names the operation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from asyncjit.nn._arguments import contiguous
from asyncjit.numpy._array import Array
from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._layout import normalize_axes
from asyncjit.ops._resampling import COORDINATES, NEAREST, Axis

__all__ = ["resize"]


def resize(
    x: ArrayLike,
    /,
    *,
    sizes: Sequence[int] | None = None,
    scales: Sequence[float] | None = None,
    axes: Sequence[int] | None = None,
    mode: Literal["nearest", "linear", "cubic"] = "nearest",
    coordinates: str = "half_pixel",
    nearest: str = "round_prefer_floor",
    antialias: bool = False,
    exclude_outside: bool = False,
    cubic_a: float = -0.75,
    crop: Sequence[tuple[float, float]] | None = None,
    extrapolation: float = 0.0,
    aspect: Literal["stretch", "not_larger", "not_smaller"] = "stretch",
) -> Array:
    """``x`` with other numbers of elements along ``axes``, all of them without it; the dtype stays.

    Give ``sizes``, or ``scales``, of which ``floor(extent * scale)`` elements come. With sizes, ``aspect`` keeps the
    proportions: one scale for all axes, such that none is larger, or none smaller, than asked for.

    ``mode``: the nearest element, or the sum of 2 (linear) or 4 (cubic, with the coefficient ``cubic_a``) neighbours
    along each axis, which the edges repeat, unless ``exclude_outside`` leaves them out; ``antialias`` widens the window
    where an axis shrinks. Halves and integers are summed in float32 or float64; integers are cut off.

    ``coordinates`` says how the position of an output becomes one in the input: ``half_pixel``,
    ``half_pixel_symmetric``, ``pytorch_half_pixel``, ``align_corners``, ``asymmetric``, ``tf_half_pixel_for_nn`` or
    ``tf_crop_and_resize``, for which ``crop`` has the start and the end along each axis, 0 and 1 being the ends of the
    input, and outputs beyond the input have the value ``extrapolation``. ``nearest``: ``round_prefer_floor``,
    ``round_prefer_ceil``, ``floor`` or ``ceil``. All these are those of the ONNX operator Resize.

    Raises:
        ValueError: neither sizes nor scales or both, another number of them than axes, or an unknown word.
    """
    array = contiguous(x)
    places = normalize_axes(None if axes is None else tuple(axes), array.ndim, "resize")
    given = sizes if sizes is not None else scales
    if given is None or (sizes is not None and scales is not None) or len(given) != len(places):
        raise ValueError(f"resize: expected sizes or scales for {len(places)} axes, given {sizes} and {scales}")
    _check_words(mode, coordinates, nearest, aspect)
    extents = [array.shape[place] for place in places]
    counts, factors = _targets(extents, sizes, scales, aspect)
    changed: list[Axis | None] = [None] * array.ndim
    is_cropped = coordinates == "tf_crop_and_resize"
    for index, (place, count, factor) in enumerate(zip(places, counts, factors, strict=True)):
        start, end = map(float, crop[index]) if is_cropped and crop is not None else (0.0, 1.0)
        if count == array.shape[place] and factor == 1 and (start, end) == (0, 1):
            continue
        changed[place] = Axis(
            *(mode, coordinates, nearest, antialias, exclude_outside, float(cubic_a), count, factor, start, end)
        )
    value = float(extrapolation) if is_cropped else None
    result: Array
    # Plain tuples, which can be stored; the operation takes them apart by place.
    plain = tuple(None if each is None else tuple(each) for each in changed)
    result, _ = apply("resize", [array], (plain, value))
    return result


def _check_words(mode: str, coordinates: str, nearest: str, aspect: str) -> None:
    for what, word, words in (
        ("mode", mode, ("nearest", "linear", "cubic")),
        ("coordinates", coordinates, COORDINATES),
        ("nearest", nearest, NEAREST),
        ("aspect", aspect, ("stretch", "not_larger", "not_smaller")),
    ):
        if word not in words:
            raise ValueError(f"resize: {what} is one of {', '.join(words)}, given {word!r}")


def _targets(
    extents: Sequence[int], sizes: Sequence[int] | None, scales: Sequence[float] | None, aspect: str
) -> tuple[list[int], list[float]]:
    """How many elements along each axis, and by which factor positions differ."""
    if scales is not None:
        if any(scale <= 0 for scale in scales):
            raise ValueError(f"resize: scales are positive, given {tuple(scales)}")
        return [math.floor(e * s) for e, s in zip(extents, scales, strict=True)], list(map(float, scales))
    assert sizes is not None
    factors = [size / max(1, extent) for size, extent in zip(sizes, extents, strict=True)]
    if aspect == "stretch":
        return list(map(int, sizes)), factors
    factor = min(factors) if aspect == "not_larger" else max(factors)
    # Rounded half up.
    return [math.floor(extent * factor + 0.5) for extent in extents], [factor] * len(factors)
