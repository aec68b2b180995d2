"""Channels into space and back: transposes of a view with more axes, and one copy.

Law: compositions of views; nothing here computes.
"""

from __future__ import annotations

from typing import Literal

from asyncjit.numpy._array import Array
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.numpy._movement import as_array

__all__ = ["depth_to_space", "space_to_depth"]


def depth_to_space(x: ArrayLike, /, block_size: int, *, order: Literal["DCR", "CRD"] = "DCR") -> Array:
    """Groups of ``block_size**2`` channels of ``x``, shape ``(n, c, h, w)``, as blocks of pixels.

    The result has shape ``(n, c / block_size**2, h * block_size, w * block_size)``. ``order`` says where the position
    in the block stands among the channels: before the channels that stay (``DCR``) or behind them (``CRD``).

    Raises:
        ValueError: not four axes, channels that do not divide, or another order.
    """
    array = as_array(x)
    if array.ndim != 4 or block_size < 1 or array.shape[1] % (block_size * block_size):
        raise ValueError(
            f"depth_to_space: expected (n, c, h, w) with c a multiple of {block_size}**2, given shape {array.shape}"
        )
    n, c, h, w = array.shape
    kept, block = c // (block_size * block_size), block_size
    if order == "DCR":
        parts = array.reshape(n, block, block, kept, h, w).transpose((0, 3, 4, 1, 5, 2))
    elif order == "CRD":
        parts = array.reshape(n, kept, block, block, h, w).transpose((0, 1, 4, 2, 5, 3))
    else:
        raise ValueError(f"depth_to_space: order is 'DCR' or 'CRD', given {order!r}")
    return parts.reshape(n, kept, h * block, w * block)


def space_to_depth(x: ArrayLike, /, block_size: int, *, order: Literal["DCR", "CRD"] = "DCR") -> Array:
    """Blocks of ``block_size`` by ``block_size`` pixels of ``x``, shape ``(n, c, h, w)``, as channels: the inverse of
    ``depth_to_space`` with the same ``order``.

    The result has shape ``(n, c * block_size**2, h / block_size, w / block_size)``.

    Raises:
        ValueError: not four axes, a height or width that does not divide, or another order.
    """
    array = as_array(x)
    if array.ndim != 4 or block_size < 1 or array.shape[2] % block_size or array.shape[3] % block_size:
        raise ValueError(
            f"space_to_depth: expected (n, c, h, w) with h and w multiples of {block_size}, given shape {array.shape}"
        )
    n, c, h, w = array.shape
    rows, columns, block = h // block_size, w // block_size, block_size
    if order not in ("DCR", "CRD"):
        raise ValueError(f"space_to_depth: order is 'DCR' or 'CRD', given {order!r}")
    axes = (0, 3, 5, 1, 2, 4) if order == "DCR" else (0, 1, 3, 5, 2, 4)
    parts = array.reshape(n, c, rows, block, columns, block).transpose(axes)
    return parts.reshape(n, c * block * block, rows, columns)
