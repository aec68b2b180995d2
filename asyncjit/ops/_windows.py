"""Windows that slide over the spatial axes of an array: what convolution and pooling have in common.

Law: arithmetic on extents, and copies that lay the padded input out for windows; no operation. Extents are known
integers.

A window touches position ``o * stride + t * dilation`` of the padded input, for output ``o`` and tap ``t``. The padded
input is laid out by *phases*, its positions modulo the stride, so that every tap of a strided window reads neighbours
in memory as well: tap ``t`` is phase ``t * dilation % stride`` from ``t * dilation // stride`` on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, TypeAlias

from asyncjit.symbols import Expr

__all__ = ["Extents", "Pads", "PhaseLayout", "Window", "known", "seen"]

Extents: TypeAlias = tuple[int, ...]
#: Elements put before and behind each spatial axis; negative ones are cut off.
Pads: TypeAlias = tuple[tuple[int, int], ...]


def known(name: str, extents: Sequence[Any]) -> Extents:
    """``extents``, as integers.

    Raises:
        ValueError: one is symbolic; windows are prepared for sizes that are known at capture.
    """
    if any(isinstance(extent, Expr) for extent in extents):
        raise ValueError(
            f"{name}: extents {tuple(extents)} of channels and spatial axes are known at capture; a variable may stand "
            "for the batch only: pass the size as a plain integer"
        )
    return tuple(extents)


def seen(extent: int, count: int, stride: int, shift: int) -> tuple[slice, slice]:
    """Which of ``count`` outputs see one of ``extent`` positions, at ``output * stride + shift``, and which of them."""
    first = min(max(0, -(shift // stride)), count)
    last = max(first, min(count, -((shift - extent) // stride)))
    begin = first * stride + shift
    if first == last:
        return slice(first, first), slice(0, 0)
    return slice(first, last), slice(begin, begin + (last - first - 1) * stride + 1, stride)


@dataclass(frozen=True, slots=True)
class Window:
    """Where the taps of a window stand, an entry for each spatial axis."""

    kernel: Extents
    strides: Extents
    dilation: Extents
    pads: Pads

    def reach(self) -> Extents:
        """From the first tap to the last, both counted."""
        return tuple((taps - 1) * step + 1 for taps, step in zip(self.kernel, self.dilation, strict=True))

    def outputs(self, name: str, extents: Extents) -> Extents:
        """How many windows fit.

        Raises:
            ValueError: none, along some axis.
        """
        padded = [extent + sum(pad) for extent, pad in zip(extents, self.pads, strict=True)]
        result = [
            (size - reach) // stride + 1 for size, reach, stride in zip(padded, self.reach(), self.strides, strict=True)
        ]
        if any(count < 1 for count in result):
            raise ValueError(
                f"{name}: a window of {self.kernel} with dilation {self.dilation} reaches over {self.reach()} elements "
                f"and the padded input has {tuple(padded)}: pad more, or pass a larger input"
            )
        return tuple(result)

    @property
    def taps(self) -> int:
        """Elements of a window."""
        return prod(self.kernel)

    @property
    def is_dense(self) -> bool:
        """Whether windows read the input as it is: every position, none beside it."""
        return all(stride == 1 for stride in self.strides) and not any(map(any, self.pads))


class PhaseLayout:
    """The padded input of a window on given extents, as ``(channels, *phases, *positions)``.

    Only phases that some tap needs are there. Of one image; made once for given extents.
    """

    __slots__ = ("_copies", "_edges", "extents", "phases", "shape", "size", "taps")

    def __init__(self, window: Window, extents: Extents, outputs: Extents) -> None:
        axes = list(zip(window.kernel, window.strides, window.dilation, strict=True))
        self.extents = extents
        self.phases = [sorted({tap * step % stride for tap in range(taps)}) for taps, stride, step in axes]
        positions = [
            -(-((count - 1) * stride + reach) // stride)
            for count, stride, reach in zip(outputs, window.strides, window.reach(), strict=True)
        ]
        self.shape: Extents = (*map(len, self.phases), *positions)
        self.size = prod(self.shape)
        #: For each tap in C order: its index among the phases, and the first position along each axis.
        self.taps: list[tuple[Extents, Extents]] = [
            (
                tuple(self.phases[axis].index(tap * axes[axis][2] % axes[axis][1]) for axis, tap in enumerate(place)),
                tuple(tap * axes[axis][2] // axes[axis][1] for axis, tap in enumerate(place)),
            )
            for place in product(*map(range, window.kernel))
        ]
        self._copies: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = []
        self._edges: list[tuple[Any, ...]] = []
        for place in product(*(range(len(phases)) for phases in self.phases)):
            self._add_phase(window, place, positions)

    def _add_phase(self, window: Window, place: Extents, positions: Sequence[int]) -> None:
        """Say what goes where in one phase: a part of the input in the middle, the fill value along the edges."""
        inside, source = [], []
        for axis, index in enumerate(place):
            stride, (low, _), extent = window.strides[axis], window.pads[axis], self.extents[axis]
            first = self.phases[axis][index]
            start = max(0, -((first - low) // stride))
            begin = start * stride + first - low
            count = max(0, min(positions[axis] - start, -((begin - extent) // stride)))
            inside.append((min(start, positions[axis]), count))
            source.append(slice(begin, begin + count * stride, stride) if count else slice(0, 0))
        middle = tuple(slice(start, start + count) for start, count in inside)
        self._copies.append(((slice(None), *place, *middle), (slice(None), *source)))
        before: tuple[slice, ...] = ()
        for axis, (start, count) in enumerate(inside):
            rest = (slice(None),) * (len(place) - axis - 1)
            for low, high in ((0, start), (start + count, positions[axis])):
                if low < high:
                    self._edges.append((slice(None), *place, *before, slice(low, high), *rest))
            before = (*before, middle[axis])

    def fill(self, source: Any, padded: Any, value: float = 0) -> None:
        """Write the channels of ``source`` into ``padded``, and ``value`` around them. Casts to the dtype there."""
        for edge in self._edges:
            padded[edge] = value
        for target, origin in self._copies:
            padded[target] = source[origin]
