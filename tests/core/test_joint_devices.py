"""Runs on several devices together, and what the loss of one of these does to them."""

from __future__ import annotations

from asyncjit.errors import DeviceLostError
from asyncjit.records import GroupState, State
from asyncjit.runs import DeviceLost, Resolve, Skip, Start
from tests.core.scheduler_driver import A, B, Driver, kinds


def test_a_run_on_several_devices_ends_when_those_that_are_left_have_passed_it(driver: Driver) -> None:
    driver.scheduler.add_joint_device("cpu+gpu", ["cpu", "gpu"])
    running = driver.call(writes=(A,), device="cpu+gpu")
    behind = driver.call(writes=(A,))
    queued = driver.call(reads=(B,), device="cpu+gpu", group=GroupState("full", in_flight_max=0))
    other = driver.call(writes=(B,), device="cpu")
    driver.step(DeviceLost("gpu", OSError("gone")))
    assert kinds(driver) == [Skip, Resolve, Start]
    assert [run.state for run in (running, queued, behind)] == [State.DOOMED, State.FAILED, State.QUEUED]
    assert driver.started() == [other]
    assert isinstance(queued.error, DeviceLostError)
    driver.done(running)
    assert isinstance(running.error, DeviceLostError)
    assert driver.started() == [behind]
    assert driver.call(device="cpu+gpu").state is State.FAILED
    assert driver.call(device="cpu").state is State.RUNNING


def test_devices_are_joint_to_one_that_is_lost_already(driver: Driver) -> None:
    driver.step(DeviceLost("gpu", OSError("gone")))
    driver.scheduler.add_joint_device("cpu+gpu", ["cpu", "gpu"])
    assert isinstance(driver.call(device="cpu+gpu").error, DeviceLostError)
