"""Resizing: other numbers of elements along some axes, one axis after the other.

Law: one operation; where elements come from is in ``_resampling``.

Parameters: the axes as ``_resampling.Axis``, one for each axis of the operand or None, and the value of outputs whose
position is not in the input, where they are cropped. Axes that shrink go first, so that the others are short work; the
last axis, where elements move one by one, goes before others that grow. Along the last axis, weights are a matrix for
BLAS as long as it is small; along others, and where only the nearest counts, rows are taken and added up.

Time over that of ONNX Runtime 1.32, one thread each, float32, least of 15 runs in turns: nearest x 2 of 24x80x80 2.2,
of 256x13x13 1.5, x 8 of 24x20x20 0.3; linear x 2 of 64x40x40 1.2, x 0.5 of 3x640x640 2.0; cubic x 16 of 14x14 0.08.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._resampling import Axis, Table, table
from asyncjit.ops._spec import DType, NumPyKernel, Op, Params, Spec, register
from asyncjit.ops._windows import Extents, known
from asyncjit.ops.convolution import PLANS_MAX, arithmetic
from asyncjit.symbols import Int

__all__: list[str] = []

# A dense matrix does an output in extent / 35 ns, taking and adding two taps along the last axis in 4 ns or more.
MATRIX_EXTENT_MAX = 160
# Elements of the outputs of a block where taps are added up.
BLOCK_ELEMENTS = 1 << 16

Axes = tuple[Axis | None, ...]


class _Pass(NamedTuple):
    """One axis: the shapes before and after it as (outer, extent, inner), and how."""

    outer: int
    before: int
    after: int
    inner: int
    table: Table
    matrix: Any
    #: How often each element stands in a row, where nothing else happens.
    repeats: int = 0


def _dtype_of(dtype: DType, axes: Axes) -> DType:
    """The dtype of the arithmetic: that of the operand where elements are only moved."""
    if all(axis is None or axis.mode == "nearest" for axis in axes):
        return dtype
    if dtype.kind in "iub":
        return np.dtype(np.float64 if dtype.itemsize > 2 else np.float32)
    return arithmetic(dtype)


class _Plan:
    """How operands of one shape are resized."""

    def __init__(self, spec: Spec, axes: Axes) -> None:
        self._dtype, self._has_cast = _dtype_of(spec.dtype, axes), _dtype_of(spec.dtype, axes) != spec.dtype
        shape = list(known("resize", spec.shape))
        self._passes: list[_Pass] = []
        chosen = [(axis, place) for place, axis in enumerate(axes) if axis is not None]
        for axis, place in sorted(chosen, key=lambda pair: _turn(pair[0], pair[1], shape[pair[1]])):
            taps = table(axis, shape[place])
            inner, before = prod(shape[place + 1 :]), shape[place]
            matrix = None
            if taps.weights is not None and inner == 1 and before <= MATRIX_EXTENT_MAX:
                matrix = np.zeros((before, axis.outputs), self._dtype)
                rows = np.broadcast_to(np.arange(axis.outputs)[:, None], taps.positions.shape)
                np.add.at(matrix, (taps.positions, rows), taps.weights)
            step = _Pass(prod(shape[:place]), before, axis.outputs, inner, taps, matrix)
            self._passes.append(step._replace(repeats=_repeats(step) if taps.weights is None and before else 0))
            shape[place] = axis.outputs
        self._outside = [
            (*(slice(None),) * place, each.nonzero()[0])
            for axis, place in chosen
            if (each := table(axis, known("resize", spec.shape)[place]).outside).any()
        ]
        sizes = [each.outer * each.after * each.inner for each in self._passes]
        #: What stands between two passes, in turns; the operand and the result in another dtype; a block of taps.
        self._parts = [
            max(sizes[:-1:2], default=0),
            max(sizes[1:-1:2], default=0),
            spec.size * self._has_cast,
            (sizes[-1] if sizes else 0) * self._has_cast,
            max(map(_block_size, self._passes), default=0),
        ]

    @property
    def scratch(self) -> Spec:
        return Spec((max(1, sum(self._parts)),), self._dtype)

    def run(self, x: Any, value: float | None, out: Any, scratch: Any) -> None:
        ends = np.cumsum(self._parts).tolist()
        first, second, given, result, block = (
            scratch[end - size : end] for size, end in zip(self._parts, ends, strict=True)
        )
        source, target = x, out
        if self._has_cast:
            source, target = given.reshape(x.shape), result.reshape(out.shape)
            source[...] = x
        if not self._passes:
            out[...] = x
        for index, step in enumerate(self._passes):
            size = step.outer * step.after * step.inner
            memory = target if index + 1 == len(self._passes) else (second if index % 2 else first)[:size]
            if size:
                _resample(source, memory, step, block)
            source = memory
        if self._has_cast and self._passes:
            np.copyto(out, target, casting="unsafe")
        if value is not None:
            for place in self._outside:
                out[place] = value


def _turn(axis: Axis, place: int, extent: int) -> tuple[float, int]:
    growth = axis.outputs / max(1, extent)
    return growth, -place if growth > 1 else place


def _repeats(step: _Pass) -> int:
    """How often each element stands in a row along the last axis; 0 where that differs."""
    times = step.after // step.before
    expected = np.arange(step.after) // max(1, times)
    return times if step.inner == 1 and np.array_equal(step.table.positions[:, 0], expected) else 0


def _block_size(step: _Pass) -> int:
    """Elements of one tap of a block."""
    if step.matrix is not None or step.table.weights is None:
        return 0
    row = step.after * step.inner
    return row * max(1, min(step.outer, BLOCK_ELEMENTS // max(1, row)))


def _resample(source: Any, target: Any, step: _Pass, memory: Any) -> None:
    if step.matrix is not None:
        np.matmul(source.reshape(-1, step.before), step.matrix, target.reshape(-1, step.after))
        return
    source = source.reshape(step.outer, step.before, step.inner)
    target = target.reshape(step.outer, step.after, step.inner)
    positions, weights = step.table.positions, step.table.weights
    if weights is None:
        if step.repeats:
            # Half the time of taking elements one by one.
            for place in range(step.repeats):
                target[:, place :: step.repeats, 0] = source[:, :, 0]
            return
        # Positions are in bounds; with mode="raise" NumPy would make the result apart and copy it.
        source.take(positions[:, 0], 1, target, "clip")
        return
    rows = max(1, memory.size // (step.after * step.inner))
    factors = weights.astype(target.dtype)[:, :, None]
    for low in range(0, step.outer, rows):
        taken, total = source[low : low + rows], target[low : low + rows]
        tap = memory[: total.size].reshape(total.shape)
        for index in range(positions.shape[1]):
            into = tap if index else total
            taken.take(positions[:, index], 1, into, "clip")
            np.multiply(into, factors[:, index], into)
            if index:
                np.add(total, tap, total)


def _axes_of(params: Params) -> Axes:
    return tuple(None if axis is None else Axis(*cast("tuple[Any, ...]", axis)) for axis in cast(Axes, params[0]))


def _infer(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    (spec,) = specs
    axes = _axes_of(params)
    shape: list[Int] = list(spec.shape)
    for place, axis in enumerate(axes):
        if axis is not None:
            extent = known("resize", spec.shape)[place]
            if axis.outputs < 0 or (extent == 0) != (axis.outputs == 0):
                raise ValueError(f"resize: {extent} elements along axis {place} do not become {axis.outputs}")
            shape[place] = axis.outputs
    return Spec(tuple(shape), spec.dtype), _Plan(spec, axes).scratch


def _kernel(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    axes, value = _axes_of(params), cast("float | None", params[1])
    plans: dict[Extents, Callable[..., None]] = {}

    def run(x: Any, out: Any, scratch: Any) -> None:
        plan = plans.get(x.shape)
        if plan is None:
            if len(plans) >= PLANS_MAX:
                plans.clear()
            plan = plans[x.shape] = _Plan(Spec(x.shape, x.dtype), axes).run
        plan(x, value, out, scratch)

    return run


def _cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    taps = {"nearest": 1, "linear": 2, "cubic": 4}
    work = sum(taps[axis.mode] for axis in _axes_of(params) if axis is not None)
    return Cost(outputs[0].size * work, inputs[0].nbytes + outputs[0].nbytes)


register(Op(name="resize", infer=_infer, kernel=_kernel, cost=_cost))
