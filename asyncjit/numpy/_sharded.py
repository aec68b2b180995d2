"""Arrays in shards: one array a device, that behave like one.

Law: the class and its spelling; where shards stay on their own and where they meet is ``_shards``. What it cannot do,
it says, and ``gather`` is the way out. See docs/sharding.md.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar, NoReturn, cast

import numpy as np

from asyncjit.numpy._array import Array
from asyncjit.numpy._creation import asarray
from asyncjit.numpy._elementwise import NUMBERS, ArrayLike, Composite
from asyncjit.numpy._folds import Axis
from asyncjit.numpy._handle import DType
from asyncjit.numpy._layout import normalize_axis
from asyncjit.numpy._movement import concatenate
from asyncjit.numpy._shards import (
    Parts,
    elementwise_parts,
    fold_parts,
    matmul_parts,
    mean_parts,
    split_parts,
    spread_parts,
    var_parts,
)

__all__ = ["ShardedArray", "shard", "sharded_type"]

Operator = Callable[["ShardedArray", Any], "ShardedArray"]


def _binary(name: str, reflected: bool = False) -> Operator:
    def operate(self: ShardedArray, other: Any) -> ShardedArray:
        return self._elementwise(name, (other, self) if reflected else (self, other), operator=True)

    return operate


def _in_place(name: str) -> Operator:
    def operate(self: ShardedArray, other: Any) -> ShardedArray:
        self._elementwise(name, (self, other), out=self)
        return self

    return operate


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ShardedArray(Composite):
    """``shards`` are on devices of their own: parts along ``axis``, or, where that is None, the whole each.

    A container to captured functions, which take and return it, and whose signature holds layout, devices and axis.
    Functions of the namespace and operators take it like an array, as far as docs/sharding.md says.
    """

    shards: tuple[Array, ...]

    #: Not a field: a class for each axis, so that it belongs to the signature and no array stands in its place.
    axis: ClassVar[int | None] = None
    #: NumPy's arrays leave mixed expressions to us.
    __array_ufunc__: ClassVar[None] = None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.shards[0].ndim

    @property
    def dtype(self) -> DType:
        """NumPy's dtype of the elements."""
        return self.shards[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the whole."""
        shape = list(self.shards[0].shape)
        if self.axis is not None:
            shape[self.axis] = sum(each.shape[self.axis] for each in self.shards)
        return tuple(shape)

    @property
    def devices(self) -> tuple[str, ...]:
        """Where the shards are, in their order."""
        return tuple(each.device for each in self.shards)

    @property
    def T(self) -> ShardedArray:  # noqa: N802
        """All axes reversed; views."""
        return _sharded([each.T for each in self.shards], None if self.axis is None else -1 - self.axis)

    def astype(self, dtype: Any, *, copy: bool = True) -> ShardedArray:
        """Converted to ``dtype``; new shards, or these with ``copy=False`` and the same dtype."""
        return _sharded([each.astype(dtype, copy=copy) for each in self.shards], self.axis)

    def copy(self) -> ShardedArray:
        """New shards with the same elements."""
        return _sharded([each.copy() for each in self.shards], self.axis)

    def gather(self, device: str | None = None) -> Array:
        """The whole as one array on ``device``, by default on that of the first shard."""
        where = device or self.devices[0]
        if self.axis is None:
            nearest = where if where in self.devices else self.devices[0]
            return self.shards[self.devices.index(nearest)].to_device(where)
        return concatenate([each.to_device(where) for each in self.shards], self.axis)

    def __await__(self) -> Generator[Any, Any, ShardedArray]:
        """Wait for all shards."""
        for each in self.shards:
            yield from each.__await__()
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """For ``np.asarray``: the whole, joined on the host; each shard is read as an array is."""
        if self.axis is None:
            return self.shards[0].__array__(dtype, copy)
        if copy is False:
            raise ValueError("shards are joined by a copy; np.asarray(x.shards[0]) reads one without")
        whole = np.concatenate([np.asarray(each) for each in self.shards], self.axis)
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __repr__(self) -> str:
        how = "on each of" if self.axis is None else f"along axis {self.axis} over"
        return f"ShardedArray(shape={self.shape}, dtype={self.dtype}, {how} {', '.join(self.devices)})"

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a sharded array has no {name!r}; gather() gives an array, which may have it", name=name)

    # Reductions.

    def sum(self, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> ShardedArray:
        """Sum over ``axis``, which gives an array that every device has where it was sharded along it."""
        return _made(fold_parts(self, "sum", axis, keepdims, dtype=dtype))

    def prod(self, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> ShardedArray:
        """Product over ``axis``."""
        return _made(fold_parts(self, "prod", axis, keepdims, dtype=dtype))

    def max(self, axis: Axis = None, *, keepdims: bool = False) -> ShardedArray:
        """Largest element over ``axis``."""
        return _made(fold_parts(self, "max", axis, keepdims))

    def min(self, axis: Axis = None, *, keepdims: bool = False) -> ShardedArray:
        """Smallest element over ``axis``."""
        return _made(fold_parts(self, "min", axis, keepdims))

    def any(self, axis: Axis = None, *, keepdims: bool = False) -> ShardedArray:
        """Whether any element over ``axis`` is not zero."""
        return _made(fold_parts(self, "any", axis, keepdims))

    def all(self, axis: Axis = None, *, keepdims: bool = False) -> ShardedArray:
        """Whether no element over ``axis`` is zero."""
        return _made(fold_parts(self, "all", axis, keepdims))

    def mean(self, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> ShardedArray:
        """Mean over ``axis``; float64 for integers."""
        return _made(mean_parts(self if dtype is None else self.astype(dtype), axis, keepdims))

    def var(self, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False) -> ShardedArray:
        """Variance over ``axis``; the divisor is the count less ``ddof``."""
        return _made(var_parts(self, axis, ddof, keepdims))

    def std(self, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False) -> ShardedArray:
        """Standard deviation over ``axis``; the divisor is the count less ``ddof``."""
        variance = self.var(axis, ddof=ddof, keepdims=keepdims)
        return variance._elementwise("sqrt", (variance,))

    # Elementwise operations and products.

    def _elementwise(
        self, name: str, args: Sequence[object], *, out: Any = None, operator: bool = False
    ) -> ShardedArray:
        results, axis = elementwise_parts(name, args, out, operator)
        if isinstance(results[0], tuple):
            made: Any = tuple(_made((list(each), axis)) for each in zip(*cast(Any, results), strict=True))
            return cast(ShardedArray, made)
        return _made((results, axis))

    def __matmul__(self, other: Any) -> ShardedArray:
        return _made(matmul_parts(self, other))

    def __rmatmul__(self, other: Any) -> ShardedArray:
        return _made(matmul_parts(other, self))

    def __pow__(self, exponent: Any) -> ShardedArray:
        if isinstance(exponent, NUMBERS):
            return _sharded([each**exponent for each in self.shards], self.axis)
        return self._elementwise("power", (self, exponent), operator=True)

    def __setitem__(self, key: Any, value: Any) -> None:
        """``x[...] = value`` writes all of it, each shard its part; other keys are for the shards."""
        if key is not Ellipsis:
            raise IndexError("a sharded array is written whole, x[...] = value; write x.shards[i][key] for a part")
        for each, part in zip(self.shards, spread_parts(value, self), strict=True):
            each[...] = part

    def __neg__(self) -> ShardedArray:
        return self._elementwise("negative", (self,))

    def __pos__(self) -> ShardedArray:
        return self._elementwise("positive", (self,))

    def __abs__(self) -> ShardedArray:
        return self._elementwise("absolute", (self,))

    def __invert__(self) -> ShardedArray:
        return self._elementwise("invert", (self,))

    def __eq__(self, other: object) -> ShardedArray:  # type: ignore[override]
        return self._elementwise("equal", (self, other), operator=True)

    def __ne__(self, other: object) -> ShardedArray:  # type: ignore[override]
        return self._elementwise("not_equal", (self, other), operator=True)

    __hash__ = object.__hash__

    __add__, __radd__, __iadd__ = _binary("add"), _binary("add", True), _in_place("add")
    __sub__, __rsub__, __isub__ = _binary("subtract"), _binary("subtract", True), _in_place("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply"), _binary("multiply", True), _in_place("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _binary("divide"), _binary("divide", True), _in_place("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _binary("floor_divide", True)
    __mod__, __rmod__ = _binary("remainder"), _binary("remainder", True)
    __and__, __rand__ = _binary("bitwise_and"), _binary("bitwise_and", True)
    __or__, __ror__ = _binary("bitwise_or"), _binary("bitwise_or", True)
    __xor__, __rxor__ = _binary("bitwise_xor"), _binary("bitwise_xor", True)
    __lt__, __le__, __gt__, __ge__ = map(_binary, ("less", "less_equal", "greater", "greater_equal"))


@functools.cache
def sharded_type(axis: int | None) -> type[ShardedArray]:
    """The class of arrays in parts along ``axis``, from the start; the same object every time."""
    return ShardedArray if axis is None else type("ShardedArray", (ShardedArray,), {"axis": axis})


def _sharded(shards: Sequence[Array], axis: int | None) -> ShardedArray:
    """``axis`` from either end."""
    return sharded_type(None if axis is None else axis % shards[0].ndim)(tuple(shards))


def _made(parts: Parts) -> ShardedArray:
    return _sharded(*parts)


def shard(x: ArrayLike, devices: Sequence[str], axis: int | None = 0) -> ShardedArray:
    """``x`` in parts along ``axis``, one a device, in their order; with None every device gets the whole.

    Parts differ by one element along the axis at most, the longer ones first. Each is a copy, made by one call, which
    inside a captured function belongs to every replay.

    Raises:
        ValueError: fewer elements along the axis than devices, or a device twice.
        DeviceUnavailableError: the engine lacks one of the devices.
    """
    array, names = asarray(x), tuple(devices)
    if not names or len(set(names)) != len(names):
        raise ValueError(f"shard needs one or more different devices, got {names}")
    place = None if axis is None else normalize_axis(axis, array.ndim, "shard")
    if place is not None and array.shape[place] < len(names):
        raise ValueError(
            f"axis {axis} of shape {array.shape} has fewer elements than there are devices, {len(names)}; name fewer "
            "devices, or another axis"
        )
    return _sharded(split_parts(array, names, place), place)
