"""Faults that the simulated device injects.

Law: no sleeps and no threads; the device is stepped by the test.
"""

from __future__ import annotations

import pytest

from asyncjit.devices.sim import CallFault, LossFault, MemoryFault, SimDevice
from asyncjit.errors import DeviceLostError, DeviceOutOfMemoryError
from asyncjit.streams import Fence
from tests.sim.work import fork_join, submit


class TestFaults:
    def test_a_call_fails_on_demand(self) -> None:
        error = RuntimeError("injected")
        device = SimDevice(faults=[CallFault(submission=1, call=2, error=error)])
        executable = fork_join(device, 1)
        reports = [submit(device, executable)[1] for _ in range(3)]
        device.run_until_idle()
        assert reports == [[None], [error], [None]]
        failed = [(entry.submission, entry.call) for entry in device.trace if entry.kind == "call failed"]
        assert failed == [(1, 2)]

    def test_a_lost_device_fails_what_is_in_flight_and_refuses_the_rest(self) -> None:
        device = SimDevice(faults=[LossFault(at_s=2.5)])
        executable = fork_join(device, 3)
        submission, reports = submit(device, executable)
        device.run_until_idle()
        assert device.now_s == 2.5
        assert submission.fence.done
        assert [type(error) for error in reports] == [DeviceLostError]
        with pytest.raises(DeviceLostError, match=r"2\.5"):
            submit(device, executable)

    def test_what_was_done_before_the_loss_is_done(self) -> None:
        device = SimDevice(faults=[LossFault(at_s=100.0)])
        _, reports = submit(device, fork_join(device, 1))
        device.run_until_idle()
        assert reports == [None]
        device.clock.advance_to(100.0)
        with pytest.raises(DeviceLostError):
            submit(device, fork_join(device, 1))

    def test_gates_are_waited_for_even_when_the_device_is_lost(self) -> None:
        device = SimDevice(faults=[LossFault(at_s=2.5)])
        first, second = Fence(), Fence()
        held, reports = submit(device, fork_join(device, 2), gates={0: [first], 3: [second]})
        submit(device, fork_join(device, 2))
        device.run_until_idle()
        assert reports == []
        first.signal()
        assert not held.fence.done
        second.signal()
        assert held.fence.done
        assert [type(error) for error in reports] == [DeviceLostError]

    def test_a_loss_ends_each_submission_once(self) -> None:
        """The end of the first opens the last gate of the second, which so ends within the end of the first."""
        device = SimDevice(faults=[LossFault(at_s=2.5)])
        first, reports = submit(device, fork_join(device, 1))
        _, others = submit(device, fork_join(device, 1), gates={0: [first.fence]})
        device.run_until_idle()
        assert [type(error) for error in (*reports, *others)] == [DeviceLostError] * 2

    def test_an_allocation_finds_no_memory_on_demand(self) -> None:
        device = SimDevice(faults=[MemoryFault(allocation=1), MemoryFault(allocation=3)])
        device.allocate(8)
        with pytest.raises(DeviceOutOfMemoryError):
            device.allocate_array((2,), "float32")
        executable = fork_join(device, 1)
        executable.create_frame()
        with pytest.raises(MemoryError):
            executable.create_frame()
        executable.create_frame()
