"""The NumPy executor beyond the protocol: estimates, frames, warnings.

Law: no device and no thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asyncjit.devices._numpy_executor import NumpyExecutable
from asyncjit.devices._numpy_quiet import run_quietly
from asyncjit.devices.cpu import INLINE_S_MAX
from tests.conformance.plans import PlanBuilder

Array = np.ndarray[Any, Any]


class TestEstimate:
    def executable(self) -> NumpyExecutable:
        builder = PlanBuilder("cpu")
        builder.call("add", builder.input(), builder.input(), builder.output())
        return NumpyExecutable(builder.plan(), "cpu", INLINE_S_MAX)

    def test_work_decides_before_anything_was_measured(self) -> None:
        small, big = PlanBuilder("cpu"), PlanBuilder("cpu")
        small.call("add", small.input(), small.input(), small.output())
        big.call("add", big.input(1 << 24), big.input(1 << 24), big.output(1 << 24))
        assert NumpyExecutable(small.plan(), "cpu", INLINE_S_MAX).runs_inline
        assert not NumpyExecutable(big.plan(), "cpu", INLINE_S_MAX).runs_inline

    def test_the_first_replay_alone_replaces_the_guess(self) -> None:
        executable = self.executable()
        executable.observe(3e-3, alone=True)
        assert executable.estimated_s == 3e-3
        assert not executable.runs_inline

    def test_an_estimate_falls_at_once_and_rises_slowly(self) -> None:
        executable = self.executable()
        executable.observe(20e-6, alone=True)
        executable.observe(10e-6, alone=True)
        assert executable.estimated_s == 10e-6
        executable.observe(1.0, alone=True)
        assert executable.estimated_s == pytest.approx(12.5e-6)
        executable.observe(11e-6, alone=True)
        assert executable.estimated_s == 11e-6
        for _ in range(20):
            executable.observe(1.0, alone=True)
        assert not executable.runs_inline

    def test_a_worker_can_only_show_that_a_plan_is_faster(self) -> None:
        executable = self.executable()
        guess = executable.estimated_s
        executable.observe(1.0, alone=False)
        assert executable.estimated_s == guess
        executable.observe(guess / 2, alone=False)
        assert executable.estimated_s == guess / 2


def test_big_frames_are_not_made_on_the_loop() -> None:
    builder = PlanBuilder("cpu")
    builder.call(lambda out: None, builder.intermediate(1 << 21))
    assert not NumpyExecutable(builder.plan(), "cpu", INLINE_S_MAX).frames_are_cheap
    builder = PlanBuilder("cpu")
    for _ in range(200):
        builder.call(lambda out: None, builder.intermediate())
    assert not NumpyExecutable(builder.plan(), "cpu", INLINE_S_MAX).frames_are_cheap


def test_warnings_are_off_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def divide() -> Array:
        return np.divide(np.ones(1), 0)

    assert run_quietly(divide).tolist() == [np.inf]
    # As on a NumPy that keeps its error state elsewhere.
    monkeypatch.setattr("asyncjit.devices._numpy_quiet._error_state", None)
    assert run_quietly(divide).tolist() == [np.inf]
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        divide()
