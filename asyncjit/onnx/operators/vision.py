"""Convolution and pooling, and what rearranges pixels.

Law: translates attributes; the functions are those of ``asyncjit.nn``.
"""

from __future__ import annotations

from typing import Any

import asyncjit.numpy as anp
from asyncjit import nn
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Node
from asyncjit.onnx.operators._registry import Unsupported, operator

__all__: list[str] = []


def padding(node: Node, axes: int) -> Any:
    """The attributes ``auto_pad`` and ``pads``, as the functions of ``nn`` take padding."""
    rule = node.str("auto_pad", "NOTSET")
    if rule in ("NOTSET", ""):
        pads = node.ints("pads", (0,) * (2 * axes))
        if len(pads) != 2 * axes:
            raise Unsupported(f"expected {2 * axes} pads for {axes} spatial axes, given {pads}")
        return tuple(zip(pads[:axes], pads[axes:], strict=True))
    if rule not in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        raise Unsupported(f"auto_pad is NOTSET, SAME_UPPER, SAME_LOWER or VALID, given {rule!r}")
    return rule.lower()


def _window(node: Node, x: Array) -> dict[str, Any]:
    axes = x.ndim - 2
    return {
        "strides": node.ints("strides", (1,) * axes),
        "dilation": node.ints("dilations", (1,) * axes),
        "padding": padding(node, axes),
    }


@operator("Conv")
def conv(node: Node, x: Array, weights: Array, bias: Array | None = None) -> Array:
    return nn.conv(x, weights, bias, groups=node.int("group", 1), **_window(node, x))


@operator("FusedConv", domain="com.microsoft")
def fused_conv(node: Node, x: Array, weights: Array, bias: Array | None = None, added: Array | None = None) -> Array:
    """A convolution, plus ``added``, through an activation."""
    name = node.str("activation")
    word = {"LeakyRelu": "leaky_relu", "HardSigmoid": "hard_sigmoid", "HardSwish": "hard_swish", "Swish": "silu"}
    numbers = node.floats("activation_params")
    activation: tuple[str | float, ...] | None = (word.get(name, name.lower()), *numbers) if name else None
    if added is not None:
        if activation not in (None, ("relu",)):
            raise Unsupported(f"a sum before the activation {name}")
        result = nn.conv(x, weights, bias, groups=node.int("group", 1), **_window(node, x)) + added
        return result if activation is None else nn.relu(result)
    return nn.conv(x, weights, bias, groups=node.int("group", 1), activation=activation, **_window(node, x))


@operator("ConvTranspose")
def conv_transpose(node: Node, x: Array, weights: Array, bias: Array | None = None) -> Array:
    return nn.conv_transpose(
        x,
        weights,
        bias,
        groups=node.int("group", 1),
        output_padding=node.ints("output_padding", (0,) * (x.ndim - 2)),
        output_shape=node.ints("output_shape")[2 - x.ndim :] if node.has("output_shape") else None,
        **_window(node, x),
    )


def _pool(node: Node, x: Array) -> dict[str, Any]:
    return {"kernel": node.ints("kernel_shape"), "ceil": bool(node.int("ceil_mode", 0)), **_window(node, x)}


@operator("MaxPool")
def max_pool(node: Node, x: Array) -> Any:
    if len(node.outputs) < 2 or not node.outputs[1]:
        return nn.max_pool(x, **_pool(node, x))
    return nn.max_pool_with_indices(x, column_major=bool(node.int("storage_order", 0)), **_pool(node, x))


@operator("AveragePool")
def average_pool(node: Node, x: Array) -> Array:
    return nn.average_pool(x, count_padding=bool(node.int("count_include_pad", 0)), **_pool(node, x))


@operator("LpPool", since=2)
def lp_pool(node: Node, x: Array) -> Array:
    return nn.lp_pool(x, p=node.int("p", 2), **_pool(node, x))


@operator("GlobalMaxPool")
def global_max_pool(node: Node, x: Array) -> Array:
    return nn.global_max_pool(x)


@operator("GlobalAveragePool")
def global_average_pool(node: Node, x: Array) -> Array:
    return nn.global_average_pool(x)


@operator("GlobalLpPool", since=2)
def global_lp_pool(node: Node, x: Array) -> Array:
    return nn.global_lp_pool(x, p=node.int("p", 2))


@operator("MaxUnpool", since=9, host=(2,))
def max_unpool(node: Node, x: Array, indices: Array, shape: Any = None) -> Array:
    """Indices count in the result that the window implies, whatever shape is asked for; that has more room behind."""
    axes = x.ndim - 2
    strides = node.ints("strides", (1,) * axes)
    pads = node.ints("pads", (0,) * (2 * axes))
    spatial = [
        (extent - 1) * stride + taps - low - high
        for extent, stride, taps, low, high in zip(
            x.shape[2:], strides, node.ints("kernel_shape"), pads[:axes], pads[axes:], strict=True
        )
    ]
    implied = (*x.shape[:2], *spatial)
    result = nn.max_unpool(x, indices, implied)
    wanted = implied if shape is None else tuple(map(int, shape))
    if wanted == implied:
        return result
    whole = anp.zeros(wanted, x.dtype)
    whole[tuple(slice(0, extent) for extent in implied)] = result
    return whole


@operator("DepthToSpace")
def depth_to_space(node: Node, x: Array) -> Array:
    return nn.depth_to_space(x, node.int("blocksize"), order=node.str("mode", "DCR"))  # type: ignore[arg-type]


@operator("SpaceToDepth")
def space_to_depth(node: Node, x: Array) -> Array:
    return nn.space_to_depth(x, node.int("blocksize"), order=node.str("mode", "DCR"))  # type: ignore[arg-type]


@operator("DeformConv", since=19)
def deform_conv(node: Node, x: Array, weights: Array, offset: Array, bias: Any = None, mask: Any = None) -> Array:
    groups = {"groups": node.int("group", 1), "offset_groups": node.int("offset_group", 1)}
    return nn.deform_conv(x, weights, offset, bias, mask, **groups, **_window(node, x))


@operator("LRN")
def lrn(node: Node, x: Array) -> Array:
    """Channels are averaged as if they were an axis of space; those beyond the ends count as zeros."""
    size = node.int("size")
    flat = anp.square(x).reshape(x.shape[0], 1, x.shape[1], -1)
    pads = (((size - 1) // 2, size - 1 - (size - 1) // 2), (0, 0))
    means = nn.average_pool(flat, (size, 1), padding=pads, count_padding=True).reshape(x.shape)
    return x / anp.pow(means * node.float("alpha", 1e-4) + node.float("bias", 1.0), node.float("beta", 0.75))
