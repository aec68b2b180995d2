"""Python's operators on arrays.

Law: spelling only; each is one elementwise operation, in place where Python says so. What is no number, array or list
of numbers is left to the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeVar, cast

import numpy as np

from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._elementwise import constant, elementwise, is_operand
from asyncjit.numpy._handle import Handle
from asyncjit.numpy._indexing import Indexing
from asyncjit.ops import is_floating

__all__ = ["Operators", "power"]

A = TypeVar("A", bound=Handle)

# NumPy's ``**`` takes these for the exponent where np.power would raise to it; for complex values the bits differ.
_POWERS = {2: "square", 0.5: "sqrt", -1: "reciprocal"}


def _short_cut(kind: str, exponent: object) -> str | None:
    """The operation in place of a power, by kind of dtype; for complex values the type of the exponent counts too."""
    if kind == "f" or (kind in "iub" and type(exponent) is int) or (kind == "c" and exponent in (2, -1, 0.5)):
        exact = kind != "c" or type(exponent) is (float if exponent == 0.5 else int)
        return _POWERS.get(exponent) if exact else None  # type: ignore[call-overload]
    return None


def power(base: object, exponent: object, cls: type[A], *, out: A | None = None) -> A:
    """``base ** exponent`` as NumPy's operator does it."""
    if isinstance(base, Handle) and type(exponent) in (int, float):
        kind = base._dtype.kind
        if kind in "iub" and type(exponent) is int and exponent < 0:
            raise ValueError(
                f"integers to the negative power {exponent} are not integers; use a float exponent, or astype the base"
            )
        short = _short_cut(kind, exponent)
        if short is not None:
            return elementwise(short, (base,), cls, out=out, operator=True)
    return elementwise("power", (base, exponent), cls, out=out, operator=True)


def _admitted_product(sides: Sequence[Any]) -> Any:
    """A product with operands of a dtype that NumPy does not know by itself: it would give float32, or add up in a few
    bits."""
    dtype: Any = np.result_type(*(side._dtype for side in sides))
    if dtype.isbuiltin == 1 or not is_floating(dtype):
        return apply("matmul", sides)
    wide = [apply("astype", (side,), ("float32",)) for side in sides]
    return apply("astype", (apply("matmul", wide),), (dtype.name,))


