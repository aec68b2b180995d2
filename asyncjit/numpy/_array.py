"""The array.

Law: methods spell NumPy's; what an operation does is in ``ops``, what a view is in ``_layout``. An array is
an immutable handle (storage, offset, layout); its elements live on a device and may still be on their way.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Self

import numpy as np

from asyncjit.numpy._dispatch import apply, dtype_of, transfer
from asyncjit.numpy._elementwise import constant, elementwise
from asyncjit.numpy._folds import Axis, arg, component, fold, mean, running, var
from asyncjit.numpy._handle import ArraySpec, StorageLike, array_spec, c_strides
from asyncjit.numpy._layout import normalize_axes, normalize_axis, reshape, resolve_shape
from asyncjit.numpy._reading import Reading
from asyncjit.ops._spec import is_floating, same_shape
from asyncjit.storage import Storage
from asyncjit.symbols import Int, same

__all__ = ["Array", "ArraySpec", "StorageLike", "array_spec"]


#: Versions of the array API standard, of which each has the functions of those before it.
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


class Array(Reading):
    """An n-dimensional array on a device.

    Operations give new arrays at once, with shape and dtype; the elements follow when the device has computed them.
    ``await array`` waits for them; ``np.asarray(array)`` reads them. Basic indexing, reshape where the layout allows,
    and the transposes are views that share elements, with NumPy's rules; ``a[...] = v`` and ``a += v`` write in place,
    ordered with every other operation. Hash and dictionary lookup go by identity, ``==`` by element. Any thread.
    """

    __slots__ = ()

    # --------------------------------------------------------------------------------------------------- views

    @property
    def T(self) -> Self:  # noqa: N802
        """All axes reversed; a view."""
        return self._view(0, self._shape[::-1], self._strides[::-1])

    @property
    def mT(self) -> Self:  # noqa: N802
        """The last two axes swapped; a view."""
        if len(self._shape) < 2:
            raise ValueError(f"mT swaps the last two axes; the array has shape {self._shape}")
        return self.swapaxes(-1, -2)

    @property
    def real(self) -> Self:
        """The real part; a view."""
        return component(self, 0) if self._dtype.kind == "c" else self

    @property
    def imag(self) -> Self:
        """The imaginary part; a view, or zeros for a real array."""
        return component(self, self.itemsize // 2) if self._dtype.kind == "c" else self * 0

    def transpose(self, *axes: Any) -> Self:
        """Axes in the given order (one tuple or several ints), reversed without any; a view."""
        given = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))) else axes
        if not given:
            return self.T
        order = normalize_axes(given, self.ndim, "transpose")
        if len(order) != self.ndim:
            raise ValueError(f"transpose: {given} does not name each axis of shape {self._shape} once")
        return self._view(0, tuple(self._shape[axis] for axis in order), tuple(self._strides[axis] for axis in order))

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Two axes exchanged; a view."""
        order = list(range(self.ndim))
        first, second = (normalize_axis(axis, self.ndim, "swapaxes") for axis in (axis1, axis2))
        order[first], order[second] = second, first
        return self.transpose(order) if order else self

    def reshape(self, *shape: Any) -> Self:
        """The elements in C order under another shape (one extent may be -1); a view if strides allow, else a copy."""
        given: Int | Sequence[Int] = shape[0] if len(shape) == 1 else shape
        target = resolve_shape(given, self.size)
        if same_shape(target, self._shape):
            return self._view(0, target, self._strides)
        spec = self._spec
        strides = None if spec.is_contiguous else reshape(self._shape, self._strides, target)
        if strides is None:
            from_c = self if spec.is_contiguous else self.copy()
            strides = c_strides(target, spec.itemsize)
            return from_c._view(0, target, strides)
        return self._view(0, target, strides)

    def ravel(self) -> Self:
        """One axis; a view where strides allow, else a copy."""
        return self.reshape(-1)

    def flatten(self) -> Self:
        """One axis; always a copy."""
        return self.copy().reshape(-1)

    def squeeze(self, axis: Axis = None) -> Self:
        """Without axes of extent 1, or without those named; a view."""
        if axis is None:
            axes: Sequence[int] = [place for place, extent in enumerate(self._shape) if same(extent, 1)]
        else:
            axes = normalize_axes(axis, self.ndim, "squeeze")
            if not all(same(self._shape[place], 1) for place in axes):
                raise ValueError(f"squeeze: an axis of {axes} has more than one element in shape {self._shape}")
        return self[tuple(0 if place in axes else slice(None) for place in range(self.ndim))] if axes else self

    # -------------------------------------------------------------------------------------------------- copies

    def astype(self, dtype: Any, *, copy: bool = True) -> Self:
        """Converted to ``dtype``; a new array, or itself with ``copy=False`` and the same dtype."""
        target = dtype_of(dtype)
        if target is self._dtype and not copy:
            return self
        if self._dtype.kind == "c" and target.kind not in "cb":
            warnings.warn("astype discards the imaginary part", np.exceptions.ComplexWarning, stacklevel=2)
        return apply("astype", (self,), (target.name,))

    def copy(self) -> Self:
        """A new C-contiguous array with the same elements."""
        return apply("copy", (self,))

    def to_device(self, device: str, *, stream: Any = None) -> Self:
        """The array on ``device``: a copy, or itself when it is there. ``stream`` is not used.

        Raises:
            DeviceUnavailableError: the engine has no such device.
        """
        return self if device == self.device else transfer(self, device)

    # ----------------------------------------------------------------------------------------------- reductions

    def sum(self, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Self:
        """Sum over ``axis``; bool and small integers are summed in 64 bits."""
        return fold(self, "sum", axis, keepdims, dtype)

    def prod(self, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Self:
        """Product over ``axis``; bool and small integers are multiplied in 64 bits."""
        return fold(self, "prod", axis, keepdims, dtype)

    def max(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Largest element over ``axis``; nan wins."""
        return fold(self, "max", axis, keepdims)

    def min(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Smallest element over ``axis``; nan wins."""
        return fold(self, "min", axis, keepdims)

    def any(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Whether any element over ``axis`` is not zero; bool."""
        return fold(self, "any", axis, keepdims)

    def all(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Whether no element over ``axis`` is zero; bool."""
        return fold(self, "all", axis, keepdims)

    def mean(self, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Self:
        """Mean over ``axis``; float64 for integers."""
        return mean(self, axis, keepdims, dtype)

    def var(self, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False) -> Self:
        """Variance over ``axis``; the divisor is the count less ``ddof``."""
        return var(self, axis, ddof, keepdims)

    def std(self, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False) -> Self:
        """Standard deviation over ``axis``; the divisor is the count less ``ddof``."""
        return elementwise("sqrt", (var(self, axis, ddof, keepdims),), type(self))

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """Position of the first largest element along ``axis``, or in the flattened array; int64."""
        return arg(self, "argmax", axis, keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """Position of the first smallest element along ``axis``, or in the flattened array; int64."""
        return arg(self, "argmin", axis, keepdims)

    def cumsum(self, axis: int | None = None, dtype: Any = None) -> Self:
        """Running sum along ``axis``, or of the flattened array."""
        return (
            running(self.ravel(), "cumulative_sum", 0, dtype)
            if axis is None
            else running(self, "cumulative_sum", axis, dtype)
        )

    def cumprod(self, axis: int | None = None, dtype: Any = None) -> Self:
        """Running product along ``axis``, or of the flattened array."""
        return (
            running(self.ravel(), "cumulative_prod", 0, dtype)
            if axis is None
            else running(self, "cumulative_prod", axis, dtype)
        )

    # --------------------------------------------------------------------------------------------------- others

    def dot(self, other: Self) -> Self:
        """The matrix product; for 0-d operands the product."""
        return self @ other if self._shape and other._shape else self * other

    def conj(self) -> Self:
        """Complex conjugate."""
        return elementwise("conjugate", (self,), type(self))

    def round(self, decimals: int = 0) -> Self:
        """Rounded to ``decimals``, halves to even."""
        result: Self
        if decimals == 0 and is_floating(self._dtype):
            result = elementwise("rint", (self,), type(self))
        else:
            result = apply("round", (self,), (int(decimals),))
        return result

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with its memory where it covers that, so that what shares it in one pickle shares it again; a view
        as values. Another process may have other devices: where it lacks this one, the default one is taken."""
        storage = self._storage
        if type(storage) is Storage and self._spec.is_contiguous and storage.nbytes == self._spec.nbytes:
            return _from_storage, (storage, self._shape, self._strides, self._dtype, self._weak)
        return _from_host, (self._host("pickle"),)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The namespace of functions on arrays, which follows the array API standard in the version that it names.

        Raises:
            ValueError: that version is unknown here.
        """
        if api_version is not None and api_version not in API_VERSIONS:
            raise ValueError(f"array API version {api_version!r} is none of {', '.join(API_VERSIONS)}")
        return sys.modules[__package__]


def _from_storage(
    storage: Storage, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any], weak: bool
) -> Array:
    return Array(storage, 0, shape, strides, dtype, weak)


def _from_host(values: np.ndarray) -> Array:
    return constant(Array, values)
