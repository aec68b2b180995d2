"""A fold over sliding windows, one axis after the other: the largest of a window is the largest of the largest of its
rows.

Law: a plan for known extents, and its run on NumPy views and scratch that is given; no operation of the registry.

Axes go from the first to the last, so that the passes over most elements read neighbours; together they are as many as
the sides of a window, where its taps are their product. Nothing is padded: each tap is applied to the outputs that see
the input through it.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from asyncjit.ops._windows import Extents, Window, seen

__all__ = ["SlidingFold"]

# Elements of the input of a block: 256 KiB of float32, so that it and what it becomes stay in cache.
BLOCK_ELEMENTS = 1 << 16


class _Pass(NamedTuple):
    """The taps along one axis; ``shape`` is that of a plane after it."""

    shape: Extents
    #: What all outputs see.
    whole: list[tuple[slice, ...]]
    #: Which outputs see something, and what.
    rest: list[tuple[tuple[slice, ...], tuple[slice, ...]]]


class SlidingFold:
    """``ufunc`` over windows of planes; ``identity`` is the result where a window sees nothing."""

    def __init__(self, ufunc: Any, identity: float, window: Window, extents: Extents, outputs: Extents) -> None:
        self._ufunc, self._identity = ufunc, identity
        self._passes: list[_Pass] = []
        shape = extents
        for axis, count in enumerate(outputs):
            stride, step, low = window.strides[axis], window.dilation[axis], window.pads[axis][0]
            if window.kernel[axis] == 1 and stride == 1 and low == 0 and count == extents[axis]:
                continue
            lead = (slice(None),) * (axis + 1)
            shape = (*shape[:axis], count, *shape[axis + 1 :])
            taps = [seen(extents[axis], count, stride, tap * step - low) for tap in range(window.kernel[axis])]
            whole = [(*lead, inside) for outside, inside in taps if outside == slice(0, count)]
            rest = [((*lead, out), (*lead, inside)) for out, inside in taps if out != slice(0, count)]
            self._passes.append(_Pass(shape, whole, rest))
        self.planes = max(1, BLOCK_ELEMENTS // max(1, prod(extents)))
        sizes = [prod(each.shape) for each in self._passes[:-1]]
        #: Elements of scratch for a block, in the dtype of the result: what the passes before the last one give.
        self.scratch_size = self.planes * (max(sizes[::2], default=0) + max(sizes[1::2], default=0))
        self._half = self.planes * max(sizes[::2], default=0)

    def run(self, planes: Any, out: Any, scratch: Any) -> None:
        """Fold the windows of a block of planes of shape (p, *extents) into ``out``; the arithmetic is done in the
        dtype of ``out``."""
        if not self._passes:
            out[...] = planes
        source = planes
        for index, step in enumerate(self._passes):
            if index + 1 == len(self._passes):
                target = out
            else:
                size = planes.shape[0] * prod(step.shape)
                start = self._half * (index % 2)
                target = scratch[start : start + size].reshape(planes.shape[0], *step.shape)
            self._fold(source, target, step)
            source = target

    def _fold(self, source: Any, target: Any, step: _Pass) -> None:
        ufunc, whole = self._ufunc, step.whole
        if len(whole) > 1:
            ufunc(source[whole[0]], source[whole[1]], out=target, dtype=target.dtype)
        elif whole:
            np.copyto(target, source[whole[0]], casting="unsafe")
        else:
            target.fill(self._identity)
        for inside in whole[2:]:
            ufunc(target, source[inside], out=target, dtype=target.dtype)
        for outside, inside in step.rest:
            view = target[outside]
            ufunc(view, source[inside], out=view, dtype=target.dtype)
