"""What an operation is: rules, a kernel, a cost.

Law: the types of ``ops`` and the helpers that every family shares; no operation. Imports core and NumPy only; an
operation knows specs and NumPy views, never arrays, storages or engines.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.symbols import Int, same, upper
from asyncjit.variables import has_symbols

__all__ = [
    "DTYPES",
    "EXTENDED",
    "REGISTRY",
    "Loop",
    "LoopType",
    "NumPyKernel",
    "Op",
    "Params",
    "Shape",
    "Spec",
    "admit",
    "broadcast",
    "dtype_named",
    "is_floating",
    "register",
    "same_shape",
]

DType: TypeAlias = "np.dtype[Any]"
Params: TypeAlias = tuple[Hashable, ...]
#: Extents of the axes; each may be symbolic.
Shape: TypeAlias = tuple[Int, ...]
NumPyKernel: TypeAlias = Callable[..., object]
#: A dtype, or the Python type of a scalar that adapts to the dtypes around it.
LoopType: TypeAlias = "DType | type[int] | type[float] | type[complex]"
#: Dtypes of inputs, then of outputs, of the NumPy loop that runs for the given types of inputs.
Loop: TypeAlias = Callable[[tuple[LoopType, ...]], tuple[DType, ...]]

#: Every dtype that an array may have, by NumPy's name.
DTYPES: dict[str, DType] = {
    name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}

#: Dtypes that NumPy does not know by itself and that arrays may have too, by name; see ``admit``.
EXTENDED: dict[str, DType] = {}


def admit(dtype: DType) -> None:
    """Let arrays have ``dtype``, which a library has added to NumPy under its own name: bfloat16, float8_e5m2, int4, …

    Operations are then whatever loops that library has; there are no arrays of it by default anywhere.
    """
    assert dtype.name not in DTYPES
    assert np.dtype(dtype.name) is dtype
    EXTENDED[dtype.name] = dtype


def dtype_named(name: str) -> DType | None:
    """The dtype that arrays may have under this name."""
    known = DTYPES.get(name)
    return EXTENDED.get(name) if known is None else known


def is_floating(dtype: DType) -> bool:
    """Whether ``dtype`` holds real or complex floating-point numbers; for admitted ones NumPy's own answer is no."""
    return dtype.kind in "fc" or (dtype.name in EXTENDED and dtype.name.startswith(("float", "bfloat")))


@dataclass(frozen=True, slots=True)
class Spec:
    """Shape and dtype of a value; extents may be symbolic. ``weak`` marks a number that adapts to the dtypes around it,
    as Python scalars do."""

    shape: Shape
    dtype: DType
    weak: bool = False

    @property
    def size(self) -> int:
        """Number of elements; the most there may be."""
        return upper(prod(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes of the elements; the most there may be."""
        return self.size * self.dtype.itemsize


def bytes_moved(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    """The default cost: every element is read or written once, one operation for each element of the outputs."""
    return Cost(sum(spec.size for spec in outputs), sum(spec.nbytes for spec in (*inputs, *outputs)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation.

    infer(specs, params): the specs of the outputs; TypeError or ValueError says operation, operands and remedy.
    kernel(params, operands): a callable over NumPy views, **inputs first, outputs last**, that writes into the outputs.
    ``operands`` describes the same views; it is empty when only the plain function is wanted.
    cost(inputs, outputs, params): work of one call. body: room for a portable kernel.

    loop is set for elementwise operations only: they broadcast, take ``arity`` operands of which any may be a constant
    in ``params`` (see ``constants``), and follow NumPy's promotion.
    """

    name: str
    infer: Callable[[tuple[Spec, ...], Params], tuple[Spec, ...]]
    kernel: Callable[[Params, tuple[Operand, ...]], NumPyKernel]
    cost: Callable[[Sequence[Spec], Sequence[Spec], Params], Cost] = bytes_moved
    body: object | None = None
    loop: Loop | None = None
    arity: int = 1
    #: Whether an out-of-range Python int is compared by value instead of refused.
    compares: bool = False
    #: Whether the result may be written into an array of any dtype and of a larger shape.
    assigns: bool = False
    #: Whether the operand that is written is read as well.
    reads_output: bool = field(default=False)
    #: How many of the inputs, the first ones, are written besides being read.
    updates: int = 0
    #: How many of the parameters the kernel looks at, the first ones; None is all. The others are for the rules.
    params_bound: int | None = None


#: Every operation by name.
REGISTRY: dict[str, Op] = {}


def register(op: Op) -> Op:
    assert op.name not in REGISTRY
    REGISTRY[op.name] = op
    return op


def same_shape(left: Shape, right: Shape) -> bool:
    """Whether two shapes are equal for all values of their symbols; unlike ``==`` it never refuses."""
    return len(left) == len(right) and all(map(same, left, right))


def broadcast(name: str, shapes: Sequence[Shape]) -> Shape:
    """The common shape of ``shapes`` under NumPy's broadcasting.

    A symbolic extent goes with an equal one or with 1; it is never taken for 1 itself, whatever its range.
    """
    try:
        if has_symbols(tuple(shapes)):
            return _broadcast_symbolic(shapes)
        return np.broadcast_shapes(*cast("Sequence[tuple[int, ...]]", shapes))
    except ValueError:
        listed = " and ".join(map(str, shapes))
        raise ValueError(
            f"{name}: shapes {listed} do not broadcast; counted from the last axis, extents must be equal or 1: "
            "reshape an operand, or give it axes of extent 1"
        ) from None


def _broadcast_symbolic(shapes: Sequence[Shape]) -> Shape:
    result: list[Int] = []
    for place in range(-max(map(len, shapes)), 0):
        extents = [shape[place] for shape in shapes if len(shape) >= -place]
        wide = [extent for extent in extents if not same(extent, 1)] or extents
        if not all(same(extent, wide[0]) for extent in wide):
            raise ValueError
        result.append(wide[0])
    return tuple(result)
