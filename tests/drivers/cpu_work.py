"""Work for the CPU device: plans of one call or of two arms, submitted and waited for. Law: no test."""

from __future__ import annotations

import threading
from typing import Any

from asyncjit.devices.base import Executable, Submission
from asyncjit.devices.cpu import CpuDevice
from asyncjit.streams import Fence
from tests.conformance.plans import PlanBuilder

PATIENCE_S = 20.0


def submit(device: CpuDevice, executable: Executable, gates: Any = None) -> tuple[threading.Event, list[Any]]:
    done, reports = threading.Event(), list[Any]()
    submission = Submission(
        executable,
        executable.create_frame(),
        [],
        gates or {},
        lambda submission, error, call_index: reports.append(error),
        Fence(),
    )
    submission.fence.add_callback(done.set)
    device.submit(submission)
    return done, reports


def run(device: CpuDevice, executable: Executable) -> None:
    done, reports = submit(device, executable)
    assert done.wait(PATIENCE_S)
    assert reports == [None]


def two_arms(device: CpuDevice, kernel: Any) -> Executable:
    """The same kernel on two streams at once."""
    builder = PlanBuilder(device.name)
    for stream in range(2):
        builder.segment(stream)
        builder.call(kernel, builder.intermediate())
    return device.instantiate(builder.plan())


def one_call(device: CpuDevice, kernel: Any) -> Executable:
    builder = PlanBuilder(device.name)
    builder.call(kernel, builder.intermediate())
    return device.instantiate(builder.plan())
