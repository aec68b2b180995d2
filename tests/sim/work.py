"""Work for the simulated device.

Law: plans whose virtual times can be told by looking at them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncjit.devices.base import Executable, Submission
from asyncjit.devices.sim import SimDevice
from asyncjit.streams import Fence
from tests.conformance.plans import PlanBuilder

__all__ = ["fork_join", "submit"]

Array = np.ndarray[Any, Any]


def no_operation(out: Array) -> None:
    """Takes its virtual second and leaves what was there."""


def submit(device: SimDevice, executable: Executable, **options: Any) -> tuple[Submission, list[BaseException | None]]:
    reports: list[BaseException | None] = []
    submission = Submission(
        executable,
        options.pop("frame", None) or executable.create_frame(),
        options.pop("bindings", []),
        options.pop("gates", {}),
        lambda submission, error, call_index: reports.append(error),
        Fence(),
        **options,
    )
    device.submit(submission)
    return submission, reports


def fork_join(device: SimDevice, width: int) -> Executable:
    """One call, then ``width`` streams of two calls, then one call that waits for all of them."""
    builder = PlanBuilder(device.name)
    builder.segment(stream=0)
    builder.call(no_operation, builder.intermediate())
    arms = []
    for arm in range(width):
        arms.append(builder.segment(stream=arm, waits=[] if arm == 0 else [0]))
        builder.call(no_operation, builder.intermediate())
        builder.call(no_operation, builder.intermediate())
    builder.segment(stream=0, waits=[arm for arm in arms if arm != arms[0]])
    builder.call(no_operation, builder.intermediate())
    return device.instantiate(builder.plan())
