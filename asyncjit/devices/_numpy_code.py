"""A plan translated for NumPy, as far as it is the same in all frames and all replays.

Law: pure translation; holds no memory and runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from asyncjit import ops
from asyncjit.algebra import Symbol
from asyncjit.devices._numpy_late import LateCode, LateView, call_late, late_code, late_view
from asyncjit.devices._numpy_memory import ViewSpec
from asyncjit.errors import DeviceError
from asyncjit.ir import Call, Copy, Kernel, Operand, SlotKind
from asyncjit.plan import Plan

__all__ = ["PlanCode", "SegmentCode", "translate"]

# A first guess until a replay was measured: one core's stream bandwidth and sgemm rate within a factor of two, and what
# a NumPy call on a handful of floats costs.
BYTES_PER_S = 8e9
FLOPS_PER_S = 2e10
CALL_S = 0.7e-6


class CallCode(NamedTuple):
    """A call: the function, and for each argument from where it comes, as pairs (place, index of the view)."""

    function: Callable[..., object]
    from_arena: tuple[tuple[int, int], ...]
    from_state: tuple[tuple[int, int], ...]
    #: Inputs and outputs: bound anew at each replay.
    from_bindings: tuple[tuple[int, int], ...]
    #: What is symbolic, made anew at each replay: views by their index in ``late``, functions from -1 downwards.
    from_late: tuple[tuple[int, int], ...] = ()


class BoundView(NamedTuple):
    """A view of an input or an output. Where it is C-contiguous from the first byte of its slot (``natural``), memory
    of this dtype and shape is the view itself; else ``spec`` makes one, which takes five times as long."""

    slot: int
    natural: bool
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    spec: ViewSpec


class SegmentCode(NamedTuple):
    calls: tuple[int, ...]
    codes: tuple[CallCode, ...]
    #: Each view once, however many calls take it.
    bound: tuple[BoundView, ...]
    stateful: bool
    late: LateCode | None = None


class PlanCode(NamedTuple):
    segments: tuple[SegmentCode, ...]
    arena: tuple[ViewSpec, ...]
    #: (slot, spec) of each view of state.
    state: tuple[tuple[int, ViewSpec], ...]
    runs_user_code: bool
    estimated_s: float


class _Numbering:
    """Gives equal (slot, spec) pairs one number, in order of first use. The arena counts as slot -1."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ViewSpec], int] = {}

    def number(self, slot: int, spec: ViewSpec) -> int:
        return self._numbers.setdefault((slot, spec), len(self._numbers))

    @property
    def pairs(self) -> tuple[tuple[int, ViewSpec], ...]:
        return tuple(self._numbers)


def translate(plan: Plan) -> PlanCode:
    """Look up every kernel and place every operand.

    Raises:
        DeviceError: a kernel is not known to NumPy.
    """
    arena, state = _Numbering(), _Numbering()
    segments = []
    symbols = plan.schedule.symbols()
    for segment in plan.segments:
        bound, late = _Numbering(), _Late()
        codes = [_translate_call(plan, index, arena, state, bound, late) for index in segment.calls]
        views = [BoundView(slot, spec.natural, spec.dtype, spec.shape, spec) for slot, spec in bound.pairs]
        stateful = any(code.from_state for code in codes)
        segments.append(SegmentCode(segment.calls, tuple(codes), tuple(views), stateful, late.code(symbols)))
    calls = plan.schedule.calls
    return PlanCode(
        tuple(segments),
        tuple(spec for _, spec in arena.pairs),
        state.pairs,
        any(isinstance(call, Call) and call.kernel.implementation is not None for call in calls),
        sum(_estimate_s(call) for call in calls),
    )


class _Late:
    """What is symbolic in the calls of one segment: equal views once, and kernels."""

    def __init__(self) -> None:
        self._views: dict[LateView, int] = {}
        self._kernels: list[tuple[Kernel, tuple[Operand, ...]]] = []

    def view(self, view: LateView) -> int:
        return self._views.setdefault(view, len(self._views))

    def kernel(self, call: Call) -> int:
        """Counted from -1 downwards: functions stand behind the views, the first of them last."""
        self._kernels.append((call.kernel, call.operands))
        return -len(self._kernels)

    def code(self, symbols: Sequence[Symbol]) -> LateCode | None:
        return late_code(tuple(self._views), self._kernels, symbols) if self._views or self._kernels else None


def _translate_call(
    plan: Plan, index: int, arena: _Numbering, state: _Numbering, bound: _Numbering, late: _Late
) -> CallCode:
    call = plan.schedule.calls[index]
    from_arena, from_state, from_bindings = [], [], []
    from_late: list[tuple[int, int]] = []
    function: Callable[..., object] = call_late
    if isinstance(call, Call) and ops.is_symbolic(call.kernel):
        from_late.append((0, late.kernel(call)))
    else:
        function = _function_of(call)
    for place, operand in enumerate(call.operands, len(from_late)):
        buffer = operand.view.buffer
        slot = plan.schedule.slot_of(buffer)
        if operand.is_symbolic:
            from_late.append((place, late.view(late_view(plan, operand))))
        elif slot is None:
            from_arena.append((place, arena.number(-1, ViewSpec.of(operand, plan.offsets[buffer]))))
        elif plan.schedule.slots[slot].kind is SlotKind.STATE:
            from_state.append((place, state.number(slot, ViewSpec.of(operand))))
        else:
            from_bindings.append((place, bound.number(slot, ViewSpec.of(operand))))
    return CallCode(function, tuple(from_arena), tuple(from_state), tuple(from_bindings), tuple(from_late))


def _function_of(call: Call | Copy) -> Callable[..., object]:
    if isinstance(call, Copy):
        return np.copyto
    function = ops.numpy_kernel(call.kernel, call.operands)
    if not callable(function):
        raise DeviceError(
            f"kernel {call.kernel.name!r} has no implementation for the CPU: expected a callable that takes NumPy "
            f"arrays, given {function!r}; give it one, or run it on the device that it was written for",
            kernel=call.kernel.name,
        )
    return function


def _estimate_s(call: Call | Copy) -> float:
    nbytes = call.cost.nbytes or sum(operand.view.nbytes for operand in call.operands)
    return CALL_S + nbytes / BYTES_PER_S + call.cost.flops / FLOPS_PER_S
