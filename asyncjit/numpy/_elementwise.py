"""Elementwise operations on arrays, numbers and host data together: promotion, constants, weak numbers.

Law: decides what becomes an operand and what a constant in the kernel. NumPy 2 rules: Python numbers adapt to the
dtypes around them and so do weak arrays (float arguments of a captured function), which a cast of one element turns
into the dtype of the loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from asyncjit.numpy._dispatch import (
    Prepared,
    apply,
    bounded_put,
    create,
    current_sink,
    dtype_of,
    prepare,
    run,
    transfer,
)
from asyncjit.numpy._handle import ArraySpec, DType, Handle, array_spec, c_strides
from asyncjit.ops import REGISTRY, Op
from asyncjit.ops.constants import PYTHON_INT, Constant, encode, token
from asyncjit.symbols import Expr, Int

__all__ = ["NUMBERS", "ArrayLike", "Composite", "Scalar", "constant", "elementwise", "is_operand"]

A = TypeVar("A", bound=Handle)

Scalar: TypeAlias = "bool | int | float | complex | np.generic | Expr"
#: Whatever an operation takes for an array: arrays, NumPy's arrays, numbers, nested lists of numbers.
ArrayLike: TypeAlias = (
    "Handle | Composite | NDArray[Any] | bool | int | float | complex | np.generic | Expr | Sequence[Any]"
)

#: What becomes a constant of a kernel; a symbolic integer counts as an int whose value each replay brings.
NUMBERS = (bool, int, float, complex, np.generic, Expr)
_WEAK_TYPES: dict[str, type[int] | type[float] | type[complex]] = {"i": int, "u": int, "f": float, "c": complex}
_ADAPTING = frozenset({int, float, complex})

_prepared: dict[Hashable, Prepared] = {}


class Composite(ABC):
    """An array made of arrays, which does the operations of the namespace by doing them on each."""

    @abstractmethod
    def _elementwise(self, name: str, args: Sequence[object], *, out: Any = None, operator: bool = False) -> Any:
        """``elementwise`` with this among ``args``."""


def is_operand(value: object) -> bool:
    """Whether an operator should try, or leave it to the other side."""
    return isinstance(value, (Handle, *NUMBERS, np.ndarray, list, tuple))


def constant(cls: type[A], value: object, dtype: DType | None = None, device: str | None = None) -> A:
    """A new array with a copy of host data: NumPy arrays, numbers, nested sequences of numbers; or of a symbolic
    integer. On ``device``, or where new arrays are made."""
    if isinstance(value, Expr):
        target = np.dtype(np.int64) if dtype is None else dtype
        return create(cls, "full", (encode(value, target), (), target.name), device)
    host = np.asarray(value)
    target = dtype_of(host.dtype) if dtype is None else dtype
    if host.dtype.kind == "c" and target.kind not in "cb":
        raise TypeError(f"complex values do not convert to {target}; take the real part first")
    host = np.asarray(host, dtype=target, order="C")
    sink = current_sink()
    spec = array_spec(host.shape, c_strides(host.shape, target.itemsize), target, False, device or sink.device)
    return cls._of(sink.constant(host, device), 0, spec)


def elementwise(name: str, args: Sequence[object], cls: type[A], *, out: A | None = None, operator: bool = False) -> A:
    """Do elementwise operation ``name`` on arrays, numbers and host data; a new array, or ``out``.

    (An operation with two outputs, ``divmod``, gives a tuple of arrays.)

    ``operator`` says that an expression of nothing but adapting numbers stays adapting, as ``0.5 * 2`` does in Python,
    where ``np.multiply(0.5, 2)`` does not.

    Raises:
        TypeError, ValueError, OverflowError: as NumPy, before anything is emitted.
        DeviceError: operands are on different devices.
    """
    inputs: list[Any] = []
    key: list[Hashable] = [name, operator, None if out is None else out._spec]
    for arg in args:
        if isinstance(arg, Handle):
            inputs.append(arg)
            key.append(arg._spec)
        elif isinstance(arg, NUMBERS):
            key.append(token(arg))
        elif any(isinstance(each, Composite) for each in args):
            whole = next(each for each in args if isinstance(each, Composite))
            return cast(A, whole._elementwise(name, args, out=out, operator=operator))
        else:
            device = next((each._spec.device for each in args if isinstance(each, Handle)), None)
            args = [
                each if isinstance(each, (Handle, *NUMBERS)) else constant(cls, each, None, device) for each in args
            ]
            return elementwise(name, args, cls, out=out, operator=operator)
    if not inputs:
        return elementwise(name, _anchored(args, cls), cls, out=out, operator=operator)
    full_key = tuple(key)
    prepared = _prepared.get(full_key)
    if prepared is None:
        together = _together(args, inputs if out is None else [*inputs, out])
        if together is not None:
            return elementwise(name, together, cls, out=out, operator=operator)
        specs = [arg._spec if isinstance(arg, Handle) else arg for arg in args]
        prepared = _prepare(REGISTRY[name], specs, None if out is None else out._spec, operator)
        bounded_put(_prepared, full_key, prepared)
    if prepared.casts:
        inputs = [
            array if dtype is None else apply("astype", (array,), (dtype.name,))
            for array, dtype in zip(inputs, prepared.casts, strict=True)
        ]
    result: A = run(prepared, inputs, cls, out)
    return result


def _together(args: Sequence[object], arrays: Sequence[Handle]) -> list[object] | None:
    """The operands with every weak array, which is a number that a function was called with, on the device of the
    others; None where they are together or cannot be."""
    devices = {array._spec.device for array in arrays if not array._spec.weak}
    if len(devices) != 1 or all(array._spec.device in devices for array in arrays):
        return None
    (device,) = devices
    return [transfer(arg, device) if isinstance(arg, Handle) and arg._spec.device != device else arg for arg in args]


def _anchored(args: Sequence[object], cls: type[A]) -> list[object]:
    """Numbers only: the one with the strongest say on the dtype becomes an array, so that there is an operand."""

    def rank(arg: object) -> tuple[bool, int]:
        if isinstance(arg, Expr):
            return False, "biufc".find("i")
        return isinstance(arg, np.generic), "biufc".find(np.asarray(arg).dtype.kind)

    strongest = max(args, key=rank)
    at = next(index for index, arg in enumerate(args) if arg is strongest)
    return [constant(cls, arg) if index == at else arg for index, arg in enumerate(args)]


def _prepare(op: Op, args: Sequence[Any], out: ArraySpec | None, operator: bool) -> Prepared:
    """Choose the loop, round the constants to it, and find which weak inputs need a cast."""
    assert op.loop is not None
    if len(args) != op.arity:
        raise TypeError(f"{op.name} takes {op.arity} operands, not {len(args)}")
    types = tuple(_loop_type(arg) for arg in args)
    loop = op.loop(types)
    params: list[tuple[int, str, Int | str]] = []
    specs: list[ArraySpec] = []
    casts: list[DType | None] = []
    for position, (arg, dtype) in enumerate(zip(args, loop, strict=False)):
        if not isinstance(arg, ArraySpec):
            params.append((position, *_encode(op, arg, dtype)))
            continue
        cast_to = dtype if arg.weak and arg.dtype is not dtype else None
        casts.append(cast_to)
        specs.append(arg if cast_to is None else _cast(arg, cast_to))
    weak = operator and all(isinstance(kind, type) for kind in types) and loop[-1].kind in _WEAK_TYPES
    prepared = prepare(op, specs, tuple(params), out, weak=weak)
    if not any(casts):
        return prepared
    return Prepared(prepared.kernel, prepared.outputs, prepared.cost, tuple(casts))


def _cast(spec: ArraySpec, dtype: DType) -> ArraySpec:
    return array_spec(spec.shape, c_strides(spec.shape, dtype.itemsize), dtype, False, spec.device)


def _loop_type(arg: object) -> Any:
    """What NumPy's promotion sees: the dtype, or the Python type of what adapts."""
    if isinstance(arg, ArraySpec):
        return _WEAK_TYPES.get(arg.dtype.kind, arg.dtype) if arg.weak else arg.dtype
    kind = int if isinstance(arg, Expr) else type(arg)
    return kind if kind in _ADAPTING else dtype_of(np.asarray(arg).dtype)


def _encode(op: Op, value: Scalar, dtype: DType) -> Constant:
    try:
        return encode(value, dtype)
    except OverflowError:
        if op.compares and isinstance(value, int | Expr):
            return PYTHON_INT, value
        raise
