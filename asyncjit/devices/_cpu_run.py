"""What the workers of the CPU device share of one submission.

Law: records and their locks; starts nothing, and knows neither threads nor queues.
"""

from __future__ import annotations

import heapq
import threading

from asyncjit.devices._numpy_executor import NumpyExecutable
from asyncjit.devices._segments import Countdown, SegmentOrder
from asyncjit.devices.base import Submission
from asyncjit.plan import Plan

__all__ = ["CpuExecutable", "CpuRun"]


class CpuExecutable(NumpyExecutable):
    def __init__(self, plan: Plan, device: str, inline_s_max: float) -> None:
        super().__init__(plan, device, inline_s_max)
        self.order = SegmentOrder(plan)


class CpuRun:
    """A submission under way, segment by segment. ``lock`` guards ``countdown`` and ``ready``."""

    __slots__ = ("countdown", "executable", "failure", "lock", "ready", "state", "submission")

    def __init__(self, submission: Submission, executable: CpuExecutable) -> None:
        #: None when it is done: a void ticket keeps no arrays alive.
        self.submission: Submission | None = submission
        self.executable = executable
        self.state = executable.state
        self.failure: tuple[BaseException, int | None] | None = None
        self.countdown = Countdown(executable.order)
        #: Heap of the segments that may start.
        self.ready: list[int] = []
        self.lock = threading.Lock()

    def take(self) -> int | None:
        """The lowest segment that may start."""
        with self.lock:
            return heapq.heappop(self.ready) if self.ready else None
