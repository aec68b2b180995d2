"""Softmax, the normalisations, and dropout.

Law: attributes and versions only; what computes is in ``asyncjit.nn``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import asyncjit.numpy as anp
from asyncjit import nn, random
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import Unsupported, operator

__all__: list[str] = []

for _name, _function in {"Softmax": nn.softmax, "LogSoftmax": nn.log_softmax}.items():

    def _flattened(node: Node, x: Array, function: Any = _function) -> Array:
        """Before opset 13 all axes from ``axis`` on are one."""
        axis = node.int("axis", 1) % max(x.ndim, 1)
        rows = x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
        return function(rows, 1).reshape(x.shape)  # type: ignore[no-any-return]

    def _along_axis(node: Node, x: Array, function: Any = _function) -> Array:
        return function(x, node.int("axis", -1))  # type: ignore[no-any-return]

    operator(_name)(_flattened)
    operator(_name, since=13)(_along_axis)


@operator("BatchNormalization")
def batch_normalization(node: Node, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Any:
    epsilon = node.float("epsilon", 1e-5)
    if not node.int("training_mode", 0):
        if any(node.outputs[1:]):
            raise Unsupported(
                "statistics of the batch are wanted without training_mode; export the model for inference"
            )
        return nn.batch_norm(x, scale, bias, mean, variance, epsilon=epsilon)
    momentum = node.float("momentum", 0.9)
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    batch_mean, batch_variance = anp.mean(x, axes), anp.var(x, axes)
    out = nn.batch_norm(x, scale, bias, batch_mean, batch_variance, epsilon=epsilon)
    running = [
        (old * momentum + new * (1 - momentum)).astype(old.dtype, copy=False)
        for old, new in ((mean, batch_mean), (variance, batch_variance))
    ]
    return out, *running


@operator("InstanceNormalization")
def instance_normalization(node: Node, x: Array, scale: Array, bias: Array) -> Array:
    return nn.instance_norm(x, scale, bias, epsilon=node.float("epsilon", 1e-5))


@operator("LayerNormalization", since=17)
def layer_normalization(node: Node, x: Array, scale: Array, bias: Array | None = None) -> Any:
    return nn.layer_norm_with_statistics(x, scale, bias, axis=node.int("axis", -1), epsilon=node.float("epsilon", 1e-5))


@operator("GroupNormalization", since=18)
def group_normalization_by_group(node: Node, x: Array, scale: Array, bias: Array) -> Array:
    """A factor and a summand a group; from 21 on they are a channel's."""
    groups = node.int("num_groups")
    each = x.shape[1] // groups
    factor, summand = anp.repeat(scale, each), anp.repeat(bias, each)
    return nn.group_norm(x, groups, factor, summand, epsilon=node.float("epsilon", 1e-5))


@operator("GroupNormalization", since=21)
def group_normalization(node: Node, x: Array, scale: Array, bias: Array) -> Array:
    return nn.group_norm(x, node.int("num_groups"), scale, bias, epsilon=node.float("epsilon", 1e-5))


@operator("RMSNormalization", since=23)
def rms_normalization(node: Node, x: Array, scale: Array) -> Array:
    return nn.rms_norm(x, scale, axis=node.int("axis", -1), epsilon=node.float("epsilon", 1e-5))


@operator("LpNormalization")
def lp_normalization(node: Node, x: Array) -> Array:
    return nn.lp_norm(x, p=node.int("p", 2), axis=node.int("axis", -1))


@operator("MeanVarianceNormalization", since=9)
def mean_variance_normalization(node: Node, x: Array) -> Array:
    return nn.mean_variance_norm(x, axes=node.ints("axes", (0, 2, 3)))


@operator("Dropout")
def dropout_of_inference(node: Node, x: Array) -> Any:
    return _all_kept(node, x)


def _all_kept(node: Node, x: Array) -> Any:
    # Before opset 10 the mask has the type of the values.
    return (x, anp.ones(x.shape, "bool" if node.opset >= 10 else x.dtype)) if any(node.outputs[1:]) else x


@operator("Dropout", since=12, host=(1, 2), is_pure=False)
def dropout(node: Node, x: Array, ratio: Host | None = None, training_mode: Host | None = None) -> Any:
    """With a seed the mask is the same in each run, and that of ONNX's reference; without one each run draws anew."""
    rate = 0.5 if ratio is None else float(ratio)
    if training_mode is None or not training_mode.item() or rate == 0:
        return _all_kept(node, x)
    if node.has("seed"):
        kept = anp.asarray(np.random.RandomState(node.int("seed")).uniform(0, 1, x.shape) >= rate)
    else:
        kept = random.bernoulli(1 - rate, x.shape)
    return anp.where(kept, x, 0) * (1 / (1 - rate)), kept
