"""Convolution.

Law: prepares arguments for the entries in ``ops``; what a capture knows is checked here or there, before anything runs.
"""

from __future__ import annotations

from collections.abc import Hashable

from asyncjit.nn._arguments import Padding, PerAxis, contiguous, pads_of, per_axis, spatial
from asyncjit.numpy._array import Array
from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.ops.activations import ACTIVATIONS

__all__ = ["conv"]


def _fused(name: str, activation: str | tuple[str | float, ...] | None) -> tuple[Hashable, ...] | None:
    """An activation as the entries in ``ops`` take it: a name and numbers."""
    if activation is None:
        return None
    word, *numbers = (activation,) if isinstance(activation, str) else activation
    if ACTIVATIONS.get(str(word)) != len(numbers):
        known = ", ".join(f"{each} ({count} numbers)" for each, count in ACTIVATIONS.items())
        raise ValueError(f"{name}: no activation {activation!r}; known are {known}")
    return (str(word), *map(float, numbers))


def conv(
    x: ArrayLike,
    weights: ArrayLike,
    bias: ArrayLike | None = None,
    /,
    *,
    strides: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    activation: str | tuple[str | float, ...] | None = None,
) -> Array:
    """Correlate ``x`` with ``weights`` over the spatial axes, as the layers called convolution do.

    ``x`` has shape ``(n, channels, *spatial)``, ``weights`` ``(filters, channels / groups, *kernel)``, ``bias``
    ``(filters,)``; all have one dtype. The result has shape ``(n, filters, *outputs)`` and that dtype, with
    ``(extent + padding - dilation * (kernel - 1) - 1) // stride + 1`` outputs along an axis. Sums of halves are done in
    float32. Positions in the padding count as 0.

    ``activation`` is applied to parts of the result while they are in cache: ``"relu"``, ``"sigmoid"``, ``"silu"``,
    ``"hard_swish"``, ``"tanh"``, ``("clip", low, high)``, ``("leaky_relu", slope)`` or
    ``("hard_sigmoid", factor, offset)``.

    Raises:
        ValueError: shapes that do not fit, or a window larger than the padded input. TypeError: several dtypes.
    """
    array, axes = spatial("conv", x)
    kernels = contiguous(weights)
    steps = per_axis("conv", "strides", strides, axes)
    spread = per_axis("conv", "dilation", dilation, axes)
    reach = [(taps - 1) * step + 1 for taps, step in zip(kernels.shape[2:], spread, strict=False)]
    pads = pads_of("conv", padding, array.shape[2:], reach, steps)
    operands = [array, kernels] if bias is None else [array, kernels, contiguous(bias)]
    result: Array
    result, _ = apply("conv", operands, (steps, spread, pads, groups, _fused("conv", activation)))
    return result
