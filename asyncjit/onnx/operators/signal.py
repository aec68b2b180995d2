"""Fourier transforms, and the matrix of the mel scale.

Law: attributes and inputs that say how much; what computes is in ``asyncjit.nn``.
"""

from __future__ import annotations

import numpy as np

from asyncjit import nn
from asyncjit.numpy import Array
from asyncjit.onnx._dtypes import dtype_of_code
from asyncjit.onnx._model_data import Host, Node
from asyncjit.onnx.operators._registry import ALL, operator

__all__: list[str] = []


@operator("DFT", since=17, host=(1,))
def dft_along_attribute(node: Node, x: Array, length: Host | None = None) -> Array:
    return _dft(node, x, length, node.int("axis", 1))


@operator("DFT", since=20, host=(1, 2))
def dft(node: Node, x: Array, length: Host | None = None, axis: Host | None = None) -> Array:
    return _dft(node, x, length, -2 if axis is None else int(axis.item()))


def _dft(node: Node, x: Array, length: Host | None, axis: int) -> Array:
    count = None if length is None else int(length.item())
    inverse, onesided = bool(node.int("inverse", 0)), bool(node.int("onesided", 0))
    return nn.dft(x, count, axis=axis, inverse=inverse, onesided=onesided)


@operator("STFT", since=17, host=(1, 3))
def stft(node: Node, x: Array, step: Host, window: Array | None = None, length: Host | None = None) -> Array:
    count = None if length is None else int(length.item())
    signal = x if x.ndim == 3 else x.reshape(*x.shape, 1)
    return nn.stft(signal, int(step.item()), window=window, length=count, onesided=bool(node.int("onesided", 1)))


@operator("MelWeightMatrix", since=17, host=ALL)
def mel_weight_matrix(node: Node, bins: Host, length: Host, rate: Host, low: Host, high: Host) -> Host:
    """Triangles on the frequencies of a transform of ``length``, evenly spread on the mel scale between two edges."""
    count, size = int(bins), int(length)
    edges = [2595 * np.log10(1 + float(edge) / 700) for edge in (low, high)]
    steps = np.arange(count + 2) * ((edges[1] - edges[0]) / (count + 2)) + edges[0]
    hertz = 700 * (10 ** (steps / 2595) - 1)
    points = ((size + 1) * hertz // float(rate)).astype(int)
    matrix = np.zeros((size // 2 + 1, count))
    for column in range(count):
        left, centre, right = points[column : column + 3]
        if left == centre:
            matrix[centre, column] = 1
        else:
            rising = np.arange(left, centre + 1)
            matrix[rising, column] = (rising - left) / (centre - left)
        falling = np.arange(centre, right)
        matrix[falling, column] = (right - falling) / max(right - centre, 1)
    code = node.int("output_datatype", 1)
    return matrix.astype(dtype_of_code(code))
