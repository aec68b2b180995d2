"""Extents rounded up to buckets, so that many shapes share a capture.

Law: sizes and padding of inputs, cuts of outputs; no call.

An input is padded with zeros, along its first axis by repeating its first row: whatever a model does with a real row it
can do again, while a row of zeros may divide by zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

import asyncjit.numpy as anp
from asyncjit.errors import OnnxError
from asyncjit.jit.batching.rows import bucket_of
from asyncjit.named.inputs import ValueType
from asyncjit.numpy import Array

__all__ = ["Buckets", "Cut", "Sizes"]

#: Allowed extents, ascending; or one number, of which extents are multiples.
Sizes: TypeAlias = "int | Sequence[int]"
#: Name of a dimension -> its extent as the caller passed it, and padded.
Cut: TypeAlias = "dict[str, tuple[int, int]]"


class Buckets:
    """The buckets of one model, by names of dimensions.

    Raises:
        OnnxError: no input has a dimension of that name, or the sizes are no positive integers.
    """

    def __init__(self, sizes: Mapping[str, Sizes], inputs: Sequence[ValueType], outputs: Sequence[ValueType]) -> None:
        self._sizes: dict[str, tuple[int, ...]] = {}
        self._inputs = {each.name: each for each in inputs}
        self._outputs = {each.name: each for each in outputs}
        named = sorted({dim for each in inputs for dim in each.shape or () if isinstance(dim, str)})
        for name, given in sizes.items():
            listed = (given,) if isinstance(given, int) else tuple(given)
            if name not in named:
                raise OnnxError(
                    f"bucket= names {name!r}; the dimensions that have names are {', '.join(named) or 'none'}"
                )
            if not listed or any(not isinstance(each, int) or each < 1 for each in listed):
                raise OnnxError(f"bucket= for {name!r} takes a positive integer or several, got {given!r}")
            self._sizes[name] = tuple(sorted(listed)) if not isinstance(given, int) else (given,)

    @property
    def sizes(self) -> Mapping[str, tuple[int, ...]]:
        """Extents by the name of the dimension, ascending."""
        return self._sizes

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def pad(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], Cut]:
        """Values with padded extents, and what has to be cut off again."""
        padded: dict[str, Any] = {}
        cut: Cut = {}
        for name, value in values.items():
            shape = self._inputs[name].shape
            if shape is None or not hasattr(value, "shape") or len(shape) != len(value.shape):
                padded[name] = value
                continue
            for axis, dim in enumerate(shape):
                extent = value.shape[axis]
                if isinstance(dim, str) and dim in self._sizes and extent:
                    target = bucket_of(extent, self._sizes[dim])
                    cut[dim] = (extent, target)
                    value = _padded(value, axis, target)
            padded[name] = value
        return padded, {name: pair for name, pair in cut.items() if pair[0] != pair[1]}

    def cut(self, outputs: Mapping[str, Any], cut: Cut) -> dict[str, Any]:
        """Outputs without what was padded: views, along every axis that the model says to be of a padded dimension."""
        return {name: self._cut_one(self._outputs[name], value, cut) for name, value in outputs.items()}

    def _cut_one(self, kind: ValueType, value: Any, cut: Cut) -> Any:
        if kind.shape is None or not isinstance(value, Array) or len(kind.shape) != value.ndim:
            return value
        key = tuple(
            slice(cut[dim][0])
            if isinstance(dim, str) and dim in cut and value.shape[axis] == cut[dim][1]
            else slice(None)
            for axis, dim in enumerate(kind.shape)
        )
        return value[key] if any(each.stop is not None for each in key) else value


def _padded(value: Any, axis: int, target: int) -> Any:
    extent = value.shape[axis]
    if extent == target:
        return value
    missing = target - extent
    if isinstance(value, Array):
        if axis == 0:
            first = value[:1]
            return anp.concatenate([value, anp.broadcast_to(first, (missing, *first.shape[1:]))])
        shape = (*value.shape[:axis], missing, *value.shape[axis + 1 :])
        return anp.concatenate([value, anp.zeros(shape, dtype=value.dtype)], axis=axis)
    host = np.asarray(value)
    if axis == 0:
        return np.concatenate([host, np.broadcast_to(host[:1], (missing, *host.shape[1:]))])
    widths = [(0, missing if place == axis else 0) for place in range(host.ndim)]
    return np.pad(host, widths)
