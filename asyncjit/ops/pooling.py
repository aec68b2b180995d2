"""Pooling: the largest, the mean or a norm of what each window sees of each channel.

Law: shape and dtype rules, and kernels that go through channels in blocks; windows are slid by ``_sliding``.

Parameters begin with ``(kernel, strides, dilation, pads, ceil)``; ``ceil`` rounds the number of outputs up, as long as
the last window begins inside the input or the padding before it. Padding counts for nothing, but in a mean that is
told to count it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, cast

import numpy as np

from asyncjit.ir import Cost, Operand
from asyncjit.ops._sliding import SlidingFold
from asyncjit.ops._spec import DType, NumPyKernel, Op, Params, Spec, register, same_shape
from asyncjit.ops._windows import Extents, Pads, Window, known, seen
from asyncjit.ops.convolution import PLANS_MAX, arithmetic

__all__: list[str] = []

#: Blocks of channels: planes of the input, of the result, scratch.
Run = Callable[[Any, Any, Any], None]


def _window(name: str, spec: Spec, params: Params) -> tuple[Window, Extents, Extents]:
    """The window, the extents of the input and those of the output."""
    kernel, strides, dilation, pads, ceil = cast("tuple[Extents, Extents, Extents, Pads, bool]", params[:5])
    if len(spec.shape) != len(kernel) + 2:
        raise ValueError(
            f"{name}: expected shape (n, channels, *spatial) with {len(kernel)} spatial axes, given {spec.shape}"
        )
    extents = known(name, spec.shape[2:])
    window = Window(kernel, strides, dilation, pads)
    if not ceil:
        return window, extents, window.outputs(name, extents)
    room = tuple((low, high + stride - 1) for (low, high), stride in zip(pads, strides, strict=True))
    counts = Window(kernel, strides, dilation, room).outputs(name, extents)
    return (
        window,
        extents,
        tuple(
            max(1, min(count, -(-(extent + low) // stride)))
            for count, stride, extent, (low, _) in zip(counts, strides, extents, pads, strict=True)
        ),
    )


def _lowest(dtype: DType) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -np.inf


def _fold_of(name: str, spec: Spec, params: Params) -> SlidingFold:
    window, extents, outputs = _window(name, spec, params)
    if name == "max_pool":
        return SlidingFold(np.maximum, _lowest(spec.dtype), window, extents, outputs)
    return SlidingFold(np.add, 0, window, extents, outputs)


def _scratch_of(name: str, fold: SlidingFold, spec: Spec, outputs: Extents) -> tuple[int, DType]:
    """Elements and dtype of what is needed besides the result."""
    if name == "max_pool":
        return fold.scratch_size, spec.dtype
    size = fold.scratch_size
    dtype = arithmetic(spec.dtype)
    if dtype != spec.dtype:
        size += fold.planes * prod(outputs)
    if name == "lp_pool":
        size += fold.planes * prod(known(name, spec.shape[2:]))
    return size, dtype


def _infer(name: str, specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    (spec,) = specs
    if name != "max_pool" and spec.dtype.kind != "f":
        raise TypeError(f"{name}: expected floats, given {spec.dtype}: use astype")
    _, _, outputs = _window(name, spec, params)
    size, dtype = _scratch_of(name, _fold_of(name, spec, params), spec, outputs)
    return Spec((*spec.shape[:2], *outputs), spec.dtype), Spec((max(size, 1),), dtype)


def _counts(window: Window, extents: Extents, outputs: Extents, pads_count: bool, dtype: DType) -> Any:
    """How many taps of each window are inside the input, or inside the padded input."""
    counts = np.ones((1,) * len(outputs), np.int64)
    for axis, (extent, count) in enumerate(zip(extents, outputs, strict=True)):
        low, high = window.pads[axis] if pads_count else (0, 0)
        here = np.zeros(count, np.int64)
        for tap in range(window.kernel[axis]):
            shift = tap * window.dilation[axis] - window.pads[axis][0] + low
            here[seen(extent + low + high, count, window.strides[axis], shift)[0]] += 1
        counts = counts * here.reshape(tuple(-1 if each == axis else 1 for each in range(len(outputs))))
    return np.maximum(counts, 1).astype(dtype)


def _max(spec: Spec, params: Params) -> Run:
    return _fold_of("max_pool", spec, params).run


def _average(spec: Spec, params: Params) -> Run:
    window, extents, outputs = _window("average_pool", spec, params)
    fold = _fold_of("average_pool", spec, params)
    dtype = arithmetic(spec.dtype)
    counts = _counts(window, extents, outputs, bool(params[5]), dtype)
    has_cast = dtype != spec.dtype

    def run(planes: Any, out: Any, scratch: Any) -> None:
        total = scratch[fold.scratch_size :][: out.size].reshape(out.shape) if has_cast else out
        fold.run(planes, total, scratch)
        np.divide(total, counts, out=out, casting="unsafe")

    return run


def _lp(spec: Spec, params: Params) -> Run:
    fold, power = _fold_of("lp_pool", spec, params), cast(int, params[5])
    has_cast = arithmetic(spec.dtype) != spec.dtype

    def run(planes: Any, out: Any, scratch: Any) -> None:
        rest = scratch[fold.scratch_size :]
        powers = rest[: planes.size].reshape(planes.shape)
        total = rest[planes.size :][: out.size].reshape(out.shape) if has_cast else out
        np.absolute(planes, out=powers, casting="unsafe")
        if power == 2:
            np.square(powers, powers)
        elif power != 1:
            np.power(powers, power, powers)
        fold.run(powers, total, scratch)
        if power == 2:
            np.sqrt(total, out=out, casting="unsafe")
        elif power != 1:
            np.power(total, 1 / power, out=out, casting="unsafe")
        elif has_cast:
            out[...] = total

    return run


def _kernel(name: str, make: Callable[[Spec, Params], Run], params: Params, _: tuple[Operand, ...]) -> NumPyKernel:
    plans: dict[tuple[Any, ...], tuple[int, Run]] = {}

    def run(x: Any, out: Any, scratch: Any) -> None:
        known_plan = plans.get(x.shape[2:])
        if known_plan is None:
            if len(plans) >= PLANS_MAX:
                plans.clear()
            spec = Spec(x.shape, x.dtype)
            known_plan = plans[x.shape[2:]] = _fold_of(name, spec, params).planes, make(spec, params)
        step, plan = known_plan
        planes = x.reshape(-1, *x.shape[2:])
        results = out.reshape(-1, *out.shape[2:])
        for low in range(0, planes.shape[0], step):
            plan(planes[low : low + step], results[low : low + step], scratch)

    return run


def _cost(inputs: Sequence[Spec], outputs: Sequence[Spec], params: Params) -> Cost:
    taps = sum(cast(Extents, params[0]))
    return Cost(outputs[0].size * taps, inputs[0].nbytes + outputs[0].nbytes)


def _infer_indices(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    (spec,) = specs
    _, _, outputs = _window("max_pool", spec, params)
    shape = (*spec.shape[:2], *outputs)
    known("max_pool with indices", shape)
    return Spec(shape, spec.dtype), Spec(shape, np.dtype(np.int64)), Spec(shape, np.dtype(np.bool_))


class _Indices:
    """Tap by tap: where an element is larger than all before it, it and its index take their places."""

    def __init__(self, spec: Spec, params: Params) -> None:
        window, extents, outputs = _window("max_pool", spec, params)
        numbers: Any = np.arange(prod(extents))
        numbers = numbers.reshape(extents, order="F" if params[5] else "C")
        self._taps = []
        #: What stands where nothing is larger than the lowest there is: the first that the window sees.
        self._first = np.full(outputs, -1, np.int64)
        for tap in np.ndindex(*window.kernel):
            places = [
                seen(extent, count, stride, at * step - low)
                for extent, count, stride, at, step, (low, _) in zip(
                    extents, outputs, window.strides, tap, window.dilation, window.pads, strict=True
                )
            ]
            outside, inside = tuple(place for place, _ in places), tuple(place for _, place in places)
            self._taps.append(((..., *outside), (..., *inside), numbers[inside]))
            first = self._first[outside]
            np.copyto(first, numbers[inside], where=first < 0)
        shape = (*known("max_pool with indices", spec.shape[:2]), *(1,) * len(extents))
        self._planes = np.arange(0, prod(shape) * prod(extents), prod(extents)).reshape(shape)
        self._lowest = _lowest(spec.dtype)

    def run(self, x: Any, out: Any, indices: Any, larger: Any) -> None:
        out.fill(self._lowest)
        indices[...] = self._first
        for outside, inside, numbers in self._taps:
            source, best, mask = x[inside], out[outside], larger[outside]
            np.greater(source, best, out=mask)
            np.copyto(best, source, where=mask)
            np.copyto(indices[outside], numbers, where=mask)
        np.add(indices, self._planes, out=indices)


def _kernel_indices(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    plans: dict[tuple[Any, ...], Any] = {}

    def run(x: Any, out: Any, indices: Any, larger: Any) -> None:
        plan = plans.get(x.shape)
        if plan is None:
            plan = plans[x.shape] = _Indices(Spec(x.shape, x.dtype), params).run
        plan(x, out, indices, larger)

    return run


def _infer_unpool(specs: tuple[Spec, ...], params: Params) -> tuple[Spec, ...]:
    x, indices = specs
    if indices.dtype != np.int64 or not same_shape(x.shape, indices.shape):
        raise ValueError(
            f"max_unpool: expected int64 indices of shape {x.shape}, given {indices.dtype} of shape {indices.shape}"
        )
    return (Spec(cast(Extents, params), x.dtype),)


def _unpool(params: Params, operands: tuple[Operand, ...]) -> NumPyKernel:
    def run(x: Any, indices: Any, out: Any) -> None:
        out.fill(0)
        out.reshape(-1)[indices.reshape(-1)] = x.reshape(-1)

    return run


for _name, _make in (("max_pool", _max), ("average_pool", _average), ("lp_pool", _lp)):
    register(Op(name=_name, infer=partial(_infer, _name), kernel=partial(_kernel, _name, _make), cost=_cost))
register(Op(name="max_pool_indices", infer=_infer_indices, kernel=_kernel_indices, cost=_cost))
register(Op(name="max_unpool", infer=_infer_unpool, kernel=_unpool))
