"""NumPy memory: aligned arrays, and views of operands in them.

Law: memory and views only; knows no kernels and no plans.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np

from asyncjit.devices.base import Memory
from asyncjit.errors import DeviceOutOfMemoryError
from asyncjit.ir import Operand

__all__ = ["Array", "ViewSpec", "aligned_bytes", "array_allocator", "empty_array"]

Array = np.ndarray[Any, Any]

ALIGNMENT_BYTES = 64
# np.add is 2.1 x faster on 64-byte aligned arrays of 64 KB and 1.5 x at 1 MB (AVX-512); below a page nothing is gained
# that would pay for the extra view object.
ALIGNED_FROM_BYTES = 4096


def aligned_bytes(nbytes: int, device: str) -> Array:
    """``nbytes`` uninitialised bytes whose first is 64-byte aligned.

    Raises:
        DeviceOutOfMemoryError: there is no memory left.
    """
    block = _allocated((nbytes + ALIGNMENT_BYTES - 1,), np.dtype(np.uint8), nbytes, device)
    start = -block.ctypes.data % ALIGNMENT_BYTES
    return block[start : start + nbytes]


def empty_array(shape: tuple[int, ...], dtype: np.dtype[Any], device: str) -> Array:
    """An uninitialised C-contiguous array, 64-byte aligned from 4 KiB up.

    Raises:
        DeviceOutOfMemoryError: there is no memory left.
    """
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= extent
    if nbytes < ALIGNED_FROM_BYTES:
        return _allocated(shape, dtype, nbytes, device)
    return np.ndarray(shape, dtype, aligned_bytes(nbytes, device))


def array_allocator(shape: tuple[int, ...], dtype: np.dtype[Any], device: str) -> Callable[[], Array]:
    """``empty_array`` with its arguments; for a small array NumPy's own function, called without a detour."""
    nbytes = dtype.itemsize * prod(shape)
    if nbytes < ALIGNED_FROM_BYTES:
        return partial(np.empty, shape, dtype)
    return partial(empty_array, shape, dtype, device)


def _allocated(shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int, device: str) -> Array:
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as error:
        # NumPy says ValueError where the size does not fit an address at all.
        raise DeviceOutOfMemoryError(
            f"device {device!r} has no memory left for {nbytes} bytes; free arrays, or set memory_bytes_max lower so "
            "that calls are refused before memory runs out",
            device=device,
            nbytes=nbytes,
        ) from error


class ViewSpec(NamedTuple):
    """How to make the NumPy view of an operand."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    offset_bytes: int
    #: C-contiguous from the first byte of its slot.
    natural: bool

    @classmethod
    def of(cls, operand: Operand, base: int = 0) -> ViewSpec:
        """The spec of ``operand``, which is not symbolic, in a buffer that begins at byte ``base`` of whatever it will
        be viewed in."""
        dtype = np.dtype(operand.dtype)
        expected, natural = dtype.itemsize, base + operand.offset_bytes == 0
        for extent, stride in zip(reversed(operand.shape), reversed(operand.strides), strict=True):
            natural = natural and (stride == expected or extent <= 1)
            expected *= extent
        shape, strides = cast("tuple[int, ...]", operand.shape), cast("tuple[int, ...]", operand.strides)
        return cls(shape, dtype, strides, base + cast(int, operand.offset_bytes), natural)

    def view(self, memory: Memory, base: int) -> Array:
        """The operand in ``memory``, when its slot begins ``base`` bytes into it."""
        return np.ndarray(self.shape, self.dtype, memory, base + self.offset_bytes, self.strides)
