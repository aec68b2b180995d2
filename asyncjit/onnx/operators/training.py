"""Steps of optimisers. (Gradients are not supported.)

Law: compositions of functions of the namespace; parameters are the rate, the number of updates before, then tensors,
gradients and states, each group as long as the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncjit.numpy as anp
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Node
from asyncjit.onnx.operators._registry import Unsupported, operator

__all__: list[str] = []

DOMAIN = "ai.onnx.preview.training"


def _groups(tensors: Sequence[Array], kinds: int) -> list[tuple[Array, ...]]:
    """What belongs to each tensor: itself, its gradient, its states."""
    count = len(tensors) // kinds
    return [tensors[at::count] for at in range(count)]  # type: ignore[misc]


def _grouped(results: Sequence[Sequence[Array]], like: Sequence[Array]) -> tuple[Array, ...]:
    return tuple(each.astype(like[0].dtype, copy=False) for kind in zip(*results, strict=True) for each in kind)


@operator("Adagrad", domain=DOMAIN)
def adagrad(node: Node, rate: Array, count: Array, *tensors: Array) -> Any:
    """Duchi, Hazan and Singer, 2011."""
    decayed = rate / (1 + count * node.float("decay_factor", 0.0))
    results = []
    for x, gradient, squares in _groups(tensors, 3):
        slope = gradient + node.float("norm_coefficient", 0.0) * x
        total = squares + slope * slope
        results.append((x - decayed * slope / (anp.sqrt(total) + node.float("epsilon", 0.0)), total))
    return _grouped(results, tensors)


@operator("Adam", domain=DOMAIN)
def adam(node: Node, rate: Array, count: Array, *tensors: Array) -> Any:
    """Kingma and Ba, 2014."""
    alpha, beta = node.float("alpha", 0.9), node.float("beta", 0.999)
    times = count.astype(tensors[0].dtype)
    # Before the first update there is nothing to correct.
    known = anp.where(count > 0, times, 1)
    corrected = anp.where(count > 0, rate * anp.sqrt(1 - beta**known) / (1 - alpha**known), rate)
    results = []
    for x, gradient, mean, square in _groups(tensors, 4):
        slope = gradient + node.float("norm_coefficient", 0.0) * x
        new_mean = alpha * mean + (1 - alpha) * slope
        new_square = beta * square + (1 - beta) * slope * slope
        moved = x - corrected * new_mean / (anp.sqrt(new_square) + node.float("epsilon", 0.0))
        results.append(((1 - node.float("norm_coefficient_post", 0.0)) * moved, new_mean, new_square))
    return _grouped(results, tensors)


@operator("Momentum", domain=DOMAIN)
def momentum(node: Node, rate: Array, count: Array, *tensors: Array) -> Any:
    """Polyak, 1964; with ``mode`` nesterov, Nesterov, 1983."""
    mode = node.str("mode")
    if mode not in ("standard", "nesterov"):
        raise Unsupported(f"mode={mode!r}; known are 'standard' and 'nesterov'")
    alpha = node.float("alpha")
    fresh = anp.where(count > 0, node.float("beta"), 1.0).astype(tensors[0].dtype)
    results = []
    for x, gradient, velocity in _groups(tensors, 3):
        slope = gradient + node.float("norm_coefficient", 0.0) * x
        moved = alpha * velocity + fresh * slope
        results.append((x - rate * (moved if mode == "standard" else slope + alpha * moved), moved))
    return _grouped(results, tensors)
