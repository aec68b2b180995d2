"""Convolution as matrix products: weights times columns, where a column holds what one window sees (im2col).

Law: a plan for known extents, and its run on NumPy views and scratch that is given; no operation of the registry.

Columns are made for one block of windows at a time, so that they stay in cache, and none are made for windows of one
tap, whose columns are the input. A row of ones below the columns, with the bias as a column of the weights, adds the
bias inside the product.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from asyncjit.ops._windows import Extents, PhaseLayout, Window
from asyncjit.ops.activations import Activation, activation, needs_scratch

__all__ = ["ColumnsPlan", "Problem"]

# Elements of the columns of a block: 1 MiB of float32. On 3 x 3 windows of 64, 128 and 256 channels, blocks of 0.5 to
# 3 MB took the same time within 5 %, smaller ones up to 30 % more. A product of few columns runs below BLAS's pace, so
# there are never fewer than COLUMNS_MIN if there are so many windows.
BLOCK_ELEMENTS, COLUMNS_MIN = 1 << 18, 192
# From this many taps on, windows without padding are copied from one view of them, if there are not many more windows:
# 16 taps and 70 windows 1.7 x faster, 49 taps and 676 windows 1.25 x slower.
TAPS_MANY = 16
# Below this many windows an image, several images share a product: 3.1 x faster on 31 images of 4 windows, 129
# channels and 3 taps.
WINDOWS_FEW = 64
# A product without columns is cut by output channels, so that bias and activation find its result in cache.
# BLAS computes in tiles, so the cuts are at whole ones: blocks of 81 filters took 1.2 times as long as blocks of 64.
RESULT_ELEMENTS, FILTERS_STEP = 1 << 18, 64


@dataclass(frozen=True, slots=True)
class Problem:
    """One convolution: extents without the batch, which each run brings.

    ``has_cast``: the arithmetic is done in another dtype than that of the input.
    """

    window: Window
    channels: int
    extents: Extents
    filters: int
    groups: int
    outputs: Extents
    has_bias: bool
    has_cast: bool
    activation: Activation | None

    @property
    def depth(self) -> int:
        """Rows of a column: taps times channels of a group."""
        return self.channels // self.groups * self.window.taps

    @property
    def windows(self) -> int:
        """Windows of one image."""
        return prod(self.outputs)


class ColumnsPlan:
    """How a problem is done for a batch of at most ``batch`` images."""

    def __init__(self, problem: Problem, batch: int) -> None:
        self._problem = problem
        self._layout = PhaseLayout(problem.window, problem.extents, problem.outputs)
        self._is_direct = problem.window.is_dense and not problem.has_cast
        self._is_lone_tap = problem.window.taps == 1
        #: One window an image: rows of the batch are vectors, and all of them one product.
        self._are_vectors = self._is_lone_tap and self._is_direct and problem.windows == 1 and problem.groups == 1
        shares = batch > 1 and problem.windows < WINDOWS_FEW and not self._is_lone_tap
        self._images = min(batch, -(-COLUMNS_MIN // problem.windows)) if shares else 1
        if self._is_lone_tap and self._is_direct and not self._are_vectors:
            # Small results of several images are made by one call, a product for each in it.
            self._images = max(1, min(batch, RESULT_ELEMENTS // (problem.filters * problem.windows)))
        self._rows, self._width = self._block_of()
        # The weights are copied for it, which pays where there are more windows than rows.
        self._has_ones = problem.has_bias and not self._is_lone_tap and problem.windows > problem.depth
        self._activation = None if problem.activation is None else activation(problem.activation)
        self._has_product = shares or problem.has_cast
        #: Long kernels on an input without padding: one copy from a view of all windows, instead of one a tap, each of
        #: which costs a microsecond. 256 taps and 4 windows (the transform in silero): 340 us by taps, 31 us like this.
        self._is_viewed = (
            problem.window.taps >= max(TAPS_MANY, problem.windows // 8)
            and not any(map(any, problem.window.pads))
            and not problem.has_cast
            and self._images == 1
            and self._rows == problem.outputs[0]
        )
        sizes = self._scratch_sizes(batch)
        #: Elements of scratch that a run needs, in the dtype of the arithmetic.
        self.scratch_size = sum(sizes)
        self._parts = [slice(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]
        self._blocks = [self._block(low) for low in range(0, problem.outputs[0], self._rows)]

    def _block_of(self) -> tuple[int, int]:
        """Rows of windows of a block, of nearly equal size, and windows of a row."""
        problem = self._problem
        first, width = problem.outputs[0], prod(problem.outputs[1:])
        if self._is_lone_tap or self._images > 1:
            return first, width
        columns = max(COLUMNS_MIN, BLOCK_ELEMENTS // (problem.groups * (problem.depth + 1)))
        blocks = -(-problem.windows // columns)
        return -(-first // min(blocks, first)), width

    def _scratch_sizes(self, batch: int) -> tuple[int, int, int, int, int]:
        """Elements of the weights, of the padded input, of the columns, of a product, and for the activation."""
        problem = self._problem
        columns = self._images * self._rows * self._width
        result = problem.filters * columns
        return (
            problem.filters * (problem.depth + self._has_ones) if self._has_ones or problem.has_cast else 0,
            0 if self._is_direct or self._is_viewed else self._images * problem.channels * self._layout.size,
            0 if self._is_lone_tap else problem.groups * (problem.depth + self._has_ones) * columns,
            result if self._has_product else 0,
            (problem.filters * batch if self._are_vectors else result) * needs_scratch(problem.activation),
        )

    def _block(self, low: int) -> tuple[int, slice, list[tuple[Any, ...]]]:
        """Rows of windows from ``low`` on: how many, the windows, and for each tap where in the padded input."""
        outputs = self._problem.outputs
        rows = min(self._rows, outputs[0] - low)
        sections = [
            tuple(
                slice(first, first + extent)
                for first, extent in zip((start[0] + low, *start[1:]), (rows, *outputs[1:]), strict=True)
            )
            for _, start in self._layout.taps
        ]
        places = [
            (slice(None), slice(None), *phase, *section)
            for (phase, _), section in zip(self._layout.taps, sections, strict=True)
        ]
        return rows, slice(low * self._width, (low + rows) * self._width), places

    def run(self, x: Any, weights: Any, bias: Any, out: Any, scratch: Any) -> None:
        """Convolve ``x`` of shape (n, channels, *extents) into ``out`` of shape (n, filters, *outputs)."""
        problem = self._problem
        parts = [scratch[part] for part in self._parts]
        matrix = self._weights_of(weights, bias, parts[0])
        if bias is not None:
            bias = bias.reshape(problem.groups, -1, 1)
        if self._are_vectors:
            self._run_vectors(x, matrix[0], bias, out, parts[4])
            return
        for first in range(0, x.shape[0], self._images):
            images = x[first : first + self._images]
            results = out[first : first + self._images]
            if self._images > 1 and self._is_lone_tap:
                self._run_together(images, matrix, bias, results, parts[4])
                continue
            if self._is_viewed:
                self._run_viewed(images[0], matrix, bias, results, parts[2:])
                continue
            padded = self._padded(images, parts[1])
            if self._is_lone_tap:
                self._run_lone_tap(padded, matrix, bias, results, parts[3:])
            else:
                self._run_blocks(padded, matrix, bias, results, parts[2:])

    def _weights_of(self, weights: Any, bias: Any, memory: Any) -> Any:
        """(groups, filters of a group, depth), with the bias behind where the columns have ones."""
        problem = self._problem
        shaped = weights.reshape(problem.groups, -1, problem.depth)
        if not memory.size:
            return shaped
        matrix = memory.reshape(problem.groups, -1, problem.depth + self._has_ones)
        matrix[:, :, : problem.depth] = shaped
        if self._has_ones:
            matrix[:, :, problem.depth] = bias.reshape(problem.groups, -1)
        return matrix

    def _padded(self, images: Any, memory: Any) -> Any:
        """(channels, images, *phases, *positions): the input itself where windows read it as it is."""
        count, shape = images.shape[0], self._layout.shape
        moved = images.swapaxes(0, 1)
        if self._is_direct:
            return moved[(slice(None), slice(None), *(None,) * len(shape[: len(shape) // 2]))]
        padded = memory[: moved.shape[0] * count * self._layout.size].reshape(moved.shape[0], count, *shape)
        for image in range(count):
            self._layout.fill(moved[:, image], padded[:, image])
        return padded

    def _run_blocks(self, padded: Any, matrix: Any, bias: Any, results: Any, memories: list[Any]) -> None:
        problem = self._problem
        groups, depth, outputs = problem.groups, problem.depth, problem.outputs
        channels, images = problem.channels // groups, padded.shape[1]
        for rows, at, places in self._blocks:
            count = images * rows * self._width
            columns = memories[0][: groups * matrix.shape[2] * count].reshape(groups, -1, count)
            spread = columns[:, :depth].reshape(groups, channels, problem.window.taps, images, rows, *outputs[1:])
            for tap, place in enumerate(places):
                source = padded[place]
                spread[:, :, tap] = source.reshape(groups, channels, *source.shape[1:]) if groups > 1 else source
            if self._has_ones:
                columns[:, depth] = 1
            self._multiply(matrix, columns, None if self._has_ones else bias, results, at, memories[1:])

    def _run_viewed(self, image: Any, matrix: Any, bias: Any, results: Any, memories: list[Any]) -> None:
        problem = self._problem
        groups, window = problem.groups, problem.window
        channel, *steps = image.strides
        shape = (problem.channels, *window.kernel, *problem.outputs)
        strides = (
            channel,
            *(step * apart for step, apart in zip(steps, window.dilation, strict=True)),
            *(step * stride for step, stride in zip(steps, window.strides, strict=True)),
        )
        if image.flags.c_contiguous:
            windows = np.ndarray(shape, image.dtype, image, 0, strides)
        else:
            windows = np.lib.stride_tricks.as_strided(image, shape, strides)
        columns = memories[0][: groups * matrix.shape[2] * problem.windows].reshape(groups, -1, problem.windows)
        if self._has_ones:
            for group, part in enumerate(np.split(windows, groups)):
                columns[group, : problem.depth].reshape(part.shape)[...] = part
            columns[:, problem.depth] = 1
        else:
            columns.reshape(shape)[...] = windows
        rest = None if self._has_ones else bias
        self._multiply(matrix, columns, rest, results, slice(0, problem.windows), memories[1:])

    def _run_lone_tap(self, padded: Any, matrix: Any, bias: Any, results: Any, memories: list[Any]) -> None:
        """The input is the columns. Cut by output channels."""
        problem = self._problem
        columns = padded.reshape(problem.groups, -1, problem.windows)
        filters = matrix.shape[1]
        step = filters
        if bias is not None or self._activation is not None:
            step = max(1, RESULT_ELEMENTS // (problem.groups * problem.windows * FILTERS_STEP)) * FILTERS_STEP
        whole = slice(0, problem.windows)
        grouped = results.reshape(results.shape[0], problem.groups, filters, -1)
        for low in range(0, filters, step):
            part = slice(low, low + step)
            self._multiply(
                matrix[:, part], columns, None if bias is None else bias[:, part], grouped[:, :, part], whole, memories
            )

    def _run_together(self, images: Any, matrix: Any, bias: Any, results: Any, memory: Any) -> None:
        """One tap, several images: a product for each image and group, of the input as it is."""
        problem = self._problem
        columns = images.reshape(images.shape[0], problem.groups, -1, problem.windows)
        product = results.reshape(images.shape[0], problem.groups, -1, problem.windows)
        np.matmul(matrix, columns, product)
        if bias is not None:
            np.add(product, bias, product)
        if self._activation is not None:
            self._activate(product, memory)

    def _multiply(self, matrix: Any, columns: Any, bias: Any, results: Any, at: slice, memories: list[Any]) -> None:
        """One product, its bias and its activation, into the windows ``at`` of ``results``."""
        groups, filters = matrix.shape[0], matrix.shape[1]
        images = results.shape[0]
        target = results.reshape(images, groups, filters, -1)[..., at]
        if self._has_product:
            count = columns.shape[2]
            product = memories[0][: groups * filters * count].reshape(groups, filters, count)
        else:
            product = target[0]
        np.matmul(matrix, columns, product)
        if bias is not None:
            np.add(product, bias, product)
        if self._activation is not None:
            self._activate(product, memories[1])
        if self._has_product:
            target[...] = product.reshape(groups, filters, images, -1).transpose(2, 0, 1, 3)

    def _activate(self, block: Any, memory: Any) -> None:
        assert self._activation is not None
        self._activation(block, memory[: block.size].reshape(block.shape) if memory.size else None)

    def _run_vectors(self, x: Any, matrix: Any, bias: Any, out: Any, memory: Any) -> None:
        result = out.reshape(out.shape[:2])
        np.matmul(x.reshape(x.shape[:2]), matrix.T, result)
        if bias is not None:
            np.add(result, bias[0, :, 0], result)
        if self._activation is not None:
            self._activate(result, memory)
