"""Operations of neural networks, as functions on arrays: convolution, pooling, resizing, and their like.

Law: names only; a module of this package prepares arguments and calls the entries in ``ops`` or functions of
``asyncjit.numpy``. Arrays are channels first: ``(batch, channels, *spatial)``.
"""

from __future__ import annotations

from asyncjit.nn._rearranging import depth_to_space, space_to_depth

__all__ = [
    "depth_to_space",
    "space_to_depth",
]
