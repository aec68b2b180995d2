"""How work ends on a device: gates, skips, errors, reports, references, closing.

Law: one test, one sentence of the protocol; each runs on every device.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from asyncjit.devices.base import Executable, Submission
from asyncjit.devices.sim import SimDevice
from asyncjit.errors import EngineClosedError
from asyncjit.streams import Fence
from tests.conformance.conftest import PATIENCE_S, Harness

Array = np.ndarray[Any, Any]


def logging_chain(harness: Harness, log: list[int], segments: int = 3) -> Executable:
    """One call a segment, all on one stream, each noting its number."""
    builder = harness.build()
    for number in range(segments):
        builder.segment()
        builder.call(lambda out, number=number: log.append(number), builder.intermediate())
    return harness.instantiate(builder.plan())


def raising(error: BaseException) -> Any:
    def kernel(*arrays: Array) -> None:
        raise error

    return kernel


class TestGates:
    def test_a_gated_segment_waits_for_its_fences(self, harness: Harness) -> None:
        log: list[int] = []
        first, second = Fence(), Fence()
        outcome = harness.submit(logging_chain(harness, log), gates={1: [first, second]})
        first.signal()
        harness.settle()
        assert 1 not in log
        assert outcome.reports == []
        second.signal()
        harness.wait(outcome)
        assert log == [0, 1, 2]

    def test_a_fence_that_has_fired_holds_nothing(self, harness: Harness) -> None:
        log: list[int] = []
        harness.run(logging_chain(harness, log), gates={0: [Fence(done=True)], 2: [Fence(done=True), Fence(done=True)]})
        assert log == [0, 1, 2]

    def test_a_gate_in_a_plan_of_one_segment_holds_it(self, harness: Harness) -> None:
        log: list[int] = []
        gate = Fence()
        outcome = harness.submit(logging_chain(harness, log, 1), gates={0: [gate]})
        harness.settle()
        assert log == []
        gate.signal()
        harness.wait(outcome)
        assert log == [0]

    def test_a_thousand_gated_submissions_run_one_after_the_other(self, harness: Harness) -> None:
        seen: list[float] = []

        def step(out: Array) -> None:
            seen.append(float(out[0]))
            out += 1

        builder = harness.build()
        builder.call(step, builder.state())
        memory = harness.array(np.zeros(4))
        executable = harness.instantiate(builder.plan(), {0: memory})
        gate = first = Fence()
        for _ in range(1000):
            outcome = harness.submit(executable, [None], gates={0: [gate]})
            gate = outcome.submission.fence
        first.signal()
        harness.wait(outcome)
        assert seen == list(range(1000))

    def test_gated_work_blocks_no_other_work(self, harness: Harness) -> None:
        log: list[int] = []
        gate = Fence()
        held = [harness.submit(logging_chain(harness, []), gates={0: [gate]}) for _ in range(8)]
        harness.run(logging_chain(harness, log))
        assert log == [0, 1, 2]
        gate.signal()
        for outcome in held:
            harness.wait(outcome)


class TestSkip:
    def test_what_has_not_started_is_passed_over(self, harness: Harness) -> None:
        log: list[int] = []
        gate = Fence()
        outcome = harness.submit(logging_chain(harness, log), gates={0: [gate]})
        harness.device.skip(outcome.submission)
        gate.signal()
        harness.wait(outcome)
        assert log == []
        assert (outcome.error, outcome.call_index) == (None, None)

    def test_the_fence_of_skipped_work_still_waits_for_its_gates(self, harness: Harness) -> None:
        gate = Fence()
        outcome = harness.submit(logging_chain(harness, []), gates={1: [gate]})
        harness.device.skip(outcome.submission)
        harness.settle()
        assert outcome.reports == []
        assert not outcome.submission.fence.done
        gate.signal()
        harness.wait(outcome)

    def test_skipping_what_is_done_does_nothing(self, harness: Harness) -> None:
        outcome = harness.run(logging_chain(harness, []))
        harness.device.skip(outcome.submission)
        harness.settle()
        assert len(outcome.reports) == 1


class TestErrors:
    @pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
    def test_an_error_is_reported_with_the_call_and_stops_what_follows(
        self, harness: Harness, error: BaseException
    ) -> None:
        log: list[str] = []
        builder = harness.build()
        scratch = builder.intermediate()
        builder.call(lambda out: log.append("first"), scratch)
        builder.segment()
        builder.call(lambda out: log.append("second"), scratch)
        failing = builder.call(raising(error), scratch)
        builder.call(lambda out: log.append("in the same segment"), scratch)
        builder.segment()
        builder.call(lambda out: log.append("in the next segment"), scratch)
        executable = harness.instantiate(builder.plan())
        outcome = harness.wait(harness.submit(executable, times=[]))
        assert outcome.error is error
        assert outcome.call_index == failing
        assert log == ["first", "second"]
        assert (outcome.submission.times or [])[2:] == [None] * 3

    def test_the_fence_of_failed_work_still_waits_for_its_gates(self, harness: Harness) -> None:
        builder = harness.build()
        builder.call(raising(ValueError("x")), builder.intermediate())
        builder.segment()
        builder.call(raising(TypeError("never")), builder.intermediate())
        gate = Fence()
        outcome = harness.submit(harness.instantiate(builder.plan()), gates={1: [gate]})
        harness.settle()
        assert outcome.reports == []
        gate.signal()
        assert isinstance(harness.wait(outcome).error, ValueError)

    def test_the_device_goes_on_after_an_error(self, harness: Harness) -> None:
        log: list[int] = []
        builder = harness.build()
        builder.call(raising(ValueError("x")), builder.intermediate())
        failing = harness.instantiate(builder.plan())
        outcomes = [harness.submit(failing) for _ in range(5)]
        harness.run(logging_chain(harness, log))
        assert all(isinstance(harness.wait(outcome).error, ValueError) for outcome in outcomes)
        assert log == [0, 1, 2]

    def test_errors_on_two_streams_are_one_report(self, harness: Harness) -> None:
        builder = harness.build()
        for stream in range(3):
            builder.segment(stream)
            builder.call(raising(ValueError(stream)), builder.intermediate())
        executable = harness.instantiate(builder.plan())
        for _ in range(20):
            outcome = harness.wait(harness.submit(executable))
            assert isinstance(outcome.error, ValueError)
            assert outcome.call_index == outcome.error.args[0]

    def test_a_report_that_raises_is_logged_and_the_fence_fires(
        self, harness: Harness, caplog: pytest.LogCaptureFixture
    ) -> None:
        def report(submission: Submission, error: BaseException | None, call_index: int | None) -> None:
            raise RuntimeError("the engine has a bug")

        outcome = harness.submission(logging_chain(harness, []), [])
        outcome.submission.report = report
        with caplog.at_level(logging.ERROR):
            harness.device.submit(outcome.submission)
            harness.drive()
            assert outcome.fired.wait(PATIENCE_S)
        assert "the engine has a bug" in caplog.text
        harness.run(logging_chain(harness, []))


def test_inputs_and_outputs_are_let_go_after_the_replay(harness: Harness) -> None:
    builder = harness.build()
    source, middle = builder.input(), builder.intermediate()
    builder.call(lambda a, out: np.add(a, 1, out), source, middle)
    builder.segment()
    builder.call(lambda a, b, out: np.add(a, b, out), middle, source, builder.output())
    executable = harness.instantiate(builder.plan())
    frame = executable.create_frame()
    memories = [harness.array(np.zeros(4)), harness.array(np.zeros(4))]
    gone = [threading.Event(), threading.Event()]
    references = [weakref.finalize(memory, event.set) for memory, event in zip(memories, gone, strict=True)]
    outcome = harness.run(executable, memories, frame=frame)
    memories.clear()
    # The test's own circle: an outcome and its submission know each other.
    outcome.submission.context = None
    del outcome
    assert all(event.wait(PATIENCE_S) for event in gone)
    assert not any(reference.alive for reference in references)


def test_an_error_that_is_kept_keeps_no_arrays(harness: Harness) -> None:
    # A kernel in C leaves no frame of its own in the traceback: what arrays it holds are the device's doing.
    builder = harness.build()
    builder.call(np.add, builder.input(), builder.input(12), builder.output())
    memory, gone = harness.array(np.zeros(4)), threading.Event()
    weakref.finalize(memory, gone.set)
    bindings = [memory, harness.array(np.zeros(3)), harness.array(np.zeros(4))]
    outcome = harness.wait(harness.submit(harness.instantiate(builder.plan()), bindings))
    error = outcome.error
    outcome.submission.context = None
    del outcome, memory, bindings
    assert gone.wait(PATIENCE_S)
    assert isinstance(error, ValueError)


class TestClose:
    def test_a_closed_device_refuses_work_and_says_so(self, harness: Harness) -> None:
        executable = logging_chain(harness, [])
        harness.run(executable)
        assert harness.device.close(PATIENCE_S)
        outcome = harness.submission(executable, [])
        with pytest.raises(EngineClosedError, match="closed"):
            harness.device.submit(outcome.submission)
        assert outcome.reports == []
        assert not outcome.submission.fence.done

    def test_what_was_taken_is_finished(self, harness: Harness) -> None:
        log: list[int] = []
        executable = logging_chain(harness, log)
        outcomes = [harness.submit(executable) for _ in range(20)]
        assert harness.device.close(PATIENCE_S)
        assert all(len(outcome.reports) == 1 for outcome in outcomes)
        assert len(log) == 60

    def test_a_device_that_was_never_used_closes(self, harness: Harness) -> None:
        assert harness.device.close(0.0)
        assert harness.device.close(0.0)

    def test_work_that_waits_for_ever_does_not_hold_up_the_close(self, harness: Harness) -> None:
        gate = Fence()
        outcome = harness.submit(logging_chain(harness, []), gates={0: [gate]})
        assert not harness.device.close(0.01)
        gate.signal()
        harness.wait(outcome)
        assert harness.device.close(PATIENCE_S)


def test_many_threads_may_submit_at_the_same_time(harness: Harness) -> None:
    builder = harness.build()
    source, middle = builder.input(), builder.intermediate()
    builder.call(lambda a, out: np.add(a, 1, out), source, middle)
    split = builder.segment(stream=1, waits=[0])
    builder.call(lambda a, out: np.add(a, 1, out), middle, builder.intermediate())
    builder.segment(stream=0, waits=[split])
    builder.call(lambda a, out: np.multiply(a, 2, out), middle, builder.output())
    executable = harness.instantiate(builder.plan())
    threads, each = (1, 1000) if isinstance(harness.device, SimDevice) else (4, 250)
    results: list[tuple[int, Any, Array]] = []

    def submit_many(number: int) -> None:
        for index in range(number * each, (number + 1) * each):
            output = harness.array(np.zeros(4))
            results.append((index, harness.submit(executable, [harness.array(np.full(4, index)), output]), output))

    submitters = [threading.Thread(target=submit_many, args=(number,)) for number in range(threads)]
    for thread in submitters:
        thread.start()
    for thread in submitters:
        thread.join()
    for index, outcome, output in results:
        assert harness.wait(outcome).error is None
        assert output.tolist() == [2.0 * (index + 1)] * 4
