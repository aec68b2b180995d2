"""Reductions, and positions of extremes.

Law: axes are attributes or an input, by opset; the dtype stays. Over no element a reduction has the value that changes
nothing: 0 for sums, 1 for products, the ends of the number line for extremes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import asyncjit.numpy as anp
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import operator

__all__: list[str] = []

#: Of an array, axes and keepdims.
Reduction = Callable[[Array, Any, bool], Array]


def _total(x: Array, axes: Any, keepdims: bool) -> Array:
    return anp.sum(x, axes, x.dtype, keepdims=keepdims)


def _product(x: Array, axes: Any, keepdims: bool) -> Array:
    return anp.prod(x, axes, x.dtype, keepdims=keepdims)


def _mean(x: Array, axes: Any, keepdims: bool) -> Array:
    return anp.mean(x, axes, keepdims=keepdims).astype(x.dtype, copy=False)


def _extreme(name: str, x: Array, axes: Any, keepdims: bool) -> Array:
    folded = range(x.ndim) if axes is None else [axis % x.ndim for axis in axes]
    if all(x.shape[axis] for axis in folded):
        return x.max(axes, keepdims=keepdims) if name == "max" else x.min(axes, keepdims=keepdims)
    shape = [1 if axis in folded else extent for axis, extent in enumerate(x.shape)]
    if not keepdims:
        shape = [extent for axis, extent in enumerate(x.shape) if axis not in folded]
    return anp.full(shape, _end(x.dtype, name == "max"), x.dtype, device=x.device)


def _end(dtype: np.dtype[Any], low: bool) -> Any:
    if dtype.kind == "b":
        return not low
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if low else np.iinfo(dtype).max
    return float("-inf") if low else float("inf")


def _maximum(x: Array, axes: Any, keepdims: bool) -> Array:
    return _extreme("max", x, axes, keepdims)


def _minimum(x: Array, axes: Any, keepdims: bool) -> Array:
    return _extreme("min", x, axes, keepdims)


def _root(x: Array, axes: Any, keepdims: bool) -> Array:
    return anp.sqrt(_total(anp.square(x), axes, keepdims)).astype(x.dtype, copy=False)


def _log(x: Array, axes: Any, keepdims: bool) -> Array:
    return anp.log(_total(x, axes, keepdims)).astype(x.dtype, copy=False)


def _log_exp(x: Array, axes: Any, keepdims: bool) -> Array:
    """By the largest element, so that nothing overflows; infinite ones are left to the exponential."""
    wide = x if x.dtype.kind == "f" else x.astype("float64")
    largest = _maximum(wide, axes, True)
    shift = anp.where(anp.isfinite(largest), largest, 0)
    total = _total(anp.exp(wide - shift), axes, keepdims)
    return (anp.log(total) + shift.reshape(total.shape)).astype(x.dtype, copy=False)


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceL1": lambda x, axes, keepdims: _total(anp.abs(x), axes, keepdims),
    "ReduceL2": _root,
    "ReduceLogSum": _log,
    "ReduceLogSumExp": _log_exp,
    "ReduceMax": _maximum,
    "ReduceMean": _mean,
    "ReduceMin": _minimum,
    "ReduceProd": _product,
    "ReduceSum": _total,
    "ReduceSumSquare": lambda x, axes, keepdims: _total(anp.square(x), axes, keepdims),
}

for _name, _function in _REDUCTIONS.items():

    def _by_attribute(node: Node, x: Array, function: Reduction = _function) -> Array:
        axes = node.ints("axes", None)
        return function(x, axes, bool(node.int("keepdims", 1)))

    def _by_input(node: Node, x: Array, axes: Host | None = None, function: Reduction = _function) -> Array:
        given = [] if axes is None else axes.tolist()
        return function(x, given if given or node.int("noop_with_empty_axes") else None, bool(node.int("keepdims", 1)))

    operator(_name)(_by_attribute)
    operator(_name, since=13 if _name == "ReduceSum" else 18, host=(1,))(_by_input)


for _name, _arg in {"ArgMax": anp.argmax, "ArgMin": anp.argmin}.items():

    def _position(node: Node, x: Array, function: Callable[..., Array] = _arg) -> Array:
        axis, keepdims = node.int("axis", 0), bool(node.int("keepdims", 1))
        if not node.int("select_last_index"):
            return function(x, axis=axis, keepdims=keepdims)
        from_end = function(anp.flip(x, axis), axis=axis, keepdims=keepdims)
        return anp.subtract(x.shape[axis] - 1, from_end)

    operator(_name)(_position)
