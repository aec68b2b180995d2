"""Convolution.

Law: prepares arguments for the entries in ``ops``; what a capture knows is checked here or there, before anything runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from asyncjit.nn._arguments import Padding, PerAxis, contiguous, pads_of, per_axis, spatial
from asyncjit.numpy._array import Array
from asyncjit.numpy._dispatch import apply
from asyncjit.numpy._elementwise import ArrayLike
from asyncjit.ops.activations import ACTIVATIONS

__all__ = ["conv", "conv_transpose"]


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


def conv_transpose(
    x: ArrayLike,
    weights: ArrayLike,
    bias: ArrayLike | None = None,
    /,
    *,
    strides: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    output_padding: PerAxis = 0,
    output_shape: Sequence[int] | None = None,
) -> Array:
    """Add every element of ``x`` times ``weights`` into a window of the result: the adjoint of ``conv``.

    ``x`` has shape ``(n, channels, *spatial)``, ``weights`` ``(channels, filters / groups, *kernel)``, ``bias``
    ``(filters,)``; all have one dtype. The result has shape ``(n, filters, *outputs)`` and that dtype, with
    ``(extent - 1) * stride + dilation * (kernel - 1) + 1 + output_padding - padding`` outputs along an axis:
    ``padding`` is what is cut off on both sides, ``output_padding`` elements that stand behind.

    With ``output_shape``, the outputs along the spatial axes, ``padding`` is worked out from it, and the odd element is
    cut off in front unless ``padding`` is ``"same_upper"``. That word, or ``"same_lower"``, without it stands for
    outputs of ``extent * stride``.

    Raises:
        ValueError: shapes that do not fit, or no output left. TypeError: several dtypes.
    """
    array, axes = spatial("conv_transpose", x)
    kernels = contiguous(weights)
    steps = per_axis("conv_transpose", "strides", strides, axes)
    spread = per_axis("conv_transpose", "dilation", dilation, axes)
    extra = per_axis("conv_transpose", "output_padding", output_padding, axes, 0)
    wanted = output_shape
    if wanted is None and padding in ("same_upper", "same_lower"):
        wanted = [extent * step for extent, step in zip(array.shape[2:], steps, strict=True)]
    if wanted is None:
        pads = pads_of("conv_transpose", padding, array.shape[2:], (1,) * axes, steps)
    else:
        per_axis("conv_transpose", "output_shape", wanted, axes)
        sizes = zip(array.shape[2:], steps, spread, kernels.shape[2:], extra, wanted, strict=True)
        cut = [
            (extent - 1) * step + far * (taps - 1) + 1 + more - size for extent, step, far, taps, more, size in sizes
        ]
        # More outputs than there are: they stand behind, and get the bias alone.
        extra = tuple(more + max(0, -total) for more, total in zip(extra, cut, strict=True))
        less = [max(0, total) // 2 for total in cut]
        pairs = [(low, max(0, total) - low) for low, total in zip(less, cut, strict=True)]
        pads = tuple(pair if padding == "same_upper" else pair[::-1] for pair in pairs)
    operands = [array, kernels] if bias is None else [array, kernels, contiguous(bias)]
    result: Array
    result, _ = apply("conv_transpose", operands, (steps, spread, pads, groups, extra))
    return result
