"""Depthwise convolution, one channel a group: the sum over taps of shifted inputs times a number each.

Law: a plan for known extents, and its run on NumPy views and scratch that is given; no operation of the registry.

In the padded input, laid out by phases, a shift is an offset, so a whole channel is one run in memory for each tap,
with values between the rows that nobody reads. ``einsum`` sums taps along the first spatial axis in one pass each:
its inner loop multiplies by a number and adds to the output in place, where ``multiply`` and ``add`` take two passes.
Along the other axes it would make the taps its inner loop, because they are as near in memory as neighbours are; so
those are summed by ``add``.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from asyncjit.ops._conv_columns import Problem
from asyncjit.ops._windows import Extents, PhaseLayout, Window, seen
from asyncjit.ops.activations import activation, needs_scratch

__all__ = ["TapsPlan"]

# Elements of all channels of a block: an einsum of 96 Ki elements takes ten times what calling it does.
BLOCK_ELEMENTS = 96 << 10


def _trimmed(problem: Problem) -> tuple[Problem, tuple[slice, ...]]:
    """Without taps at the ends that see the padding only, from every output; and which taps of an axis stay.

    Two rows under a window of five, padded by two, are left with three taps of a column.
    """
    window, kept, pads = problem.window, [], []
    for axis, taps in enumerate(window.kernel):
        step, (low, high) = window.dilation[axis], window.pads[axis]
        sights = [
            seen(problem.extents[axis], problem.outputs[axis], window.strides[axis], tap * step - low)[0]
            for tap in range(taps)
        ]
        used = [tap for tap, outputs in enumerate(sights) if outputs.start < outputs.stop] or [0]
        kept.append(slice(used[0], used[-1] + 1))
        pads.append((low - used[0] * step, high - (taps - 1 - used[-1]) * step))
    kernel = tuple(part.stop - part.start for part in kept)
    return replace(problem, window=replace(window, kernel=kernel, pads=tuple(pads))), tuple(kept)


def _as_planes(problem: Problem) -> Problem:
    """With an axis of extent 1 in front, where there is one spatial axis only: then the taps are not on the first."""
    window = problem.window
    if len(window.kernel) > 1:
        return problem
    wide = Window((1, *window.kernel), (1, *window.strides), (1, *window.dilation), ((0, 0), *window.pads))
    return replace(problem, window=wide, extents=(1, *problem.extents), outputs=(1, *problem.outputs))


class _Sum(NamedTuple):
    """Taps along the first axis that one einsum adds up."""

    #: In a plane of the padded input: where the first tap of the first output stands, and from tap to tap.
    start: int
    stride: int
    length: int
    #: Their weights.
    taps: tuple[slice | int, ...]


class TapsPlan:
    """How a depthwise problem is done, for a batch of at most ``batch`` images: blocks of channels, or of images."""

    def __init__(self, problem: Problem, batch: int) -> None:
        whole = _as_planes(problem)
        self._kernel = whole.window.kernel
        problem, self._kept = _trimmed(whole)
        self._problem = problem
        self._layout = PhaseLayout(problem.window, problem.extents, problem.outputs)
        self._multiple = problem.filters // problem.channels
        axes = len(problem.extents)
        self._positions: Extents = self._layout.shape[axes:]
        self._row_strides = [prod(self._positions[axis + 1 :]) for axis in range(axes)]
        #: From the first output of a channel to the last.
        self._run = 1 + sum((count - 1) * step for count, step in zip(problem.outputs, self._row_strides, strict=True))
        self._channels = max(1, min(problem.channels, BLOCK_ELEMENTS // self._run))
        has_all = self._channels == problem.channels
        self._images = max(1, min(batch, BLOCK_ELEMENTS // (problem.channels * self._run))) if has_all else 1
        self._sums = self._sum_list()
        self._has_spare = needs_scratch(problem.activation)
        self._activation = None if problem.activation is None else activation(problem.activation)
        # A run ends with the last output; the rows behind it are there so that the sum has the shape of rows.
        self._plane = problem.outputs[0] * self._row_strides[0]

    def _sum_list(self) -> list[_Sum]:
        window, sums = self._problem.window, []
        layout = dict(zip(product(*map(range, window.kernel)), self._layout.taps, strict=True))
        strides = [prod(self._layout.shape[axis + 1 :]) for axis in range(len(self._layout.shape))]
        for rest in product(*map(range, window.kernel[1:])):
            by_phase: dict[int, list[int]] = {}
            for tap in range(window.kernel[0]):
                by_phase.setdefault(layout[tap, *rest][0][0], []).append(tap)
            for taps in by_phase.values():
                phase, start = layout[taps[0], *rest]
                place = sum(each * stride for each, stride in zip((*phase, *start), strides, strict=True))
                rows = layout[taps[1], *rest][1][0] - start[0] if len(taps) > 1 else 0
                step = taps[1] - taps[0] if len(taps) > 1 else 1
                chosen: tuple[slice | int, ...] = (slice(taps[0], taps[-1] + 1, step), *rest)
                sums.append(_Sum(place, rows * self._row_strides[0], len(taps), chosen))
        return sums

    @property
    def scratch_size(self) -> int:
        """Elements of scratch that a run needs, in the dtype of the arithmetic."""
        problem, planes = self._problem, self._images * self._channels
        sums = 1 + (len(self._sums) > 1)
        block = self._layout.size + sums * self._plane + problem.windows * (self._has_spare + problem.has_cast)
        return planes * block + problem.filters * prod(self._kernel) * problem.has_cast

    def run(self, x: Any, weights: Any, bias: Any, out: Any, scratch: Any) -> None:
        """Convolve ``x`` of shape (n, channels, *extents) into ``out`` of shape (n, filters, *outputs)."""
        problem, size = self._problem, self._layout.size
        x = x.reshape(*x.shape[:2], *problem.extents)
        shaped = weights.reshape(problem.channels, self._multiple, *self._kernel)
        if problem.has_cast:
            given, shaped = shaped, scratch[-weights.size :].reshape(shaped.shape)
            shaped[...] = given
        shaped = shaped[(slice(None), slice(None), *self._kept)]
        if bias is not None:
            bias = bias.reshape(problem.channels, self._multiple, *(1,) * len(problem.extents))
        results = out.reshape(out.shape[0], problem.channels, self._multiple, *problem.outputs)
        rest = scratch[self._images * self._channels * size :]
        for first in range(0, x.shape[0], self._images):
            images = slice(first, first + self._images)
            for low in range(0, problem.channels, self._channels):
                part = slice(low, low + self._channels)
                planes = x[images, part]
                # Several images come with all channels, so this is a view.
                planes = planes.reshape(-1, *problem.extents)
                padded = scratch[: planes.shape[0] * size].reshape(planes.shape[0], *self._layout.shape)
                self._layout.fill(planes, padded)
                for multiple in range(self._multiple):
                    added = None if bias is None else bias[part, multiple]
                    self._convolve(padded, shaped[part, multiple], added, results[images, part, multiple], rest)

    def _convolve(self, padded: Any, weights: Any, bias: Any, result: Any, scratch: Any) -> None:
        """``result`` has shape (images, channels, *outputs), and ``padded`` a plane for each."""
        images, channels, bytes_each = result.shape[0], result.shape[1], padded.itemsize
        size, plane = images * channels * self._plane, self._layout.size * bytes_each
        total = scratch[:size].reshape(images, channels, -1)
        addend = scratch[size : 2 * size].reshape(images, channels, -1) if len(self._sums) > 1 else None
        for index, (start, stride, length, taps) in enumerate(self._sums):
            # Checks the bounds, and takes 1 us where ``as_strided`` takes 10.
            shifted = np.ndarray(
                (images, channels, length, self._run),
                padded.dtype,
                padded,
                start * bytes_each,
                (channels * plane, plane, stride * bytes_each, bytes_each),
            )
            into: Any = (addend if index else total)[:, :, : self._run]  # type: ignore[index]
            np.einsum("nctr,ct->ncr", shifted, weights[(slice(None), *taps)], out=into)
            if index:
                np.add(total[:, :, : self._run], into, total[:, :, : self._run])
        self._finish(total, bias, result, scratch[size * (1 + (len(self._sums) > 1)) :])

    def _finish(self, total: Any, bias: Any, result: Any, scratch: Any) -> None:
        """Take the outputs out of the runs, with the bias and the activation."""
        outputs = self._problem.outputs
        inside = total.reshape(*result.shape[:2], outputs[0], *self._positions[1:])
        inside = inside[(slice(None), slice(None), *map(slice, outputs))]
        target = result
        if self._problem.has_cast:
            target, scratch = scratch[: result.size].reshape(result.shape), scratch[result.size :]
        if bias is None:
            np.copyto(target, inside)
        else:
            np.add(inside, bias, target)
        if self._activation is not None:
            self._activation(target, scratch[: result.size].reshape(result.shape) if self._has_spare else None)
        if target is not result:
            result[...] = target
