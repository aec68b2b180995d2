"""The CPU device beyond the protocol: threads, sharing of work, BLAS, names.

Law: order is made by events and barriers, never by waiting a while.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from asyncjit.devices import _blas, open_device
from asyncjit.devices.base import Submission
from asyncjit.devices.cpu import CpuDevice
from asyncjit.devices.null import NullDevice
from asyncjit.errors import DeviceError, DeviceLostError, DeviceUnavailableError
from asyncjit.ir import Access, Call, Kernel, Schedule
from asyncjit.streams import Fence
from tests._threads import threads_since
from tests.conformance.plans import PlanBuilder, whole
from tests.drivers.cpu_work import PATIENCE_S, one_call, run, submit, two_arms

Array = np.ndarray[Any, Any]


@pytest.fixture
def device() -> Any:
    opened = CpuDevice(workers=2)
    yield opened
    assert opened.close(PATIENCE_S)


class TestWorkers:
    def test_independent_segments_of_one_plan_run_at_the_same_time(self, device: CpuDevice) -> None:
        meeting = threading.Barrier(2)
        executable = two_arms(device, lambda out: meeting.wait(PATIENCE_S))
        for _ in range(5):
            run(device, executable)

    def test_what_becomes_ready_together_is_shared_with_an_idle_worker(self, device: CpuDevice) -> None:
        meeting = threading.Barrier(2)
        builder = PlanBuilder(device.name)
        root = builder.segment(stream=0)
        builder.call(lambda out: None, builder.intermediate())
        for stream, waits in ((0, []), (1, [root])):
            builder.segment(stream, waits)
            builder.call(lambda out: meeting.wait(PATIENCE_S), builder.intermediate())
        run(device, device.instantiate(builder.plan()))

    def test_two_submissions_run_at_the_same_time(self, device: CpuDevice) -> None:
        meeting = threading.Barrier(2)
        executable = one_call(device, lambda out: meeting.wait(PATIENCE_S))
        events = [submit(device, executable)[0] for _ in range(2)]
        assert all(event.wait(PATIENCE_S) for event in events)

    def test_a_plan_stays_on_one_worker_while_the_others_are_busy(self, device: CpuDevice) -> None:
        go, started, threads = threading.Event(), threading.Event(), list[str]()

        def block(out: Array) -> None:
            started.set()
            assert go.wait(PATIENCE_S)

        blocked, _ = submit(device, one_call(device, block))
        assert started.wait(PATIENCE_S)
        executable = two_arms(device, lambda out: threads.append(threading.current_thread().name))
        for _ in range(10):
            run(device, executable)
        go.set()
        assert blocked.wait(PATIENCE_S)
        assert len(threads) == 20
        assert len(set(threads)) == 1

    def test_threads_start_when_they_are_needed_and_carry_the_device_in_their_names(self, device: CpuDevice) -> None:
        def names() -> list[str]:
            return sorted(thread.name for thread in threads_since("asyncjit-cpu-"))

        assert names() == []
        run(device, one_call(device, lambda out: None))
        assert names() == ["asyncjit-cpu-0"]
        meeting = threading.Barrier(2)
        run(device, two_arms(device, lambda out: meeting.wait(PATIENCE_S)))
        assert names() == ["asyncjit-cpu-0", "asyncjit-cpu-1"]
        assert all(t.daemon for t in threading.enumerate() if t.name.startswith("asyncjit-cpu-"))

    def test_a_worker_may_close_its_own_device(self) -> None:
        device = CpuDevice(workers=1)
        closed = list[bool]()
        run(device, one_call(device, lambda out: None))
        executable = one_call(device, lambda out: None)
        submission = Submission(
            executable, executable.create_frame(), [], {}, lambda *outcome: closed.append(device.close(0.0)), Fence()
        )
        device.submit(submission)
        assert device.close(PATIENCE_S)
        # In its own report a submission still counts as taken.
        assert closed == [False]

    def test_a_system_that_has_no_more_threads_is_a_lost_device(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        device = CpuDevice(workers=2)
        executable = one_call(device, lambda out: None)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            with pytest.raises(DeviceLostError, match="cannot start the thread"):
                submit(device, executable)
        run(device, executable)
        started, go = threading.Event(), threading.Event()

        def block(out: Array) -> None:
            started.set()
            assert go.wait(PATIENCE_S)

        first, _ = submit(device, one_call(device, block))
        assert started.wait(PATIENCE_S)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            second, _ = submit(device, executable)
        go.set()
        assert first.wait(PATIENCE_S)
        assert second.wait(PATIENCE_S)
        assert device.close(PATIENCE_S)

    def test_a_device_needs_a_worker(self) -> None:
        with pytest.raises(ValueError, match="at least one worker"):
            CpuDevice(workers=0)
        assert CpuDevice().workers == CpuDevice().capabilities.streams_max == _blas.cores()
        assert repr(CpuDevice("cpu:7", workers=3)) == "CpuDevice('cpu:7', workers=3, in_flight=0)"


class TestBlas:
    def threads(self) -> set[int]:
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    def test_blas_threads_times_workers_are_at_most_the_cores_until_the_last_device_closes(self) -> None:
        before = self.threads()
        # The default engine, where a test before this one has used it, limits them as well.
        left = {min(_blas.cores(), *before)}
        first, second = CpuDevice(workers=_blas.cores()), CpuDevice("cpu:1", workers=1)
        run(second, one_call(second, lambda out: None))
        assert self.threads() == left
        run(first, one_call(first, lambda out: None))
        assert self.threads() == {1}
        assert first.close(PATIENCE_S)
        assert self.threads() == left
        assert second.close(PATIENCE_S)
        assert self.threads() == before

    def test_a_worker_that_starts_when_its_device_has_been_closed_takes_no_threads(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before, second_began, released = self.threads(), threading.Event(), threading.Event()
        device = CpuDevice(workers=2)
        work, release = device._work, _blas.release

        def work_late(number: int) -> None:
            if number == 1:
                second_began.set()
                assert released.wait(PATIENCE_S)
            work(number)

        def release_and_say(owner: object) -> None:
            release(owner)
            released.set()

        monkeypatch.setattr(device, "_work", work_late)
        monkeypatch.setattr(_blas, "release", release_and_say)
        run(device, two_arms(device, lambda out: second_began.wait(PATIENCE_S)))
        assert device.close(PATIENCE_S)
        assert second_began.is_set()
        assert self.threads() == before

    def test_a_limit_that_cannot_be_set_is_logged_and_work_goes_on(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(owner: object, workers: int) -> None:
            raise OSError("no libraries to be seen")

        monkeypatch.setattr(_blas, "reserve", fail)
        device = CpuDevice(workers=1)
        run(device, one_call(device, lambda out: None))
        assert "no libraries to be seen" in caplog.text
        assert device.close(PATIENCE_S)


def test_workers_measure_plans_of_one_segment(device: CpuDevice) -> None:
    builder = PlanBuilder(device.name)
    # A guess that is far too high, from the bytes; nothing of them is touched.
    builder.call(lambda out: None, builder.intermediate(1 << 24))
    executable = device.instantiate(builder.plan())
    guess = executable.estimated_s
    run(device, executable)
    assert executable.estimated_s < guess


def test_a_frame_is_aligned_and_zero_at_first() -> None:
    seen: list[tuple[int, float]] = []
    builder = PlanBuilder("cpu")
    for _ in range(3):
        builder.call(lambda out: seen.append((out.ctypes.data % 64, float(out.sum()))), builder.intermediate(40))
    device = CpuDevice(workers=1)
    run(device, device.instantiate(builder.plan()))
    assert device.close(PATIENCE_S)
    assert seen == [(0, 0.0)] * 3


def test_frames_that_are_gone_are_not_remembered(device: CpuDevice) -> None:
    builder = PlanBuilder(device.name)
    builder.call(lambda out: None, builder.state())
    executable = device.instantiate(builder.plan())
    for _ in range(100):
        executable.create_frame()
    frame = executable.create_frame()
    assert len(executable._frames) == 1
    executable.bind_state([(0, np.zeros(4, np.float32), 0)])
    del frame
    executable.bind_state([(0, np.zeros(4, np.float32), 0)])


def test_a_kernel_for_another_device_is_refused() -> None:
    builder = PlanBuilder("cpu")
    buffer = builder.intermediate()
    builder.call(lambda out: None, buffer)
    cuda_only = Call(Kernel("blur", (Access.WRITE,), (), "__global__ void blur(float *out) {}"), (whole(buffer),))
    plan = replace(builder.plan(), schedule=Schedule((cuda_only,)))
    with pytest.raises(DeviceError, match="'blur' has no implementation for the CPU"):
        CpuDevice(workers=1).instantiate(plan)


def test_a_plan_without_calls_completes(device: CpuDevice) -> None:
    run(device, device.instantiate(PlanBuilder(device.name).plan()))


def test_a_callback_that_raises_does_not_end_a_worker(device: CpuDevice, caplog: pytest.LogCaptureFixture) -> None:
    executable = one_call(device, lambda out: None)
    submission = Submission(executable, executable.create_frame(), [], {}, lambda *outcome: None, Fence())

    def callback() -> None:
        raise RuntimeError("broken callback")

    submission.fence.add_callback(callback)
    device.submit(submission)
    assert device.close(PATIENCE_S)
    assert "broken callback" in caplog.text


class TestNames:
    def test_devices_are_made_by_name(self) -> None:
        assert isinstance(open_device("cpu"), CpuDevice)
        assert open_device("cpu:1").name == "cpu:1"
        assert isinstance(open_device("null"), NullDevice)

    @pytest.mark.parametrize("name", ["tpu", "cpu:", "cpu:x", "", "sim", ":1"])
    def test_there_is_no_other(self, name: str) -> None:
        with pytest.raises(DeviceUnavailableError, match="there is no device"):
            open_device(name)
