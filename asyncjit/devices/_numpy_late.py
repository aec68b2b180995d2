"""The symbolic part of a plan for NumPy: views and kernels that each replay makes anew.

Law: pure translation, and the making; runs nothing. Imports ``_numpy_memory`` and below.

All that is symbolic in a segment is evaluated by one compiled function of the replay's values.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from asyncjit import ops
from asyncjit.algebra import Symbol
from asyncjit.devices._numpy_memory import Array
from asyncjit.devices.base import Memory
from asyncjit.errors import AsyncJitError, InternalError, KernelError
from asyncjit.ir import Kernel, Operand, SlotKind, View
from asyncjit.plan import Plan
from asyncjit.symbols import same
from asyncjit.variables import Evaluate, compiled

__all__ = ["LateCode", "LateView", "call_late", "late_code", "late_view"]

Places = Mapping[int, tuple[Memory, int]] | Sequence[tuple[Memory, int]]


class LateView(NamedTuple):
    """A symbolic operand: where its memory comes from (a slot, or -1 for the arena, where ``base`` is its buffer), and
    what must be looked at when it is made."""

    slot: int
    is_state: bool
    base: int
    dtype: np.dtype[Any]
    #: Memory of the same shape and dtype is the view itself.
    natural: bool
    #: The bytes that it may touch, where the ranges do not settle that it stays inside.
    guard: View | None
    layout: tuple[Hashable, ...]


class LateCode(NamedTuple):
    """What a segment makes anew at each replay: views, then the functions of kernels."""

    views: tuple[LateView, ...]
    kernels: tuple[tuple[Kernel, tuple[Operand, ...]], ...]
    evaluate: Evaluate

    def make(self, values: Sequence[int], arena: Array, state: Places, bindings: Places) -> list[Any]:
        """The views in order, then the functions, the first of them last, for these values of the plan's symbols.

        Raises:
            InternalError: a view leaves its bytes.
            KernelError: a kernel does not take its parameters.
        """
        made: list[Any] = []
        layouts, params = self.evaluate(*values)
        for view, (offset, shape, strides) in zip(self.views, layouts, strict=True):
            if view.slot < 0:
                memory, base = arena, view.base
            else:
                memory, base = state[view.slot] if view.is_state else bindings[view.slot]
                if view.natural and not base and memory.dtype is view.dtype and memory.shape == shape:
                    made.append(memory)
                    continue
            if view.guard is not None:
                _check_inside(view, offset, shape, strides)
            if 0 in shape:
                # An empty slice may begin outside of the memory, which NumPy refuses.
                made.append(np.empty(shape, view.dtype))
            else:
                made.append(np.ndarray(shape, view.dtype, memory, base + offset, strides))
        for (kernel, operands), given in zip(reversed(self.kernels), reversed(params), strict=True):
            made.append(_bound(replace(kernel, params=given), operands))
        return made


def _bound(kernel: Kernel, operands: tuple[Operand, ...]) -> Any:
    try:
        return ops.numpy_kernel(kernel, operands)
    except AsyncJitError:
        raise
    except Exception as error:
        raise KernelError(
            f"kernel {kernel.name!r} does not take the parameters {kernel.params} of this replay: {error}",
            kernel=kernel.name,
        ) from error


def call_late(function: Any, *views: Any) -> None:
    """A call whose function is made at each replay."""
    function(*views)


def late_view(plan: Plan, operand: Operand) -> LateView:
    buffer = operand.view.buffer
    slot = plan.schedule.slot_of(buffer)
    is_state = slot is not None and plan.schedule.slots[slot].kind is SlotKind.STATE
    dtype = np.dtype(operand.dtype)
    expected: Any = dtype.itemsize
    natural = same(operand.offset_bytes, 0)
    for extent, stride in zip(reversed(operand.shape), reversed(operand.strides), strict=True):
        natural = natural and (same(stride, expected) or same(extent, 1))
        expected = expected * extent
    guard = None if operand.stays_inside() else operand.view
    base = plan.offsets[buffer] if slot is None else 0
    return LateView(-1 if slot is None else slot, is_state, base, dtype, natural, guard, operand.layout)


def late_code(
    views: Sequence[LateView], kernels: Sequence[tuple[Kernel, tuple[Operand, ...]]], symbols: Sequence[Symbol]
) -> LateCode:
    tree = (tuple(view.layout for view in views), tuple(kernel.params for kernel, _ in kernels))
    return LateCode(tuple(views), tuple(kernels), compiled(tree, symbols))


def _check_inside(view: LateView, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    assert view.guard is not None
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low = offset + sum(step for step in reach if step < 0)
    high = offset + sum(step for step in reach if step > 0) + view.dtype.itemsize
    begin, end = view.guard.offset_bytes, view.guard.offset_bytes + view.guard.nbytes
    if min(shape, default=1) < 0 or (0 not in shape and not begin <= low <= high <= end):
        raise InternalError(
            f"a symbolic operand of shape {shape}, strides {strides} and offset {offset} leaves bytes {begin}:{end}",
            story=(),
        )
