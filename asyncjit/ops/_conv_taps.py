"""Depthwise convolution, one channel a group: the sum over taps of shifted inputs times a number each.

Law: a plan for known extents, and its run on NumPy views and scratch that is given; no operation of the registry.

In the padded input, laid out by phases, a shift is an offset, so a whole channel is one run in memory for each tap,
with values between the rows that nobody reads. ``einsum`` sums taps along the first spatial axis in one pass each:
its inner loop multiplies by a number and adds to the output in place, where ``multiply`` and ``add`` take two passes.
Along the other axes it would make the taps its inner loop, because they are as near in memory as neighbours are; so
those are summed by ``add``.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from asyncjit.ops._conv_columns import Problem
from asyncjit.ops._windows import Extents, PhaseLayout, Window
from asyncjit.ops.activations import activation, needs_scratch

__all__ = ["TapsPlan"]

# Elements of all channels of a block: an einsum of 96 Ki elements takes ten times what calling it does.
BLOCK_ELEMENTS = 96 << 10


def _as_planes(problem: Problem) -> Problem:
    """With an axis of extent 1 in front, where there is one spatial axis only: then the taps are not on the first."""
    window = problem.window
    if len(window.kernel) > 1:
        return problem
    wide = Window((1, *window.kernel), (1, *window.strides), (1, *window.dilation), ((0, 0), *window.pads))
    return Problem(
        wide,
        problem.channels,
        (1, *problem.extents),
        problem.filters,
        problem.groups,
        (1, *problem.outputs),
        problem.has_bias,
        problem.has_cast,
        problem.activation,
    )


class TapsPlan:
    """How a depthwise problem is done, channel by channel."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem = _as_planes(problem)
        self._layout = PhaseLayout(problem.window, problem.extents, problem.outputs)
        self._multiple = problem.filters // problem.channels
        axes = len(problem.extents)
        self._positions: Extents = self._layout.shape[axes:]
        self._row_strides = [prod(self._positions[axis + 1 :]) for axis in range(axes)]
        #: From the first output of a channel to the last.
        self._run = 1 + sum((count - 1) * step for count, step in zip(problem.outputs, self._row_strides, strict=True))
        self._channels = max(1, min(problem.channels, BLOCK_ELEMENTS // self._run))
        self._sums = self._sum_list()
        self._has_spare = needs_scratch(problem.activation)
        self._activation = None if problem.activation is None else activation(problem.activation)
        # A run ends with the last output; the rows behind it are there so that the sum has the shape of rows.
        self._plane = problem.outputs[0] * self._row_strides[0]

    def _sum_list(self) -> list[tuple[Extents, int, int, Any]]:
        """For each einsum: index of the phase, offset in it, number of taps, and where their weights are."""
        window, sums = self._problem.window, []
        layout = dict(zip(product(*map(range, window.kernel)), self._layout.taps, strict=True))
        for rest in product(*map(range, window.kernel[1:])):
            by_phase: dict[int, list[int]] = {}
            for tap in range(window.kernel[0]):
                by_phase.setdefault(layout[tap, *rest][0][0], []).append(tap)
            for taps in by_phase.values():
                phase, start = layout[taps[0], *rest]
                offset = sum(first * step for first, step in zip(start, self._row_strides, strict=True))
                rows = layout[taps[1], *rest][1][0] - start[0] if len(taps) > 1 else 0
                step = taps[1] - taps[0] if len(taps) > 1 else 1
                sums.append((phase, offset, rows, (slice(taps[0], taps[-1] + 1, step), *rest)))
        return sums

    @property
    def scratch_size(self) -> int:
        """Elements of scratch that a run needs, in the dtype of the arithmetic."""
        problem, channels = self._problem, self._channels
        sums = 1 + (len(self._sums) > 1)
        activated = channels * problem.windows * self._has_spare
        result = channels * problem.windows * problem.has_cast
        weights = problem.filters * problem.window.taps * problem.has_cast
        return channels * (self._layout.size + sums * self._plane) + activated + result + weights

    def run(self, x: Any, weights: Any, bias: Any, out: Any, scratch: Any) -> None:
        """Convolve ``x`` of shape (n, channels, *extents) into ``out`` of shape (n, filters, *outputs)."""
        problem = self._problem
        x = x.reshape(*x.shape[:2], *problem.extents)
        shaped = weights.reshape(problem.channels, self._multiple, *problem.window.kernel)
        if problem.has_cast:
            given, shaped = shaped, scratch[-weights.size :].reshape(shaped.shape)
            shaped[...] = given
        if bias is not None:
            bias = bias.reshape(problem.channels, self._multiple, *(1,) * len(problem.extents))
        results = out.reshape(out.shape[0], problem.channels, self._multiple, *problem.outputs)
        for image in range(x.shape[0]):
            for low in range(0, problem.channels, self._channels):
                part = slice(low, low + self._channels)
                channels = x[image, part]
                padded = scratch[: channels.shape[0] * self._layout.size].reshape(
                    channels.shape[0], *self._layout.shape
                )
                self._layout.fill(channels, padded)
                rest = scratch[self._channels * self._layout.size :]
                for multiple in range(self._multiple):
                    self._convolve(
                        padded,
                        shaped[part, multiple],
                        None if bias is None else bias[part, multiple],
                        results[image, part, multiple],
                        rest,
                    )

    def _convolve(self, padded: Any, weights: Any, bias: Any, result: Any, scratch: Any) -> None:
        count, size = padded.shape[0], padded.shape[0] * self._plane
        total, addend = scratch[:size].reshape(count, -1), scratch[size : 2 * size].reshape(count, -1)
        for index, (phase, offset, rows, taps) in enumerate(self._sums):
            run = padded[(slice(None), *phase)].reshape(count, -1)[:, offset:]
            chosen = weights[(slice(None), *taps)]
            step = run.strides[1]
            shifted = as_strided(
                run,
                (count, chosen.shape[1], self._run),
                (run.strides[0], rows * self._row_strides[0] * step, step),
                writeable=False,
            )
            np.einsum("ctr,ct->cr", shifted, chosen, out=(addend if index else total)[:, : self._run])
            if index:
                np.add(total[:, : self._run], addend[:, : self._run], total[:, : self._run])
        self._finish(total, bias, result, scratch[size * (1 + (len(self._sums) > 1)) :])

    def _finish(self, total: Any, bias: Any, result: Any, scratch: Any) -> None:
        """Take the outputs out of the runs, with the bias and the activation."""
        outputs = self._problem.outputs
        inside = total.reshape(-1, outputs[0], *self._positions[1:])
        inside = inside[(slice(None), *map(slice, outputs))]
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
