"""Channels become pixels and pixels channels, element by element where the definition says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from asyncjit import nn
from tests.surface.immediate import immediate
from tests.surface.samples import same_bits


@pytest.fixture(autouse=True)
def sink() -> Iterator[None]:
    with immediate():
        yield


@pytest.mark.parametrize("order", ["DCR", "CRD"])
def test_channels_become_pixels_of_blocks(order: str) -> None:
    x = np.arange(2 * 12 * 2 * 3, dtype="float32").reshape(2, 12, 2, 3)
    wanted = np.empty((2, 3, 4, 6), "float32")
    for c, y, column in np.ndindex(3, 4, 6):
        place = 2 * (y % 2) + column % 2
        source = place * 3 + c if order == "DCR" else c * 4 + place
        wanted[:, c, y, column] = x[:, source, y // 2, column // 2]
    same_bits(nn.depth_to_space(x, 2, order=order), wanted)  # type: ignore[arg-type]


def test_space_to_depth_is_the_inverse() -> None:
    x = np.arange(2 * 3 * 4 * 6).reshape(2, 3, 4, 6)
    same_bits(nn.depth_to_space(nn.space_to_depth(x, 2), 2), x)
    same_bits(nn.depth_to_space(nn.space_to_depth(x, 2, order="CRD"), 2, order="CRD"), x)
    same_bits(nn.space_to_depth(x[:, :1], 2)[:, 1], x[:, 0, ::2, 1::2])


def test_what_does_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match=r"c a multiple of 2\*\*2, given shape \(1, 3, 2, 2\)"):
        nn.depth_to_space(np.zeros((1, 3, 2, 2)), 2)
    with pytest.raises(ValueError, match=r"h and w multiples of 2, given shape \(1, 3, 3, 2\)"):
        nn.space_to_depth(np.zeros((1, 3, 3, 2)), 2)
    with pytest.raises(ValueError, match="order is 'DCR' or 'CRD'"):
        nn.depth_to_space(np.zeros((1, 4, 2, 2)), 2, order="RCD")  # type: ignore[arg-type]
