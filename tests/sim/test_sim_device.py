"""The simulated device: virtual time, seeded order, and what it finds.

Law: no sleeps and no threads; the device is stepped by the test.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import numpy as np
import pytest

from asyncjit.clock import VirtualClock
from asyncjit.devices.base import Submission
from asyncjit.devices.sim import SimDevice
from asyncjit.errors import DeviceUnavailableError
from asyncjit.streams import Fence
from tests.conformance.plans import PlanBuilder
from tests.sim.work import fork_join, submit


class TestTime:
    def test_streams_overlap_and_calls_of_one_do_not(self) -> None:
        device = SimDevice()
        submission, _ = submit(device, fork_join(device, 3))
        device.run_until_idle()
        assert submission.fence.done
        assert device.now_s == 1 + 2 + 1

    def test_workers_bound_what_runs_at_the_same_time(self) -> None:
        device = SimDevice(workers=1)
        submit(device, fork_join(device, 3))
        device.run_until_idle()
        assert device.now_s == 1 + 3 * 2 + 1

    def test_a_hop_from_one_stream_to_another_takes_its_time(self) -> None:
        device = SimDevice(hop_s=0.25)
        submit(device, fork_join(device, 3))
        device.run_until_idle()
        assert device.now_s == 1 + 0.25 + 2 + 0.25 + 1

    def test_durations_come_from_the_caller(self) -> None:
        device = SimDevice(duration=lambda call: call.cost.nbytes + 0.5)
        executable = fork_join(device, 1)
        submission, _ = submit(device, executable, times=[])
        device.run_until_idle()
        assert device.now_s == executable.estimated_s == 2.0
        assert submission.times == [(0.0, 0.5, 0), (0.5, 1.0, 0), (1.0, 1.5, 0), (1.5, 2.0, 0)]

    def test_a_clock_may_be_shared(self) -> None:
        clock = VirtualClock(100.0)
        device = SimDevice(clock=clock)
        submit(device, fork_join(device, 1))
        device.run_until_idle()
        assert clock.now_s() == 104.0

    def test_one_step_is_one_thing(self) -> None:
        device = SimDevice()
        assert not device.step()
        submit(device, fork_join(device, 1))
        steps = 0
        while device.step():
            steps += 1
        assert steps > 4
        assert [entry.kind for entry in device.trace if entry.call == 0] == ["call done"]
        assert device.trace[-1].kind == "reported"


class TestSeed:
    def order(self, seed: int, workers: int | None = None) -> list[int]:
        device = SimDevice(seed=seed, workers=workers)
        submit(device, fork_join(device, 4))
        device.run_until_idle()
        return [entry.call for entry in device.trace if entry.kind == "call done"]

    def test_the_same_seed_gives_the_same_order(self) -> None:
        assert self.order(3) == self.order(3)

    @pytest.mark.parametrize("workers", [None, 1, 2])
    def test_seeds_reach_different_orders_that_all_keep_the_edges(self, workers: int | None) -> None:
        orders = {tuple(self.order(seed, workers)) for seed in range(30)}
        assert len(orders) > 5
        for order in orders:
            assert order[0] == 0
            assert order[-1] == 9
            assert all(order.index(call) < order.index(call + 1) for call in (1, 3, 5, 7))

    def test_submissions_interleave(self) -> None:
        first_done = set()
        for seed in range(20):
            device = SimDevice(seed=seed)
            executable = fork_join(device, 1)
            for _ in range(2):
                submit(device, executable)
            device.run_until_idle()
            first_done.add(next(entry.submission for entry in device.trace if entry.kind == "reported"))
        assert first_done == {0, 1}

    def test_a_missing_wait_gives_a_wrong_result_under_some_seed_and_a_given_one_under_none(self) -> None:
        def wrong_results(waits: list[int]) -> int:
            wrong = 0
            for seed in range(30):
                device = SimDevice(seed=seed)
                builder = PlanBuilder(device.name)
                source, middle = builder.input(), builder.intermediate()
                builder.segment(stream=0)
                builder.call("add", source, source, middle)
                builder.segment(stream=1, waits=waits)
                builder.call("add", middle, middle, builder.output())
                memory, output = device.allocate_array((4,), "float32"), device.allocate_array((4,), "float32")
                memory[:] = 1
                submit(device, device.instantiate(builder.plan()), bindings=[(memory, 0), (output, 0)])
                device.run_until_idle()
                wrong += output.tolist() != [4, 4, 4, 4]
            return wrong

        assert wrong_results([]) > 5
        assert wrong_results([0]) == 0


class TestPoison:
    def sum_of_frame(self, poison: bool) -> float:
        device = SimDevice(poison=poison)
        builder = PlanBuilder(device.name)
        unwritten = builder.intermediate()
        builder.call("add", unwritten, unwritten, builder.output())
        executable = device.instantiate(builder.plan())
        frame, output = executable.create_frame(), device.allocate_array((4,), "float32")
        submit(device, executable, frame=frame, bindings=[(output, 0)])
        device.run_until_idle()
        return float(output.sum())

    def test_what_no_call_wrote_shows(self) -> None:
        assert np.isnan(self.sum_of_frame(poison=True))
        assert self.sum_of_frame(poison=False) == 0.0

    def test_new_memory_holds_nonsense(self) -> None:
        assert np.isnan(SimDevice().allocate_array((3,), "float64")).all()
        assert SimDevice().allocate(3).tolist() == [255, 255, 255]


class TestSelfDriving:
    async def test_a_device_with_defer_runs_on_an_event_loop_by_itself(self) -> None:
        loop = asyncio.get_running_loop()
        device = SimDevice(defer=loop.call_soon)
        submission, reports = submit(device, fork_join(device, 3))
        assert not submission.fence.done
        fired = asyncio.Event()
        if submission.fence.add_callback(fired.set):
            await asyncio.wait_for(fired.wait(), 20)
        assert reports == [None]

    async def test_it_goes_to_sleep_and_wakes_for_the_next_submission(self) -> None:
        deferred: list[Any] = []
        device = SimDevice(defer=deferred.append)
        for _ in range(2):
            _, reports = submit(device, fork_join(device, 1))
            assert len(deferred) == 1
            while deferred:
                deferred.pop()()
                assert len(deferred) <= 1
            assert reports == [None]


def test_inline_replays_stand_in_the_trace_and_take_no_time() -> None:
    device = SimDevice(inline_s_max=10.0)
    builder = PlanBuilder(device.name)
    source = builder.input()
    builder.call("add", source, source, builder.output())
    executable = device.instantiate(builder.plan())
    memory, output = device.allocate_array((4,), "float32"), device.allocate_array((4,), "float32")
    memory[:] = 3
    bindings = [(memory, 0), (output, 0)]
    submission = Submission(executable, executable.create_frame(), bindings, {}, lambda *outcome: None, Fence())
    assert executable.runs_inline
    assert device.run_inline(submission) == (None, None)
    assert output.tolist() == [6] * 4
    assert device.trace[-1] == (0.0, "inline", 0, -1, -1)
    assert executable.estimated_s == 1.0


def test_a_plan_without_calls_is_done_when_it_is_its_turn() -> None:
    device = SimDevice()
    submission, reports = submit(device, device.instantiate(PlanBuilder(device.name).plan()))
    assert reports == []
    device.run_until_idle()
    assert reports == [None]
    assert submission.fence.done


def test_close_says_what_is_left() -> None:
    device = SimDevice()
    gate = Fence()
    submit(device, fork_join(device, 1), gates={0: [gate]})
    assert not device.close(1.0)
    gate.signal()
    assert device.close(1.0)


def test_a_report_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    device = SimDevice()
    executable = fork_join(device, 1)

    def report(submission: Submission, error: BaseException | None, call_index: int | None) -> None:
        raise RuntimeError("broken report")

    submission = Submission(executable, executable.create_frame(), [], {}, report, Fence())
    device.submit(submission)
    with caplog.at_level(logging.ERROR):
        device.run_until_idle()
    assert "broken report" in caplog.text
    assert submission.fence.done


def test_there_is_one_executor() -> None:
    with pytest.raises(DeviceUnavailableError):
        SimDevice().instantiate(PlanBuilder("sim").plan(), executor="native")
    SimDevice().instantiate(PlanBuilder("sim").plan(), executor="numpy")
