"""The demo's network: 64 inputs, one hidden layer, 10 classes; softmax cross entropy; momentum.

Law: formulas only, written over an array namespace ``xp`` (``asyncjit.numpy`` in the demo, ``numpy`` in its tests). No
data, no loop, no clock. ``oracle`` states the same formulas a second time and must not import this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["CLASSES", "HIDDEN", "MOMENTUM", "PIXELS", "gradients", "initial_weights", "scores", "update"]

PIXELS, HIDDEN, CLASSES = 64, 128, 10
MOMENTUM = 0.9

#: First weight, first bias, second weight, second bias. ``Any``, because the same code runs on two array types.
Weights = Sequence[Any]


def initial_weights(seed: int) -> list[np.ndarray]:
    """Normal weights scaled to the inputs of their layer (He et al. 2015), zero biases; float32."""
    random = np.random.default_rng(seed)
    first = random.standard_normal((PIXELS, HIDDEN)) * np.sqrt(2 / PIXELS)
    second = random.standard_normal((HIDDEN, CLASSES)) * np.sqrt(2 / HIDDEN)
    weights = (first, np.zeros(HIDDEN), second, np.zeros(CLASSES))
    return [weight.astype(np.float32) for weight in weights]


def scores(xp: Any, images: Any, weights: Weights) -> Any:
    """One row of class scores (logits) an image."""
    first, first_bias, second, second_bias = weights
    return xp.maximum(images @ first + first_bias, 0) @ second + second_bias


def gradients(xp: Any, images: Any, targets: Any, weights: Weights) -> tuple[Any, Weights]:
    """Mean cross entropy of a batch, and its gradient by each weight. ``targets`` are one-hot rows."""
    first, first_bias, second, second_bias = weights
    before = images @ first + first_bias
    hidden = xp.maximum(before, 0)
    logits = hidden @ second + second_bias
    # Shifting the scores of a row by its largest changes no probability and keeps exp from overflowing.
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    weight = xp.exp(shifted)
    total = xp.sum(weight, axis=-1, keepdims=True)
    loss = xp.mean(xp.sum((xp.log(total) - shifted) * targets, axis=-1))
    error = (weight / total - targets) / images.shape[0]
    hidden_error = xp.where(before > 0, error @ second.T, 0.0)
    return loss, (images.T @ hidden_error, xp.sum(hidden_error, axis=0), hidden.T @ error, xp.sum(error, axis=0))


def update(weights: Weights, velocities: Weights, slopes: Weights, rate: Any) -> None:
    """One step of gradient descent with momentum, in place."""
    for weight, velocity, slope in zip(weights, velocities, slopes, strict=True):
        velocity *= MOMENTUM
        velocity += slope
        weight -= rate * velocity
