"""Sequences and optionals: lists of values, and values that may be absent.

Law: structure only. How many elements there are is known when a node is recorded, whatever they hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

import asyncjit.numpy as anp
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import Unsupported, operator

__all__ = ["joined"]


@operator("SequenceConstruct", since=11, whole=True)
def sequence_construct(node: Node, run: Any, env: Any, *values: Any) -> Any:
    return (list(values),)


@operator("SequenceEmpty", since=11, whole=True)
def sequence_empty(node: Node, run: Any, env: Any) -> Any:
    return ([],)


@operator("SequenceLength", since=11, of_shapes=True)
def sequence_length(node: Node, sequence: Any) -> Host:
    return np.array(len(sequence), np.int64)


@operator("SequenceAt", since=11, host=(1,), whole=True)
def sequence_at(node: Node, run: Any, env: Any, sequence: Any, position: Host) -> Any:
    return (sequence[_position(sequence, position, len(sequence) - 1)],)


@operator("SequenceInsert", since=11, host=(2,), whole=True)
def sequence_insert(node: Node, run: Any, env: Any, sequence: Any, value: Any, position: Host | None = None) -> Any:
    place = len(sequence) if position is None else _position(sequence, position, len(sequence))
    return ([*sequence[:place], value, *sequence[place:]],)


@operator("SequenceErase", since=11, host=(1,), whole=True)
def sequence_erase(node: Node, run: Any, env: Any, sequence: Any, position: Host | None = None) -> Any:
    place = len(sequence) - 1 if position is None else _position(sequence, position, len(sequence) - 1)
    return ([*sequence[:place], *sequence[place + 1 :]],)


def _position(sequence: Any, position: Host, last: int) -> int:
    place = int(np.asarray(position).item())
    if not -len(sequence) <= place <= last:
        raise Unsupported(f"position {place} of a sequence of {len(sequence)}")
    return place + len(sequence) if place < 0 else place


@operator("SplitToSequence", since=11, host=(1,), whole=True)
def split_to_sequence(node: Node, run: Any, env: Any, x: Any, split: Host | None = None) -> Any:
    axis = node.int("axis", 0)
    extent = x.shape[axis]
    axis %= len(x.shape)
    if split is None or split.ndim == 0:
        size = 1 if split is None else int(split)
        if size < 1:
            raise Unsupported(f"parts of {size} elements")
        lengths = [min(size, extent - start) for start in range(0, extent, size)]
    else:
        lengths = [int(each) for each in split]
        if sum(lengths) != extent or min(lengths, default=0) < 0:
            raise Unsupported(f"parts of {lengths} along an axis of {extent}")
    stops = np.cumsum([0, *lengths]).tolist()
    lead = (slice(None),) * axis
    parts = [x[(*lead, slice(low, high))] for low, high in itertools.pairwise(stops)]
    if split is None and not node.int("keepdims", 1):
        parts = [part[(*lead, 0)] for part in parts]
    return (parts,)


@operator("ConcatFromSequence", since=11, whole=True)
def concat_from_sequence(node: Node, run: Any, env: Any, sequence: Any) -> Any:
    return joined(run, sequence, node.int("axis"), bool(node.int("new_axis", 0)))


def joined(run: Any, values: list[Any], axis: int, is_new: bool) -> Any:
    """``values`` along one axis, or along a new one; on the host where all of them are."""
    if not values:
        raise Unsupported("an empty sequence has no array to be joined to")
    if all(isinstance(each, np.ndarray) for each in values):
        return np.stack(values, axis) if is_new else np.concatenate(values, axis)
    arrays = [run.array(each) for each in values]
    return anp.stack(arrays, axis=axis) if is_new else anp.concatenate(arrays, axis=axis)


@operator("SequenceMap", since=17, whole=True)
def sequence_map(node: Node, run: Any, env: Mapping[str, Any], *values: Any) -> Any:
    body = node.graph("body")
    first, *others = values
    rows: list[list[Any]] = []
    for index, element in enumerate(first):
        rest = [each[index] if isinstance(each, list) else each for each in others]
        rows.append(run.graph(body, env, [element, *rest]))
    return tuple([row[place] for row in rows] for place in range(len(body.outputs)))


@operator("Optional", since=15, whole=True)
def optional(node: Node, run: Any, env: Any, value: Any = None) -> Any:
    return (value,)


@operator("OptionalGetElement", since=15, whole=True)
def optional_get_element(node: Node, run: Any, env: Any, value: Any) -> Any:
    if value is None:
        raise Unsupported("the optional has no element")
    return (value,)


@operator("OptionalHasElement", since=15, of_shapes=True)
def optional_has_element(node: Node, value: Any = None) -> Host:
    return np.array(value is not None)
