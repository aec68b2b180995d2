"""Arguments that the functions of this package share: one number for all spatial axes, paddings, operands.

Law: turns what a user may write into the tuples that the entries in ``ops`` take, or says what is wrong with it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Literal, TypeAlias, cast

from asyncjit.numpy._array import Array
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._movement import as_array

__all__ = ["Padding", "PerAxis", "contiguous", "pads_of", "per_axis", "spatial"]

#: A number for all spatial axes, or one for each.
PerAxis: TypeAlias = "int | Sequence[int]"
#: Nothing, a number of elements on each side, one for each axis, pairs (before, behind), or a rule: as many as make
#: ceil(extent / stride) outputs, with the odd one behind (``same_upper``) or before (``same_lower``).
Padding: TypeAlias = "int | Sequence[int] | Sequence[tuple[int, int]] | Literal['valid', 'same_upper', 'same_lower']"


def per_axis(name: str, what: str, value: PerAxis, axes: int, least: int = 1) -> tuple[int, ...]:
    """``value`` for each of ``axes`` axes.

    Raises:
        ValueError: another number of them, or one below ``least``.
    """
    given = tuple(map(operator.index, value)) if isinstance(value, Sequence) else (operator.index(value),) * axes
    if len(given) != axes or any(each < least for each in given):
        raise ValueError(f"{name}: expected {what} of at least {least} for {axes} spatial axes, given {value!r}")
    return given


def pads_of(
    name: str,
    padding: Padding,
    extents: Sequence[int],
    reach: Sequence[int],
    strides: Sequence[int],
) -> tuple[tuple[int, int], ...]:
    """Pairs (before, behind) for each axis; ``reach`` is the extent of a window with its dilation.

    Raises:
        ValueError: no padding for that many axes, or another word.
    """
    axes = len(extents)
    if isinstance(padding, str):
        if padding == "valid":
            return ((0, 0),) * axes
        if padding not in ("same_upper", "same_lower"):
            raise ValueError(f"{name}: padding is numbers, 'valid', 'same_upper' or 'same_lower', given {padding!r}")
        missing = [
            max(0, (-(-extent // stride) - 1) * stride + size - extent)
            for extent, size, stride in zip(extents, reach, strides, strict=True)
        ]
        pairs = [(total // 2, total - total // 2) for total in missing]
        return tuple(pair if padding == "same_upper" else pair[::-1] for pair in pairs)
    if not isinstance(padding, Sequence):
        return ((operator.index(padding),) * 2,) * axes
    if len(padding) != axes:
        raise ValueError(f"{name}: expected padding for {axes} spatial axes, given {padding!r}")
    given = cast("Sequence[int | tuple[int, int]]", padding)
    return tuple(
        (operator.index(each[0]), operator.index(each[1]))
        if isinstance(each, Sequence) and len(each) == 2
        else (operator.index(each),) * 2
        for each in given
    )


def spatial(name: str, x: ArrayLike) -> tuple[Array, int]:
    """``x`` as a C-contiguous array, and the number of its axes behind batch and channels.

    Raises:
        ValueError: there is none.
    """
    array = as_array(x)
    if array.ndim < 3:
        raise ValueError(f"{name}: expected shape (batch, channels, *spatial), given {array.shape}")
    return contiguous(array), array.ndim - 2


def contiguous(x: ArrayLike) -> Array:
    """``x`` itself where it is C-contiguous, else a copy that is."""
    array = as_array(x)
    return array if array._spec.is_contiguous else array.copy()
