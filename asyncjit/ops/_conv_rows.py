"""Convolution of wide images: one matrix product for each row of outputs, over columns that rows share.

Law: a plan for known extents, and its run on NumPy views and scratch that is given; no operation of the registry.

The input is unfolded along its rows only: for each line of it, taps times channels copies shifted along the row, as
``(lines, taps of a row, channels, outputs of a row)``. Then the columns of a row of outputs, all taps of all lines that
it sees, are one matrix in memory already, and the matrices of neighbouring rows overlap. So each element is copied once
for each tap of a row instead of once for each tap. Cho and Brand, "MEC: Memory-efficient Convolution for Deep Neural
Network", 2017.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from asyncjit.ops._conv_columns import BLOCK_ELEMENTS, Problem
from asyncjit.ops._windows import seen
from asyncjit.ops.activations import activation, needs_scratch

__all__ = ["RowsPlan"]


class RowsPlan:
    """How a problem of one group and two spatial axes is done, without dilation between lines."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        window = problem.window
        lines, taps = window.kernel
        self._line = taps * problem.channels * problem.outputs[1]
        wanted = max(1, (BLOCK_ELEMENTS // self._line - lines) // window.strides[0] + 1)
        blocks = -(-problem.outputs[0] // wanted)
        self._rows = -(-problem.outputs[0] // blocks)
        self._lines = (self._rows - 1) * window.strides[0] + lines
        self._activation = None if problem.activation is None else activation(problem.activation)
        self._taps = [self._along_row(tap) for tap in range(taps)]

    def _along_row(self, tap: int) -> tuple[int, int, slice]:
        """First and last output of a row that sees the input through ``tap``, and where in the input."""
        problem, window = self._problem, self._problem.window
        shift = tap * window.dilation[1] - window.pads[1][0]
        outputs, inside = seen(problem.extents[1], problem.outputs[1], window.strides[1], shift)
        return outputs.start, outputs.stop, inside

    @property
    def scratch_size(self) -> int:
        """Elements of scratch that a run needs, in the dtype of the arithmetic."""
        problem = self._problem
        activated = problem.filters * self._rows * problem.outputs[1] * needs_scratch(problem.activation)
        return problem.filters * problem.depth + self._lines * self._line + activated

    def run(self, x: Any, weights: Any, bias: Any, out: Any, scratch: Any) -> None:
        """Convolve ``x`` of shape (n, channels, *extents) into ``out`` of shape (n, filters, *outputs)."""
        problem, lines = self._problem, self._problem.window.kernel[0]
        size = problem.filters * problem.depth
        matrix = scratch[:size].reshape(problem.filters, lines, -1, problem.channels)
        matrix[...] = weights.transpose(0, 2, 3, 1)
        matrix = matrix.reshape(problem.filters, -1)
        unfolded = scratch[size : size + self._lines * self._line]
        unfolded = unfolded.reshape(self._lines, len(self._taps), problem.channels, -1)
        line_bytes, width = unfolded.strides[0], problem.outputs[1]
        if bias is not None:
            bias = bias.reshape(-1, 1, 1)
        for image in range(x.shape[0]):
            for low in range(0, problem.outputs[0], self._rows):
                rows = min(self._rows, problem.outputs[0] - low)
                self._unfold(x[image], low, rows, unfolded)
                shape = (rows, problem.depth, width)
                strides = (line_bytes * problem.window.strides[0], unfolded.strides[2], unfolded.strides[3])
                columns = as_strided(unfolded, shape, strides, writeable=False)
                result = out[image, :, low : low + rows]
                np.matmul(matrix, columns, result.swapaxes(0, 1))
                if bias is not None:
                    np.add(result, bias, result)
                if self._activation is not None:
                    rest = scratch[size + self._lines * self._line :]
                    self._activation(result, rest[: result.size].reshape(result.shape) if rest.size else None)

    def _unfold(self, image: Any, low: int, rows: int, unfolded: Any) -> None:
        """Copy the lines that ``rows`` rows of outputs from ``low`` on see, shifted for each tap of a row."""
        window = self._problem.window
        start = low * window.strides[0] - window.pads[0][0]
        count = (rows - 1) * window.strides[0] + window.kernel[0]
        first, last = max(0, -start), max(0, min(count, image.shape[1] - start))
        unfolded[:first] = 0
        unfolded[max(first, last) : count] = 0
        for tap, (begin, end, inside) in enumerate(self._taps):
            target = unfolded[first:last, tap]
            if begin:
                target[:, :, :begin] = 0
            if end < target.shape[2]:
                target[:, :, end:] = 0
            target[:, :, begin:end] = image[:, start + first : start + last, inside].swapaxes(0, 1)
