"""Operators that read or write at positions.

Law: indices may be values of a replay; where they are known and one, the result is a view. Where the number of
elements of a result depends on values, the host does it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncjit.numpy as anp
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import ALL, operator

__all__: list[str] = []


@operator("Gather", known=(1,))
def gather(node: Node, x: Array, indices: Array | Host) -> Array:
    axis = node.int("axis", 0)
    if isinstance(indices, np.ndarray) and indices.ndim == 0:
        return x[(*(slice(None),) * (axis % x.ndim), int(indices))]
    return anp.take(x, indices, axis=axis)


@operator("GatherElements", since=11)
def gather_elements(node: Node, x: Array, indices: Array) -> Array:
    axis = node.int("axis", 0) % x.ndim
    key = tuple(slice(None) if place == axis else slice(extent) for place, extent in enumerate(indices.shape))
    return anp.take_along_axis(x[key], indices, axis=axis)


@operator("GatherND", since=11)
def gather_nd(node: Node, x: Array, indices: Array) -> Array:
    return anp.gather_nd(x, indices, batch_ndim=node.int("batch_dims", 0))


@operator("Scatter", since=9)
@operator("ScatterElements", since=11)
def scatter_elements(node: Node, x: Array, indices: Array, updates: Array) -> Array:
    return anp.scatter_along_axis(
        x, indices, updates, axis=node.int("axis", 0), reduction=node.str("reduction", "none")
    )


@operator("ScatterND", since=11)
def scatter_nd(node: Node, x: Array, indices: Array, updates: Array) -> Array:
    return anp.scatter_nd(x, indices, updates, reduction=node.str("reduction", "none"))


@operator("TensorScatter", since=24)
def tensor_scatter(node: Node, cache: Array, update: Array, starts: Array | None = None) -> Array:
    """Each sample of ``update`` goes into its sample of ``cache`` from its start on along ``axis``."""
    axis = node.int("axis", -2) % cache.ndim
    steps = anp.arange(update.shape[axis], device=cache.device)
    shape = [1] * cache.ndim
    shape[axis] = update.shape[axis]
    places = steps.reshape(shape)
    if starts is not None:
        places = places + starts.astype("int64", copy=False).reshape((-1, *(1,) * (cache.ndim - 1)))
    if node.str("mode", "linear") == "circular":
        places = anp.remainder(places, cache.shape[axis])
    return anp.scatter_along_axis(cache, anp.broadcast_to(places, update.shape), update, axis=axis)


@operator("TopK", since=10, host=(1,))
def top_k(node: Node, x: Array, k: Host) -> tuple[Array, Array]:
    return anp.top_k(x, int(k.item()), axis=node.int("axis", -1), largest=bool(node.int("largest", 1)))


@operator("TopK")
def old_top_k(node: Node, x: Array) -> tuple[Array, Array]:
    return anp.top_k(x, node.int("k"), axis=node.int("axis", -1))


@operator("OneHot", since=9, host=(1,))
def one_hot(node: Node, indices: Array, depth: Host, values: Array) -> Array:
    index = indices.astype("int64", copy=False)
    return anp.one_hot(
        index, int(depth.item()), axis=node.int("axis", -1), dtype=values.dtype, off=values[0], on=values[1]
    )


@operator("Compress", since=9, host=(1,))
def compress(node: Node, x: Array, condition: Host) -> Array:
    kept = np.flatnonzero(condition)
    return anp.take(x, kept, axis=node.int("axis", None))


@operator("NonZero", since=9, host=ALL)
def non_zero(node: Node, x: Host) -> Host:
    # Of a number ONNX wants as many columns as ever, and no row.
    return np.array(np.nonzero(x), np.int64) if x.ndim else np.zeros((0, int(bool(x))), np.int64)


@operator("Unique", since=11, host=ALL)
def unique(node: Node, x: Host) -> Any:
    """Distinct slices: values, where each comes first, of each slice the position of its value, and counts."""
    axis = node.int("axis", None)
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.reshape(-1)
    if not node.int("sorted", 1):
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], place[inverse]
    return values, *(each.astype(np.int64) for each in (first, inverse, counts))
