"""The null device: the smallest thing that satisfies the device protocol. A new device begins as a copy of this file.

Law: nothing here is fast and nothing is clever; what stands here is what the protocol demands. It runs each submission
whole, in the issue order of its segments, on whatever thread submitted it or opened its last gate. Run
``pytest tests/conformance`` against the copy, then replace one part at a time: where memory comes from (``allocate``),
what is prepared once a plan (``NullExecutable``) and once a frame (``NullFrame``), how calls are made (``_run``).
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from asyncjit import ops
from asyncjit.clock import Clock, MonotonicClock
from asyncjit.devices.base import Capabilities, Memory, Submission
from asyncjit.errors import DeviceOutOfMemoryError, DeviceUnavailableError, EngineClosedError, InternalError
from asyncjit.ir import Call, Copy, Operand, SlotKind
from asyncjit.plan import Plan
from asyncjit.streams import Fence
from asyncjit.variables import compiled, has_symbols

__all__ = ["NullDevice"]

_logger = logging.getLogger("asyncjit.devices.null")

Places = dict[int, tuple[Memory, int]]


class NullFrame:
    """One replay's intermediates: plain bytes, laid out by the plan."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.nbytes = int(memory.nbytes)


class NullExecutable:
    """A plan with its kernels looked up, and what its STATE slots are bound to."""

    def __init__(self, plan: Plan, device: NullDevice) -> None:
        self.plan = plan
        symbols = plan.schedule.symbols()
        #: What runs each call, and what makes its layout for the values of a replay; None where that is not symbolic.
        self.functions = [_function_of(call) for call in plan.schedule.calls]
        self.layouts = [
            compiled(call.layout, symbols) if has_symbols(call.layout) else None for call in plan.schedule.calls
        ]
        self.state: Places = {}
        self.estimated_s = 0.0
        # No thread and no queue: inline is what this device always does. User code is kept off the event loop even so.
        self.runs_inline = all(
            isinstance(call, Copy) or call.kernel.implementation is None for call in plan.schedule.calls
        )
        self.frames_are_cheap = True
        self._device = device

    def create_frame(self, arena: Memory | None = None) -> NullFrame:
        nbytes = self.plan.frame_nbytes.get(self._device.name, 0)
        return NullFrame(self._device.allocate(nbytes) if arena is None else arena)

    def bind_state(self, bindings: Sequence[tuple[int, Memory, int]]) -> None:
        # A new dict each time: submissions made earlier keep the one they were made with.
        self.state = self.state | {slot: (memory, offset) for slot, memory, offset in bindings}


def _function_of(call: Call | Copy) -> Callable[..., object] | None:
    """What runs it; None where parameters are symbolic, so that it is bound at each replay."""
    if isinstance(call, Copy):
        return np.copyto
    return None if ops.is_symbolic(call.kernel) else ops.numpy_kernel(call.kernel, call.operands)


class _Run:
    """A submission, the state it was made with, and the fences that must still fire before it may run."""

    def __init__(self, submission: Submission) -> None:
        self.submission = submission
        self.state: Places = submission.executable.state
        self.gates: list[Fence] = [fence for fences in submission.gates.values() for fence in fences]


