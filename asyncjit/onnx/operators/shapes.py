"""Operators that rearrange, join, cut and repeat.

Law: views wherever the layout allows; shapes and axes are known when a node is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import asyncjit.numpy as anp
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import Unsupported, operator

__all__: list[str] = []


def _ints(values: Host) -> tuple[int, ...]:
    return tuple(int(each) for each in values.reshape(-1))


@operator("Reshape", since=5, host=(1,))
def reshape(node: Node, x: Array, shape: Host) -> Array:
    wanted = _ints(shape)
    if not node.int("allowzero", 0):
        wanted = tuple(x.shape[axis] if extent == 0 else extent for axis, extent in enumerate(wanted))
    return x.reshape(wanted)


@operator("Reshape")
def old_reshape(node: Node, x: Array) -> Array:
    return reshape(node, x, np.array(node.ints("shape")))


@operator("Flatten")
def flatten(node: Node, x: Array) -> Array:
    axis = node.int("axis", 1)
    axis += x.ndim if axis < 0 else 0
    return x.reshape((_count(x.shape[:axis]), _count(x.shape[axis:])))


def _count(extents: Sequence[Any]) -> Any:
    result: Any = 1
    for extent in extents:
        result = result * extent
    return result


@operator("Transpose")
def transpose(node: Node, x: Array) -> Array:
    return x.transpose(node.ints("perm", None))


@operator("Squeeze", since=13, host=(1,))
def squeeze(node: Node, x: Array, axes: Host | None = None) -> Array:
    return x.squeeze(None if axes is None else _ints(axes))


@operator("Squeeze")
def old_squeeze(node: Node, x: Array) -> Array:
    return x.squeeze(node.ints("axes", None))


@operator("Unsqueeze", since=13, host=(1,))
def unsqueeze(node: Node, x: Array, axes: Host) -> Array:
    return anp.expand_dims(x, _ints(axes))


@operator("Unsqueeze")
def old_unsqueeze(node: Node, x: Array) -> Array:
    return anp.expand_dims(x, node.ints("axes"))


@operator("Expand", since=8, host=(1,))
def expand(node: Node, x: Array, shape: Host) -> Array:
    return anp.broadcast_to(x, anp.broadcast_shapes(x.shape, _ints(shape)))


@operator("Tile", since=6, host=(1,))
def tile(node: Node, x: Array, repeats: Host) -> Array:
    return anp.tile(x, _ints(repeats))


@operator("Tile", host=(1, 2))
def old_tile(node: Node, x: Array, tiles: Host, axis: Host) -> Array:
    counts = [1] * x.ndim
    counts[int(axis.item())] = int(tiles.item())
    return anp.tile(x, counts)


@operator("Concat", since=4)
def concat(node: Node, *arrays: Array) -> Array:
    return anp.concat(arrays, axis=node.int("axis"))


@operator("Concat")
def old_concat(node: Node, *arrays: Array) -> Array:
    return anp.concat(arrays, axis=node.int("axis", 1))


@operator("Split", host=(1,))
def split(node: Node, x: Array, lengths: Host | None = None) -> Any:
    """By lengths from an input or an attribute; else into equal parts, of which the last may be shorter."""
    axis = node.int("axis", 0)
    given = node.ints("split", ()) if lengths is None else _ints(lengths)
    if not given:
        parts = node.int("num_outputs", len(node.outputs))
        step = -(-x.shape[axis] // parts)
        given = tuple(min(step, max(x.shape[axis] - step * part, 0)) for part in range(parts))
    if sum(given) != x.shape[axis]:
        raise Unsupported(f"lengths {given} of axis {axis} of extent {x.shape[axis]}")
    return tuple(anp.split(x, np.cumsum(given)[:-1].tolist(), axis))


@operator("Slice", since=10, host=(1, 2, 3, 4))
def slice_(
    node: Node, x: Array, starts: Host, ends: Host, axes: Host | None = None, steps: Host | None = None
) -> Array:
    places = range(starts.size) if axes is None else _ints(axes)
    strides = (1,) * starts.size if steps is None else _ints(steps)
    key: list[slice] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(places, _ints(starts), _ints(ends), strides, strict=True):
        key[axis] = slice(start, end, step)
    return x[tuple(key)]


@operator("Slice")
def old_slice(node: Node, x: Array) -> Array:
    starts, ends = np.array(node.ints("starts")), np.array(node.ints("ends"))
    axes = np.array(node.ints("axes")) if node.has("axes") else None
    return slice_(node, x, starts, ends, axes)


@operator("Trilu", since=14, host=(1,))
def trilu(node: Node, x: Array, k: Host | None = None) -> Array:
    diagonal = 0 if k is None else int(k.item())
    return anp.triu(x, diagonal) if node.int("upper", 1) else anp.tril(x, diagonal)


@operator("ReverseSequence", since=10)
def reverse_sequence(node: Node, x: Array, lengths: Array) -> Array:
    """Of each sequence the first ``length`` steps backwards, the others as they are."""
    time_axis, batch_axis = node.int("time_axis", 0), node.int("batch_axis", 1)
    shape = [1] * x.ndim
    shape[time_axis] = x.shape[time_axis]
    step = anp.arange(x.shape[time_axis], device=x.device).reshape(shape)
    shape = [1] * x.ndim
    shape[batch_axis] = x.shape[batch_axis]
    length = lengths.astype("int64", copy=False).reshape(shape)
    return anp.take_along_axis(x, anp.where(step < length, length - 1 - step, step), axis=time_axis)
