"""Losses of classification.

Law: compositions of functions of the namespace.
"""

from __future__ import annotations

from typing import Any

import asyncjit.numpy as anp
from asyncjit import nn
from asyncjit.numpy import Array
from asyncjit.onnx._model_data import Node
from asyncjit.onnx.operators._registry import operator

__all__: list[str] = []


def _loss(node: Node, log_probabilities: Array, target: Array, weights: Array | None) -> Array:
    """Minus the logarithm of the probability of each target's class, weighted by class, and reduced."""
    ignored = None
    if node.has("ignore_index"):
        ignored = target == node.int("ignore_index")
        target = anp.where(ignored, 0, target)
    picked = anp.take_along_axis(log_probabilities, anp.expand_dims(target, 1), axis=1)
    losses = -anp.squeeze(picked, 1)
    share = None if weights is None else anp.take(weights, target)
    if ignored is not None:
        share = anp.where(ignored, 0, 1 if share is None else share).astype(losses.dtype)
    if share is not None:
        losses = losses * share
    reduction = node.str("reduction", "mean")
    if reduction == "none":
        return losses
    if reduction == "mean":
        return losses.mean() if share is None else losses.sum() / share.sum()
    return losses.sum()


@operator("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood_loss(node: Node, x: Array, target: Array, weights: Array | None = None) -> Array:
    return _loss(node, x, target, weights)


@operator("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy_loss(node: Node, scores: Array, target: Array, weights: Array | None = None) -> Any:
    log_probabilities = nn.log_softmax(scores, 1)
    return _loss(node, log_probabilities, target, weights), log_probabilities