class NullDevice:
    """Runs everything at once, one submission at a time. Callable from any thread."""

    def __init__(self, name: str = "null", *, clock: Clock | None = None) -> None:
        self.name = name
        self.capabilities = Capabilities(
            streams_max=1, segment_calls_first=None, submits_ahead=False, inline_s_max=1.0, hop_s=0.0
        )
        self._clock: Clock = clock or MonotonicClock()
        self._ready: deque[_Run] = deque()
        self._busy = threading.Lock()
        self._changed = threading.Condition()
        self._taken = 0
        self._closed = False

    @property
    def hops(self) -> int:
        """None: work runs on the thread that brings it, or opens its last gate."""
        return 0

    def allocate(self, nbytes: int) -> Memory:
        return self.allocate_array((nbytes,), "uint8")

    def allocate_array(self, shape: tuple[int, ...], dtype: str) -> Memory:
        nbytes = int(np.dtype(dtype).itemsize * np.prod(shape, dtype=object))
        try:
            block = np.empty(nbytes + 63, np.uint8)
        except (MemoryError, ValueError) as error:
            raise DeviceOutOfMemoryError(
                f"device {self.name!r} has no memory left for {nbytes} bytes; free arrays first",
                device=self.name,
                nbytes=nbytes,
            ) from error
        return np.ndarray(shape, dtype, block, -block.ctypes.data % 64)

    def array_allocator(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Memory]:
        return functools.partial(self.allocate_array, shape, dtype)

    def instantiate(self, plan: Plan, executor: str | None = None) -> NullExecutable:
        if executor is not None:
            raise DeviceUnavailableError(
                f"device {self.name!r} has one way to run a plan, not an executor {executor!r}", device=self.name
            )
        return NullExecutable(plan, self)

    def submit(self, submission: Submission) -> None:
        with self._changed:
            if self._closed:
                raise EngineClosedError(f"device {self.name!r} was closed and takes no more work", device=self.name)
            self._taken += 1
        self._pass_gates(_Run(submission))

    def skip(self, submission: Submission) -> None:
        submission.skip = True

    def run_inline(self, submission: Submission) -> tuple[BaseException | None, int | None]:
        return self._run(submission, submission.executable.state)

    def close(self, timeout_s: float) -> bool:
        with self._changed:
            self._closed = True
            return self._changed.wait_for(lambda: self._taken == 0, timeout_s)

    def _pass_gates(self, run: _Run) -> None:
        """Wait for one fence after the other, without blocking: a fence that has not fired calls back here."""
        while run.gates:
            if run.gates.pop().add_callback(functools.partial(self._pass_gates, run)):
                return
        self._ready.append(run)
        # Whoever holds the lock, this thread further down its own stack too, also takes what is appended meanwhile: a
        # chain of a thousand gated submissions needs no deeper stack than one.
        while self._ready and self._busy.acquire(blocking=False):
            try:
                while self._ready:
                    self._complete(self._ready.popleft())
            finally:
                self._busy.release()

    def _complete(self, run: _Run) -> None:
        """Run it, report, then signal: always, in this order, and whatever raises."""
        error, call_index = self._run(run.submission, run.state)
        try:
            run.submission.report(run.submission, error, call_index)
        except Exception:
            _logger.exception("the report of a submission raised on device %r", self.name)
        finally:
            run.submission.fence.signal()
            with self._changed:
                self._taken -= 1
                self._changed.notify_all()

    def _run(self, submission: Submission, state: Places) -> tuple[BaseException | None, int | None]:
        plan, times = submission.executable.plan, submission.times
        if times is not None:
            times[:] = [None] * len(plan.schedule.calls)
        for segment in plan.segments:
            for index in () if submission.skip else segment.calls:
                start_s = self._clock.now_s()
                try:
                    call = plan.schedule.calls[index]
                    function, layouts = _now(call, index, submission)
                    arguments = [
                        _view(operand, layout, submission, state)
                        for operand, layout in zip(call.operands, layouts, strict=True)
                    ]
                    with np.errstate(all="ignore"):
                        function(*arguments)
                except BaseException as error:
                    # This frame's locals hold the arrays of the replay; whoever keeps the error shall not keep them.
                    return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next), index
                if times is not None:
                    times[index] = (start_s, self._clock.now_s(), threading.get_native_id())
        return None, None


def _now(call: Call | Copy, index: int, submission: Submission) -> tuple[Callable[..., object], Sequence[Any]]:
    """The function of a call and (offset, shape, strides) of each operand, with the values of this replay."""
    executable: NullExecutable = submission.executable
    function, evaluate = executable.functions[index], executable.layouts[index]
    params: tuple[Hashable, ...] = ()
    layouts: Sequence[Any] = [operand.layout for operand in call.operands]
    if evaluate is not None:
        params, *layouts = evaluate(*submission.values)
    if function is None:
        assert isinstance(call, Call)
        function = ops.numpy_kernel(replace(call.kernel, params=params), call.operands)
    return function, layouts


def _view(operand: Operand, layout: Any, submission: Submission, state: Places) -> np.ndarray[Any, Any]:
    """Where the operand of a call lies in this replay: in the frame, in state, or in what the submission binds."""
    plan = submission.executable.plan
    slot = plan.schedule.slot_of(operand.view.buffer)
    if slot is None:
        memory, base = submission.frame.memory, plan.offsets[operand.view.buffer]
    elif plan.schedule.slots[slot].kind is not SlotKind.STATE:
        memory, base = submission.bindings[slot]
    elif slot in state:
        memory, base = state[slot]
    else:
        raise InternalError(f"STATE slot {slot} was never bound; call bind_state before the first submission", story=())
    offset, shape, strides = layout
    if 0 in shape:
        # It may begin outside of the memory, which NumPy refuses.
        return np.empty(shape, operand.dtype)
    return np.ndarray(shape, operand.dtype, memory, base + offset, strides)
