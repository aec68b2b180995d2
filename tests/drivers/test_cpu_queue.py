"""What the CPU device does with work that is queued. Law: order is made by events, never by waiting a while."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from asyncjit.devices.base import Executable, Submission
from asyncjit.devices.cpu import CpuDevice
from asyncjit.streams import Fence
from tests.conformance.plans import PlanBuilder
from tests.drivers.cpu_work import PATIENCE_S, one_call, submit

Array = np.ndarray[Any, Any]


class TestHandedOverWhole:
    """Plans of one segment with nothing to wait for, queued behind a worker that is busy."""

    @pytest.fixture
    def busy(self) -> Any:
        device, go, started = CpuDevice(workers=1), threading.Event(), threading.Event()

        def block(out: Array) -> None:
            started.set()
            assert go.wait(PATIENCE_S)

        submit(device, one_call(device, block))
        assert started.wait(PATIENCE_S)
        yield device, go
        go.set()
        assert device.close(PATIENCE_S)

    def submission(self, executable: Executable) -> Submission:
        return Submission(executable, executable.create_frame(), [(None, 0)], {}, lambda *outcome: None, Fence())

    def test_what_is_skipped_while_it_is_queued_does_not_run(self, busy: Any) -> None:
        device, go = busy
        ran = list[Array]()
        submission = self.submission(one_call(device, ran.append))
        device.submit(submission)
        device.skip(submission)
        done = threading.Event()
        submission.fence.add_callback(done.set)
        go.set()
        assert done.wait(PATIENCE_S)
        assert ran == []

    def test_state_bound_anew_while_it_is_queued_is_not_for_it(self, busy: Any) -> None:
        device, go = busy
        builder = PlanBuilder(device.name)
        builder.call(lambda out: np.add(out, 1, out), builder.state())
        executable = device.instantiate(builder.plan())
        old, new = np.zeros(4, np.float32), np.zeros(4, np.float32)
        executable.bind_state([(0, old, 0)])
        submission = self.submission(executable)
        device.submit(submission)
        executable.bind_state([(0, new, 0)])
        done = threading.Event()
        submission.fence.add_callback(done.set)
        go.set()
        assert done.wait(PATIENCE_S)
        assert (old[0], new[0]) == (1, 0)
