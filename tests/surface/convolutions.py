"""What convolution and pooling are by definition, tap by tap, for tests to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

Pads = Sequence[tuple[int, int]]


def every(
    tap: Sequence[int], strides: Sequence[int], dilation: Sequence[int], counts: Sequence[int]
) -> tuple[slice, ...]:
    """What all windows see through one tap."""
    return tuple(
        slice(at * step, at * step + (count - 1) * stride + 1, stride)
        for at, step, stride, count in zip(tap, dilation, strides, counts, strict=True)
    )


def conv_by_definition(
    x: Any, weights: Any, strides: Sequence[int], pads: Pads, dilation: Sequence[int], groups: int
) -> Any:
    """In float64."""
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pads])
    kernel = weights.shape[2:]
    counts = [
        (extent - (taps - 1) * step - 1) // stride + 1
        for extent, taps, step, stride in zip(padded.shape[2:], kernel, dilation, strides, strict=True)
    ]
    out = np.zeros((x.shape[0], weights.shape[0], *counts))
    for tap in np.ndindex(*kernel):
        seen = padded[(slice(None), slice(None), *every(tap, strides, dilation, counts))]
        for group in range(groups):
            rows = slice(group * len(weights) // groups, (group + 1) * len(weights) // groups)
            part = np.split(seen, groups, axis=1)[group]
            out[:, rows] += np.einsum("nc...,fc->nf...", part, weights[(rows, slice(None), *tap)].astype(np.float64))
    return out


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a convolution whose window fits: groups up to depthwise, a batch that may be empty."""
    axes = draw(st.integers(1, 3))
    each = st.tuples(*[st.integers(1, 3)] * axes)
    kernel, strides, dilation = draw(each), draw(each), draw(each)
    pads = draw(st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * axes))
    least = [max(1, (taps - 1) * step + 1 - sum(pad)) for taps, step, pad in zip(kernel, dilation, pads, strict=True)]
    spatial = tuple(size + draw(st.integers(0, 4)) for size in least)
    groups, inputs, filters = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return {
        "x": (draw(st.integers(0, 3)), groups * inputs, *spatial),
        "weights": (groups * filters, inputs, *kernel),
        "strides": strides,
        "dilation": dilation,
        "padding": pads,
        "groups": groups,
    }
