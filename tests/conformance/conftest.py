"""The devices that are judged, and how a test drives each of them.

Law: a new device gets one more entry in ``DEVICES``; no test knows which device it judges.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from asyncjit.devices.base import Device, Executable, Frame, Memory, Submission
from asyncjit.devices.cpu import CpuDevice
from asyncjit.devices.null import NullDevice
from asyncjit.devices.sim import SimDevice
from asyncjit.plan import Plan
from asyncjit.streams import Fence
from tests._threads import threads_since
from tests.conformance.plans import PlanBuilder

#: How long a test waits for what must happen before it fails. Nothing that passes takes anywhere near as long.
PATIENCE_S = 20.0

DEVICES: Mapping[str, Callable[[], Device]] = {
    "null": NullDevice,
    "sim": lambda: SimDevice(seed=1, inline_s_max=1e9),
    "sim-one-worker": lambda: SimDevice(seed=2, workers=1, hop_s=0.5),
    "cpu-1": lambda: CpuDevice(workers=1),
    "cpu-2": lambda: CpuDevice("cpu:1", workers=2),
}


@dataclass
class Outcome:
    """What a submission came to. ``reports`` has (error, call index, whether the fence had fired already)."""

    submission: Submission
    reports: list[tuple[BaseException | None, int | None, bool]] = field(default_factory=list)
    fired: threading.Event = field(default_factory=threading.Event)

    @property
    def error(self) -> BaseException | None:
        return self.reports[0][0]

    @property
    def call_index(self) -> int | None:
        return self.reports[0][1]


@dataclass
class Harness:
    device: Device

    def build(self) -> PlanBuilder:
        return PlanBuilder(self.device.name)

    def instantiate(self, plan: Plan, state: Mapping[int, Memory] | None = None) -> Executable:
        executable = self.device.instantiate(plan)
        executable.bind_state([(slot, memory, 0) for slot, memory in (state or {}).items()])
        return executable

    def array(self, values: Any, dtype: str = "float32") -> np.ndarray[Any, Any]:
        host = np.asarray(values, dtype)
        memory: np.ndarray[Any, Any] = self.device.allocate_array(host.shape, dtype)
        memory[...] = host
        return memory

    def submission(
        self,
        executable: Executable,
        bindings: Sequence[Memory | tuple[Memory, int]],
        *,
        gates: Mapping[int, Sequence[Fence]] | None = None,
        frame: Frame | None = None,
        times: list[tuple[float, float]] | None = None,
    ) -> Outcome:
        placed = [binding if isinstance(binding, tuple) else (binding, 0) for binding in bindings]
        submission = Submission(
            executable, frame or executable.create_frame(), placed, gates or {}, self._report, Fence(), times=times
        )
        outcome = submission.context = Outcome(submission)
        submission.fence.add_callback(outcome.fired.set)
        return outcome

    @staticmethod
    def _report(submission: Submission, error: BaseException | None, call_index: int | None) -> None:
        submission.context.reports.append((error, call_index, submission.fence.done))

    def submit(self, executable: Executable, bindings: Sequence[Any] = (), **options: Any) -> Outcome:
        outcome = self.submission(executable, bindings, **options)
        self.device.submit(outcome.submission)
        return outcome

    def drive(self) -> None:
        """Let a device that does not run by itself do what it can."""
        if isinstance(self.device, SimDevice):
            self.device.run_until_idle()

    def wait(self, outcome: Outcome) -> Outcome:
        """Until the fence has fired; then check the order of report and signal, and that there was one report."""
        self.drive()
        assert outcome.fired.wait(PATIENCE_S), "the fence of a submission never fired"
        assert len(outcome.reports) == 1, f"reported {len(outcome.reports)} times"
        assert not outcome.reports[0][2], "the fence fired before the report"
        return outcome

    def run(self, executable: Executable, bindings: Sequence[Any] = (), **options: Any) -> Outcome:
        outcome = self.wait(self.submit(executable, bindings, **options))
        if outcome.error is not None:
            raise outcome.error
        return outcome

    def settle(self) -> None:
        """Return when the device has gone through what could run so far: later submissions have passed."""
        for _ in range(4):
            builder = self.build()
            builder.call(lambda out: None, builder.intermediate())
            self.run(self.device.instantiate(builder.plan()))


@pytest.fixture(params=sorted(DEVICES))
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    device = DEVICES[request.param]()
    yield Harness(device)
    assert device.close(PATIENCE_S), "the device did not close"
    assert [thread.name for thread in threads_since(f"asyncjit-{device.name}-")] == []
