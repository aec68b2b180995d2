"""The operations: one entry each, with a shape and dtype rule, a NumPy kernel and a cost.

Law: imports core and NumPy only. A family is a module (``elementwise``, ``special``, ``reduction``, ``linalg``,
``movement``, ``indexing``, ``sorting``, ``creation``, ``random``); an operation is one entry in it, and adding one is
adding that entry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from asyncjit.errors import DeviceError
from asyncjit.ir import Kernel, Operand
from asyncjit.ops import (
    attention,
    convolution,
    creation,
    deformed,
    elementwise,
    indexing,
    linalg,
    linear_attention,
    movement,
    normalisation,
    padding,
    pooling,
    quantised,
    random,
    recurrent,
    reduction,
    resizing,
    sampling,
    signal,
    sorting,
    special,
    transposed,
)
from asyncjit.ops._spec import DTYPES, REGISTRY, Op, Spec, admit, dtype_named, is_floating
from asyncjit.variables import has_symbols

__all__ = [
    "DTYPES",
    "REGISTRY",
    "Op",
    "Spec",
    "admit",
    "dtype_named",
    "is_floating",
    "is_symbolic",
    "numpy_kernel",
]

#: The families; importing one fills the registry.
FAMILIES = (
    attention,
    convolution,
    creation,
    deformed,
    elementwise,
    indexing,
    linalg,
    linear_attention,
    movement,
    normalisation,
    padding,
    pooling,
    quantised,
    random,
    recurrent,
    reduction,
    resizing,
    sampling,
    signal,
    sorting,
    special,
    transposed,
)


def numpy_kernel(kernel: Kernel, operands: tuple[Operand, ...]) -> Callable[..., object]:
    """What runs ``kernel`` on NumPy views of ``operands`` in their order: inputs first, outputs last.

    Parameters are bound here, once, so a plain ufunc comes back as itself. A user's kernel is its ``implementation``,
    called with its parameters first, where it has any. Parameters hold no symbols.

    Raises:
        DeviceError: no operation has that name.
    """
    if kernel.implementation is not None:
        own = cast("Callable[..., object]", kernel.implementation)
        return partial(own, kernel.params) if kernel.params else own
    op = REGISTRY.get(kernel.name)
    if op is None:
        raise DeviceError(
            f"no operation {kernel.name!r} on this device; known are {', '.join(sorted(REGISTRY))}",
            kernel=kernel.name,
        )
    return op.kernel(kernel.params, operands)


def is_symbolic(kernel: Kernel) -> bool:
    """Whether ``kernel``, if known, has parameters that each replay has its own values of; it is then bound anew."""
    if kernel.implementation is not None:
        return has_symbols(kernel.params)
    op = REGISTRY.get(kernel.name)
    return op is not None and has_symbols(kernel.params[: op.params_bound])
