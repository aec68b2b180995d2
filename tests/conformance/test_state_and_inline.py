"""State bound to executables, and plans that run on the calling thread.

Law: one test, one sentence of the protocol; each runs on every device.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from asyncjit.devices.base import Executable
from asyncjit.errors import InternalError
from asyncjit.streams import Fence
from tests.conformance.conftest import Harness
from tests.conformance.plans import part

Array = np.ndarray[Any, Any]


def increment(out: Array) -> None:
    out += 1


class TestState:
    """STATE slots are bound to the executable, not to the replay."""

    def counter(self, harness: Harness, memory: Array) -> Executable:
        """Adds 1 to the state in one segment and copies it out in the next."""
        builder = harness.build()
        state, output = builder.state(), builder.output()
        builder.call(increment, state)
        builder.segment()
        builder.copy(state, output)
        return harness.instantiate(builder.plan(), {0: memory})

    def test_state_is_read_and_written_in_place(self, harness: Harness) -> None:
        memory, output = harness.array(np.zeros(4)), harness.array(np.zeros(4))
        executable = self.counter(harness, memory)
        frame = executable.create_frame()
        for _ in range(3):
            harness.run(executable, [(None, 0), output], frame=frame)
        assert memory.tolist() == output.tolist() == [3] * 4

    def test_frames_made_before_and_after_see_state_bound_anew(self, harness: Harness) -> None:
        old, new, output = harness.array(np.zeros(4)), harness.array(np.full(4, 10)), harness.array(np.zeros(4))
        executable = self.counter(harness, old)
        frame = executable.create_frame()
        harness.run(executable, [None, output], frame=frame)
        executable.bind_state([(0, new, 0)])
        harness.run(executable, [None, output], frame=frame)
        assert output.tolist() == [11] * 4
        harness.run(executable, [None, output])
        assert (old[0], new[0], output[0]) == (1, 12, 12)

    def test_a_submission_keeps_the_state_that_was_bound_when_it_was_made(self, harness: Harness) -> None:
        old, new = harness.array(np.zeros(4)), harness.array(np.zeros(4))
        executable = self.counter(harness, old)
        gate, frame = Fence(), executable.create_frame()
        held = harness.submit(executable, [None, harness.array(np.zeros(4))], gates={0: [gate]}, frame=frame)
        executable.bind_state([(0, new, 0)])
        gate.signal()
        harness.wait(held)
        assert (old[0], new[0]) == (1, 0)
        harness.run(executable, [None, harness.array(np.zeros(4))], frame=frame)
        assert (old[0], new[0]) == (1, 1)

    def test_slots_that_are_not_named_keep_their_state(self, harness: Harness) -> None:
        builder = harness.build()
        first, second = builder.state(), builder.state()
        builder.call(lambda a, b, out: np.add(a, b, out), first, second, builder.output())
        one, two, three = (harness.array(np.full(4, value)) for value in (1, 2, 3))
        executable = harness.instantiate(builder.plan(), {0: one, 1: two})
        executable.bind_state([(1, three, 0)])
        output = harness.array(np.zeros(4))
        harness.run(executable, [None, None, output])
        assert output.tolist() == [4] * 4

    def test_state_may_begin_anywhere_in_its_memory(self, harness: Harness) -> None:
        memory, output = harness.array(np.arange(8)), harness.array(np.zeros(4))
        executable = self.counter(harness, memory)
        executable.bind_state([(0, memory, 16)])
        harness.run(executable, [None, output])
        assert memory.tolist() == [0, 1, 2, 3, 5, 6, 7, 8]

    def test_state_that_was_never_bound_is_an_error_of_ours(self, harness: Harness) -> None:
        builder = harness.build()
        builder.copy(builder.state(), builder.output())
        executable = harness.instantiate(builder.plan())
        with pytest.raises(InternalError, match="never bound"):
            harness.run(executable, [None, harness.array(np.zeros(4))])


class TestInline:
    """Cheap plans without user code may run on the calling thread."""

    def executable(self, harness: Harness, shape: tuple[int, ...] = (4,)) -> Executable:
        builder = harness.build()
        source, middle = builder.input(), builder.intermediate()
        builder.call("add", source, source, middle)
        builder.segment()
        builder.call("add", middle, part(builder.input(), shape, (4,), "float32"), builder.output())
        return harness.instantiate(builder.plan())

    def test_it_runs_at_once_and_neither_reports_nor_signals(self, harness: Harness) -> None:
        executable = self.executable(harness)
        if not executable.runs_inline:
            assert harness.device.capabilities.inline_s_max == 0
            return
        output, threads = harness.array(np.zeros(4)), threading.active_count()
        outcome = harness.submission(
            executable, [harness.array([1, 2, 3, 4]), harness.array([1, 1, 1, 1]), output], times=[]
        )
        assert harness.device.run_inline(outcome.submission) == (None, None)
        assert output.tolist() == [3, 5, 7, 9]
        assert outcome.reports == []
        assert not outcome.submission.fence.done
        assert len(outcome.submission.times or ()) == 2
        assert threading.active_count() == threads

    def test_it_returns_the_error_and_the_call(self, harness: Harness) -> None:
        executable = self.executable(harness, shape=(3,))
        if executable.runs_inline:
            inputs = [harness.array([1, 2, 3, 4]), harness.array([1, 1, 1, 1]), harness.array(np.zeros(4))]
            outcome = harness.submission(executable, inputs)
            error, call_index = harness.device.run_inline(outcome.submission)
            assert isinstance(error, ValueError)
            assert call_index == 1

    def test_user_code_never_runs_inline(self, harness: Harness) -> None:
        builder = harness.build()
        builder.call(increment, builder.output())
        assert not harness.instantiate(builder.plan()).runs_inline
