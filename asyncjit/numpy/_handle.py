"""What an array is made of: a storage, an offset, and an interned description of the layout.

Law: data and what can be read off it without touching a value. No operation, no sink; imports NumPy and core only.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Generator
from math import prod
from typing import Any, Protocol, Self, TypeAlias

import numpy as np

from asyncjit.symbols import Expr, Int, lower, same, upper

__all__ = ["ArraySpec", "DType", "Handle", "Shape", "StorageLike", "array_spec", "c_strides", "span"]

DType: TypeAlias = "np.dtype[Any]"
#: Extents or strides, of which each may be symbolic while a function is recorded.
Shape: TypeAlias = tuple[Int, ...]


class StorageLike(Protocol):
    """Memory behind arrays: an engine's storage, or what stands for one during capture."""

    @property
    def device(self) -> str: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def is_ready(self) -> bool:
        """Whether ``read_host`` would give a value at once, without waiting and without an error."""
        ...

    def read_host(
        self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType, what: str
    ) -> np.ndarray:
        """The elements, as a copy or a read-only view; WouldBlockError or HostReadError where there is no value yet."""
        ...

    def __await__(self) -> Generator[Any, Any, Any]: ...


def c_strides(shape: Shape, itemsize: int) -> Shape:
    """Strides in bytes of a C-contiguous array. (Of an empty one too: an axis of extent 0 counts as 1.)"""
    strides: list[Int] = []
    step: Int = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= extent if isinstance(extent, Expr) else extent or 1
    strides.reverse()
    return tuple(strides)


def span(shape: Shape, strides: Shape, itemsize: int) -> tuple[int, int]:
    """First byte, and the byte after the last, that elements touch, relative to element ``[0, …, 0]``; of a symbolic
    layout, that they may touch."""
    low: Int = 0
    high: Int = itemsize
    for extent, stride in zip(shape, strides, strict=True):
        if same(extent, 0):
            return 0, 0
        if upper(stride) < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return lower(low), upper(high)


class ArraySpec:
    """Layout of an array on a device. Interned by ``array_spec``: equal layouts are one object; compare with ``is``."""

    __slots__ = (
        "__weakref__",
        "device",
        "dtype",
        "extent",
        "is_contiguous",
        "itemsize",
        "nbytes",
        "shape",
        "size",
        "strides",
        "weak",
    )

    def __init__(self, shape: Shape, strides: Shape, dtype: DType, weak: bool, device: str) -> None:
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.weak = weak
        self.device = device
        self.itemsize: int = dtype.itemsize
        self.size: Any = prod(shape)
        self.nbytes: Any = self.size * self.itemsize
        expected = c_strides(shape, self.itemsize)
        #: C-contiguous; strides of axes with one element do not count, and an empty array is.
        self.is_contiguous = same(self.size, 0) or all(
            same(extent, 1) or same(stride, wanted)
            for extent, stride, wanted in zip(shape, strides, expected, strict=True)
        )
        #: Bytes touched, relative to the offset of the array.
        self.extent = span(shape, strides, self.itemsize)

    def __repr__(self) -> str:
        weak = ", weak" if self.weak else ""
        layout = "" if self.is_contiguous else f", strides={self.strides}"
        return f"ArraySpec({self.shape}, {self.dtype}, {self.device!r}{layout}{weak})"

    def __reduce__(self) -> tuple[Any, ...]:
        return array_spec, (self.shape, self.strides, self.dtype, self.weak, self.device)


_Key: TypeAlias = "tuple[Shape, Shape, DType, bool, str]"
_interned: dict[_Key, weakref.ref[ArraySpec]] = {}
# A finaliser may run in the middle of anything, so it only appends; whoever makes the next spec sweeps.
_dead: deque[tuple[_Key, weakref.ref[ArraySpec]]] = deque()
_interning = threading.Lock()


def array_spec(shape: Shape, strides: Shape, dtype: DType, weak: bool = False, device: str = "cpu") -> ArraySpec:
    """The one ``ArraySpec`` of this layout: identical for equal arguments as long as anybody holds it. Any thread."""
    key = (shape, strides, dtype, weak, device)
    reference = _interned.get(key)
    spec = None if reference is None else reference()
    return _intern(key) if spec is None else spec


def _intern(key: _Key) -> ArraySpec:
    with _interning:
        while _dead:
            old_key, old_reference = _dead.popleft()
            if _interned.get(old_key) is old_reference:
                del _interned[old_key]
        reference = _interned.get(key)
        spec = None if reference is None else reference()
        if spec is None:
            spec = ArraySpec(*key)
            _interned[key] = weakref.ref(spec, lambda gone: _dead.append((key, gone)))
        return spec


class Handle:
    """The data of an array; ``Array`` adds what it can do."""

    __slots__ = ("__weakref__", "_dtype", "_offset", "_shape", "_spec", "_storage", "_strides", "_weak")

    _storage: StorageLike
    _offset: Any
    _shape: tuple[Any, ...]
    _strides: tuple[Any, ...]
    _dtype: DType
    _weak: bool
    _spec: ArraySpec

    def __init__(
        self,
        storage: StorageLike,
        offset: Int,
        shape: Shape,
        strides: Shape,
        dtype: DType,
        weak: bool = False,
    ) -> None:
        self._storage = storage
        self._offset = offset
        self._shape = shape
        self._strides = strides
        self._dtype = dtype
        self._weak = weak
        self._spec = array_spec(shape, strides, dtype, weak, storage.device)

    @classmethod
    def _of(cls, storage: StorageLike, offset: Int, spec: ArraySpec) -> Self:
        """The same as the constructor, from a spec."""
        self = cls.__new__(cls)
        self._storage = storage
        self._offset = offset
        self._shape = spec.shape
        self._strides = spec.strides
        self._dtype = spec.dtype
        self._weak = spec.weak
        self._spec = spec
        return self

    def _view(self, offset: Int, shape: Shape, strides: Shape) -> Self:
        """Other elements of the same storage, ``offset`` bytes on."""
        spec = self._spec
        for extent in shape:
            # Not ``0 in shape``, which would ask a symbolic extent for its value.
            if extent.__class__ is int and not extent:
                # No element, so any place will do; this one lies inside the memory, which NumPy checks.
                offset, strides = 0, c_strides(shape, spec.itemsize)
                break
        return self._of(
            self._storage, self._offset + offset, array_spec(shape, strides, spec.dtype, False, spec.device)
        )

    def _host(self, what: str) -> np.ndarray:
        """The values as a NumPy array, a copy or read-only.

        Raises:
            WouldBlockError, HostReadError: there is no value that can be read here and now.
        """
        return self._storage.read_host(self._offset, self._shape, self._strides, self._dtype, what)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents of the axes: integers, or symbolic ones while a function is recorded."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """NumPy's dtype of the elements."""
        return self._dtype

    @property
    def strides(self) -> tuple[Any, ...]:
        """Bytes from one element to the next along each axis."""
        return self._strides

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._shape)

    @property
    def size(self) -> Any:
        """Number of elements."""
        return self._spec.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._spec.itemsize

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements, whatever the strides."""
        return self._spec.nbytes

    @property
    def device(self) -> str:
        """Name of the device that holds the elements."""
        return self._spec.device
