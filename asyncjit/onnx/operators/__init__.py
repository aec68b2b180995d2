"""What each operator does: one function an operator, over ``asyncjit.numpy`` and ``asyncjit.nn``.

Law: handlers are thin. A file holds a family, and importing it registers its handlers; what computes is an operation in
``asyncjit.ops``, what is known when a node is recorded comes as a NumPy array. See ``operator`` for the rules.
"""

from __future__ import annotations

from asyncjit.onnx.operators import (
    activations,
    attention,
    basic,
    casts,
    contrib,
    control,
    creation,
    elementwise,
    indexing,
    losses,
    ml,
    normalisation,
    pictures,
    products,
    quantised,
    recurrent,
    reductions,
    resizing,
    sampling,
    sequences,
    shapes,
    signal,
    text,
    training,
    vision,
)
from asyncjit.onnx.operators._registry import ALL, Operator, Unsupported, find, names, operator, supports

__all__ = ["ALL", "Operator", "Unsupported", "find", "names", "operator", "supports"]

#: Importing a family registers its operators.
FAMILIES = (
    activations,
    attention,
    basic,
    casts,
    contrib,
    control,
    creation,
    elementwise,
    indexing,
    losses,
    ml,
    normalisation,
    pictures,
    products,
    quantised,
    recurrent,
    reductions,
    resizing,
    sampling,
    sequences,
    shapes,
    signal,
    text,
    training,
    vision,
)
