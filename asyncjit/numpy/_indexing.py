"""``a[key]`` and ``a[key] = value``.

Law: basic keys (integers, slices, Ellipsis, None) are views with NumPy's offsets and strides; integer arrays gather and
scatter; a boolean mask may choose where one value is assigned. How many elements a mask selects is a value: it is read
on the host, which a captured function may not do.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from asyncjit.numpy._dispatch import Prepared, apply, bounded_put, prepare, run
from asyncjit.numpy._elementwise import NUMBERS, constant, elementwise
from asyncjit.numpy._handle import Handle
from asyncjit.numpy._layout import as_int, expand_ellipsis, index
from asyncjit.ops import REGISTRY
from asyncjit.ops._spec import same_shape
from asyncjit.ops.constants import encode, token
from asyncjit.symbols import Expr, Int

__all__ = ["Indexing", "assign"]

_fills: dict[Any, Prepared] = {}


def assign(target: Handle, value: object) -> None:
    """Write ``value``, broadcast and cast as by NumPy's ``target[...] = value``, into the elements of ``target``.

    Raises:
        TypeError: complex values into real elements. ValueError: shapes do not fit, or the target is a broadcast view.
        OverflowError: a Python int that the dtype cannot hold.
    """
    if isinstance(value, NUMBERS):
        _fill(target, value)
        return
    if isinstance(value, Handle):
        source = value
    else:
        source = constant(type(target), value, _host_target(target, value), target._spec.device)
    if source._dtype.kind == "c" and target._dtype.kind not in "cb":
        raise TypeError(f"complex values do not convert to {target._dtype}; take the real part first")
    apply("copy", (source,), out=target)


def _host_target(target: Handle, value: object) -> Any:
    """Cast on the host where that is cheaper to copy; complex data is left for the check above."""
    return None if not isinstance(value, Expr) and np.asarray(value).dtype.kind == "c" else target._dtype


def _fill(target: Handle, value: Any) -> None:
    key = (token(value), target._spec)
    prepared = _fills.get(key)
    if prepared is None:
        params = (encode(value, target._dtype), target._shape, target._dtype.name)
        prepared = prepare(REGISTRY["full"], (), params, target._spec)
        bounded_put(_fills, key, prepared)
    run(prepared, (), type(target), target)


class Indexing(Handle):
    """Selection and assignment by key."""

    __slots__ = ()

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("a 0-d array has no length")
        return operator.index(self._shape[0])

    def __iter__(self) -> Iterator[Self]:
        if not self._shape:
            raise TypeError("a 0-d array has nothing to iterate over")
        return (self[position] for position in range(self._shape[0]))

    def __getitem__(self, key: Any) -> Self:
        parts, has_arrays = self._parts(key)
        if not has_arrays:
            return self._view(*index(self._shape, self._strides, parts))
        if any(isinstance(part, Handle) and part._dtype.kind == "b" for part in parts):
            parts = self._positions(key)
        view, axes, indices = self._advanced(parts)
        operands: list[Self] = [view, *indices]
        return apply("take" if len(axes) == 1 else "gather", operands, axes)

    def __setitem__(self, key: Any, value: object) -> None:
        if key is Ellipsis:
            assign(self, value)
            return
        parts, has_arrays = self._parts(key)
        if not has_arrays:
            assign(self._view(*index(self._shape, self._strides, parts)), value)
            return
        values = value if isinstance(value, Handle) else self._constant(value, _host_target(self, value))
        if any(isinstance(part, Handle) and part._dtype.kind == "b" for part in parts):
            if self._assign_masked(parts, values):
                return
            parts = self._positions(key)
        view, axes, indices = self._advanced(parts)
        apply("scatter", (values, *indices), axes, out=view)

    def _constant(self, value: object, dtype: Any = None) -> Self:
        """Host data on the device of this array."""
        return constant(type(self), value, dtype, self._spec.device)

    def _parts(self, key: Any) -> tuple[list[Any], bool]:
        """The key with one entry for each axis, and whether it has index arrays."""
        given = key if isinstance(key, tuple) else (key,)
        parts: list[Any] = []
        has_arrays = False
        for part in given:
            if part is None or part is Ellipsis or isinstance(part, slice):
                parts.append(part)
            elif isinstance(part, Handle):
                has_arrays = True
                parts.append(part)
            elif isinstance(part, (list, np.ndarray)):
                has_arrays = True
                parts.append(self._constant(np.asarray(part, dtype=None if len(part) else np.intp)))
            elif isinstance(part, (bool, np.bool)):
                raise IndexError(f"{part} is no index; use None for a new axis, or 0:1 and 0:0")
            else:
                parts.append(_integer(part))
        masks = [part for part in parts if isinstance(part, Handle) and part._dtype.kind == "b"]
        if masks and len(parts) == 1 and masks[0].ndim > 1:
            return parts, True
        return expand_ellipsis(tuple(parts), len(self._shape)), has_arrays

    def _positions(self, key: Any) -> list[Any]:
        """The key with positions in place of boolean masks, whose values are read.

        Raises:
            HostReadError: in a captured function. WouldBlockError: in a running loop, for a mask that was not awaited.
        """
        parts: list[Any] = []
        for part in key if isinstance(key, tuple) else (key,):
            mask = self._constant(np.asarray(part)) if isinstance(part, (list, np.ndarray)) else part
            if not isinstance(mask, Handle) or mask._dtype.kind != "b":
                parts.append(part)
                continue
            axis = self._axis_of(parts)
            if not same_shape(mask._shape, self._shape[axis : axis + mask.ndim]):
                raise IndexError(
                    f"a mask of shape {mask._shape} does not lie on axes from {axis} of an array of shape {self._shape}"
                )
            host = mask._host("a boolean mask, which selects as many elements as it has True,")
            parts += [self._constant(places) for places in np.nonzero(host)]
        return self._parts(tuple(parts))[0]

    def _axis_of(self, before: list[Any]) -> int:
        """The axis that the part of a key behind ``before`` is for."""
        if any(part is Ellipsis for part in before):
            raise IndexError("a boolean mask behind an Ellipsis; write out the axes before it as slices")
        return sum(part is not None for part in before)

    def _advanced(self, parts: list[Any]) -> tuple[Self, tuple[int, ...], list[Any]]:
        """A basic view, the axes of it that arrays index, and the arrays; integers beside arrays count as arrays."""
        axes = tuple(axis for axis, part in enumerate(parts) if isinstance(part, (Handle, int, Expr)))
        indices = [parts[axis] if isinstance(parts[axis], Handle) else self._constant(parts[axis]) for axis in axes]
        basic = [slice(None) if axis in axes else part for axis, part in enumerate(parts)]
        return self._view(*index(self._shape, self._strides, basic)), axes, indices

    def _assign_masked(self, parts: list[Any], source: Handle) -> bool:
        """``a[mask] = value`` where nobody need know how many elements are chosen: a mask on leading axes, and one
        value for all or one for each element of ``a``, chosen or not. False where it is anything else."""
        mask = parts[0]
        rest = parts[1:]
        whole = all(isinstance(part, slice) and part == slice(None) for part in rest)
        if not whole or not isinstance(mask, Handle) or not same_shape(mask._shape, self._shape[: mask.ndim]):
            return False
        if source.ndim and not same_shape(source._shape, self._shape):
            return False
        if source._dtype is not self._dtype:
            source = apply("astype", (source,), (self._dtype.name,))
        lead = mask._view(
            0, (*mask._shape, *(1,) * (self.ndim - mask.ndim)), (*mask._strides, *(0,) * (self.ndim - mask.ndim))
        )
        elementwise("where", (lead, source, self), type(self), out=self)
        return True


def _integer(part: object) -> Int:
    try:
        return as_int(part)
    except TypeError:
        raise IndexError(
            f"{part!r} is no index; indices are integers, slices, Ellipsis, None and integer arrays"
        ) from None