class Operators(Indexing):
    """Arithmetic, comparison and logic by operator."""

    __slots__ = ()

    # NumPy's arrays and scalars leave mixed expressions to us: np_array + array is an Array.
    __array_ufunc__ = None

    def _binary(self, name: str, other: object) -> Self:
        if is_operand(other):
            return elementwise(name, (self, other), type(self), operator=True)
        return cast(Self, NotImplemented)

    def _reflected(self, name: str, other: object) -> Self:
        if is_operand(other):
            return elementwise(name, (other, self), type(self), operator=True)
        return cast(Self, NotImplemented)

    def _in_place(self, name: str, other: object) -> Self:
        if is_operand(other):
            return elementwise(name, (self, other), type(self), out=self)
        return cast(Self, NotImplemented)

    def _matrix(self, left: object, right: object) -> Self:
        if not (is_operand(left) and is_operand(right)):
            return cast(Self, NotImplemented)
        cls = type(self)
        device = self._spec.device
        sides: list[Any] = [
            each if isinstance(each, Handle) else constant(cls, each, None, device) for each in (left, right)
        ]
        if any(side._dtype.isbuiltin != 1 for side in sides):
            return cast(Self, _admitted_product(sides))
        return cast(Self, apply("matmul", sides))

    # Each operator below is NumPy's function of the same meaning; results are new arrays, in-place ones write to self.

    def __add__(self, other: object) -> Self:
        return self._binary("add", other)

    def __radd__(self, other: object) -> Self:
        return self._reflected("add", other)

    def __iadd__(self, other: object) -> Self:
        return self._in_place("add", other)

    def __sub__(self, other: object) -> Self:
        return self._binary("subtract", other)

    def __rsub__(self, other: object) -> Self:
        return self._reflected("subtract", other)

    def __isub__(self, other: object) -> Self:
        return self._in_place("subtract", other)

    def __mul__(self, other: object) -> Self:
        return self._binary("multiply", other)

    def __rmul__(self, other: object) -> Self:
        return self._reflected("multiply", other)

    def __imul__(self, other: object) -> Self:
        return self._in_place("multiply", other)

    def __truediv__(self, other: object) -> Self:
        return self._binary("divide", other)

    def __rtruediv__(self, other: object) -> Self:
        return self._reflected("divide", other)

    def __itruediv__(self, other: object) -> Self:
        return self._in_place("divide", other)

    def __floordiv__(self, other: object) -> Self:
        return self._binary("floor_divide", other)

    def __rfloordiv__(self, other: object) -> Self:
        return self._reflected("floor_divide", other)

    def __ifloordiv__(self, other: object) -> Self:
        return self._in_place("floor_divide", other)

    def __mod__(self, other: object) -> Self:
        return self._binary("remainder", other)

    def __rmod__(self, other: object) -> Self:
        return self._reflected("remainder", other)

    def __imod__(self, other: object) -> Self:
        return self._in_place("remainder", other)

    def __and__(self, other: object) -> Self:
        return self._binary("bitwise_and", other)

    def __rand__(self, other: object) -> Self:
        return self._reflected("bitwise_and", other)

    def __iand__(self, other: object) -> Self:
        return self._in_place("bitwise_and", other)

    def __or__(self, other: object) -> Self:
        return self._binary("bitwise_or", other)

    def __ror__(self, other: object) -> Self:
        return self._reflected("bitwise_or", other)

    def __ior__(self, other: object) -> Self:
        return self._in_place("bitwise_or", other)

    def __xor__(self, other: object) -> Self:
        return self._binary("bitwise_xor", other)

    def __rxor__(self, other: object) -> Self:
        return self._reflected("bitwise_xor", other)

    def __ixor__(self, other: object) -> Self:
        return self._in_place("bitwise_xor", other)

    def __lshift__(self, other: object) -> Self:
        return self._binary("left_shift", other)

    def __rlshift__(self, other: object) -> Self:
        return self._reflected("left_shift", other)

    def __ilshift__(self, other: object) -> Self:
        return self._in_place("left_shift", other)

    def __rshift__(self, other: object) -> Self:
        return self._binary("right_shift", other)

    def __rrshift__(self, other: object) -> Self:
        return self._reflected("right_shift", other)

    def __irshift__(self, other: object) -> Self:
        return self._in_place("right_shift", other)

    def __divmod__(self, other: object) -> tuple[Self, Self]:
        return cast("tuple[Self, Self]", self._binary("divmod", other))

    def __rdivmod__(self, other: object) -> tuple[Self, Self]:
        return cast("tuple[Self, Self]", self._reflected("divmod", other))

    def __pow__(self, other: object) -> Self:
        return power(self, other, type(self)) if is_operand(other) else NotImplemented

    def __rpow__(self, other: object) -> Self:
        return power(other, self, type(self)) if is_operand(other) else NotImplemented

    def __ipow__(self, other: object) -> Self:
        return power(self, other, type(self), out=self) if is_operand(other) else NotImplemented

    def __matmul__(self, other: object) -> Self:
        return self._matrix(self, other)

    def __rmatmul__(self, other: object) -> Self:
        return self._matrix(other, self)

    def __imatmul__(self, other: object) -> Self:
        product = self._matrix(self, other)
        if product is NotImplemented:
            return NotImplemented
        self[...] = product
        return self

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        return self._binary("equal", other)

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return self._binary("not_equal", other)

    def __lt__(self, other: object) -> Self:
        return self._binary("less", other)

    def __le__(self, other: object) -> Self:
        return self._binary("less_equal", other)

    def __gt__(self, other: object) -> Self:
        return self._binary("greater", other)

    def __ge__(self, other: object) -> Self:
        return self._binary("greater_equal", other)

    # Identity, although == is elementwise: aj.assign takes arrays as keys of a dict.
    __hash__ = object.__hash__

    def __neg__(self) -> Self:
        return self._unary("negative")

    def __pos__(self) -> Self:
        return self._unary("positive")

    def __abs__(self) -> Self:
        return self._unary("absolute")

    def __invert__(self) -> Self:
        return self._unary("invert")

    def _unary(self, name: str) -> Self:
        return elementwise(name, (self,), type(self), operator=True)
