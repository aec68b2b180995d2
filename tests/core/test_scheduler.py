"""What the outside says and what it gets: outcomes, waits, cancellation, losses, closing, what can be seen.

Law: rules one by one, through ``Scheduler.step``. Arrival has ``test_arrival``; what ends set free has ``test_flow``.
"""

from __future__ import annotations

import pytest

from asyncjit.deps import Region
from asyncjit.errors import (
    DependencyError,
    DeviceLostError,
    EngineClosedError,
    InternalError,
)
from asyncjit.records import GroupState, Run, State
from asyncjit.runs import (
    BufferFreed,
    CaptureTurn,
    Close,
    CloseDeadline,
    DeviceLost,
    Reject,
    Release,
    ReleaseWaiter,
    Resolve,
    RunDone,
    Start,
    Submit,
)
from tests.core.scheduler_driver import A, B, Driver, bound, kinds

# Outcomes.


def test_a_run_is_released_and_resolved_when_the_device_has_passed_it(driver: Driver) -> None:
    run = driver.call()
    driver.done(run)
    assert kinds(driver) == [Release, Resolve]
    assert run.state is State.DONE


def test_a_doomed_run_fails_with_its_reason_however_the_device_ends_it(driver: Driver) -> None:
    writer = driver.call(writes=(A,))
    readers = [driver.call(reads=(A,), segment=1) for _ in range(2)]
    driver.failed(writer)
    driver.done(readers[0])
    driver.failed(readers[1], ValueError("garbage in"))
    assert [type(run.error) for run in readers] == [DependencyError, DependencyError]


def test_the_end_of_a_run_lets_those_start_that_waited_for_it(driver: Driver) -> None:
    writer, reader = driver.call(writes=(A,)), driver.call(reads=(A,))
    driver.done(writer)
    assert kinds(driver) == [Release, Resolve, Start]
    assert driver.started() == [reader]


def test_what_succeeds_inline_leaves_nothing_to_do(driver: Driver) -> None:
    run = driver.call(writes=(A,), inline=True)
    driver.done(run)
    assert (driver.commands, run.state) == ([], State.DONE)


# Waits.


def test_a_queued_run_that_nobody_wants_any_more_is_removed_whole(driver: Driver) -> None:
    gate = driver.call(writes=(A,))
    run = driver.call(reads=(A,), writes=(B,))
    driver.wait(run)
    driver.drop_wait(run)
    assert kinds(driver) == [ReleaseWaiter, Resolve]
    assert run.state is State.DROPPED
    assert driver.call(reads=(B,)).state is State.RUNNING
    driver.done(gate)


def test_a_queued_run_stays_while_another_waits_or_somebody_holds_or_reads_its_outputs(driver: Driver) -> None:
    driver.call(writes=(A,))
    waited, held, read, weight = (driver.call(reads=(A,), outputs=(50 + index,)) for index in range(4))
    driver.call(reads=((52, 0, 4),))
    driver.call(weights=((53, 0, 4),))
    driver.wait(waited)
    for run in (waited, held, read, weight):
        driver.wait(run)
        driver.drop_wait(run, held=run is held)
        assert kinds(driver) == [ReleaseWaiter]
        assert run.state is State.QUEUED


def test_running_pure_work_lets_its_waiter_go_and_can_be_joined_again(driver: Driver) -> None:
    run = driver.call(reads=(A,), outputs=(50,))
    driver.wait(run)
    driver.drop_wait(run)
    assert (kinds(driver), run.state) == ([ReleaseWaiter], State.ABANDONED)
    driver.wait(run)
    assert run.state is State.RUNNING
    driver.drop_wait(run)
    driver.done(run)
    assert run.state is State.DONE


def test_abandoned_work_still_counts_for_room_and_for_order(driver: Driver) -> None:
    group = GroupState("narrow", in_flight_max=1)
    run = driver.call(reads=(A,), group=group)
    driver.wait(run)
    driver.drop_wait(run)
    assert driver.call(writes=(A,)).state is State.QUEUED
    assert driver.call(group=group).state is State.QUEUED
    driver.failed(run)
    assert run.state is State.FAILED


def test_running_pure_work_that_another_waits_for_is_not_abandoned(driver: Driver) -> None:
    run = driver.call()
    driver.wait(run)
    driver.wait(run)
    driver.drop_wait(run)
    assert run.state is State.RUNNING
    driver.drop_wait(run, held=True)
    assert run.state is State.RUNNING


def test_running_work_that_writes_state_keeps_its_waiter_until_it_is_done(driver: Driver) -> None:
    run = driver.call(writes=(A,))
    driver.wait(run)
    assert driver.drop_wait(run) == []
    driver.done(run)
    assert kinds(driver) == [Release, Resolve]


def test_a_function_may_ask_to_be_abandoned_though_it_writes_state(driver: Driver) -> None:
    run = driver.call(writes=(A,), group=GroupState("f", on_cancel="abandon"))
    driver.wait(run)
    driver.drop_wait(run)
    assert (kinds(driver), run.state) == ([ReleaseWaiter], State.ABANDONED)
    assert driver.call(reads=(A,)).state is State.QUEUED


def test_the_waiter_of_a_finished_run_goes_at_once(driver: Driver) -> None:
    run = driver.call()
    driver.wait(run)
    driver.done(run)
    driver.drop_wait(run)
    assert kinds(driver) == [ReleaseWaiter]


def test_cancel_removes_a_queued_run_whoever_waits_and_leaves_what_runs_or_is_over(driver: Driver) -> None:
    running = driver.call(writes=(A,))
    queued = driver.call(reads=(A,))
    driver.wait(queued)
    driver.wait(queued)
    driver.cancel(queued)
    assert kinds(driver) == [Resolve]
    assert driver.cancel(running) == []
    assert driver.cancel(queued) == []
    assert running.state is State.RUNNING


def test_cancelling_a_run_that_is_being_captured_is_remembered_until_the_capture_has_ended(driver: Driver) -> None:
    cancelled, unwanted = driver.first_call("s"), driver.first_call("t")
    driver.cancel(cancelled)
    driver.wait(unwanted)
    driver.drop_wait(unwanted)
    assert kinds(driver) == [ReleaseWaiter]
    for run in (cancelled, unwanted):
        driver.captured(run)
        assert run.state is State.DROPPED


# The world.


def test_a_lost_device_fails_all_that_is_on_it_and_others_go_on(driver: Driver) -> None:
    running = driver.call(writes=(A,), device="gpu")
    queued = driver.call(reads=(A,), writes=((3, 0, 8),), device="gpu", segment=0)
    elsewhere = driver.call(reads=(A,))
    other = driver.call(reads=(B,))
    driver.step(DeviceLost("gpu", OSError("gone")))
    assert kinds(driver) == [Release, Resolve, Release, Resolve, Resolve]
    for run in (running, queued):
        assert isinstance(run.error, DeviceLostError)
    assert isinstance(elsewhere.error, DependencyError)
    assert isinstance(elsewhere.error.__cause__, DeviceLostError)
    assert other.state is State.RUNNING
    assert driver.step(DeviceLost("gpu", OSError("again"))) == []
    assert driver.call(device="gpu").state is State.FAILED
    assert driver.call().state is State.RUNNING


def test_late_reports_of_a_lost_device_are_dropped_and_second_outcomes_are_our_error(driver: Driver) -> None:
    lost, fine = driver.call(device="gpu"), driver.call()
    driver.step(DeviceLost("gpu", OSError("gone")))
    driver.done(lost)
    assert driver.commands == []
    assert driver.failed(lost) == []
    driver.done(fine)
    with pytest.raises(InternalError, match="second outcome"):
        driver.step(RunDone(fine))
    with pytest.raises(InternalError, match="second outcome"):
        driver.failed(fine)


def test_a_freed_buffer_is_forgotten(driver: Driver) -> None:
    driver.failed(driver.call(outputs=(50,)))
    assert driver.scheduler.statistics().tracker_entries == 1
    driver.step(BufferFreed(50))
    assert driver.scheduler.statistics().tracker_entries == 0


def test_after_close_calls_are_rejected_and_what_was_taken_is_finished(driver: Driver) -> None:
    leader, behind = driver.first_call(), driver.call()
    driver.step(Close())
    driver.call()
    [command] = driver.commands
    assert isinstance(command, Reject)
    assert isinstance(command.error, EngineClosedError)
    driver.first_call("t")
    assert kinds(driver) == [Reject]
    driver.captured(leader)
    assert (leader.state, behind.state) == (State.RUNNING, State.RUNNING)
    assert not driver.scheduler.is_idle
    driver.done(leader, behind)
    assert driver.scheduler.is_idle


def test_at_the_deadline_whatever_has_not_started_fails_and_what_runs_is_waited_for(driver: Driver) -> None:
    running = driver.call(writes=(A,))
    queued = driver.call(reads=(A,), writes=(B,))
    reader = driver.call(reads=(B,))
    leader, waiting = driver.first_call(), driver.first_call()
    behind = driver.call()
    driver.step(CloseDeadline())
    for run in (queued, reader, waiting, behind):
        assert isinstance(run.error, EngineClosedError)
    assert (running.state, leader.state) == (State.RUNNING, State.CAPTURING)
    driver.captured(leader)
    assert isinstance(leader.error, EngineClosedError)
    driver.done(running)
    assert driver.scheduler.is_idle


# What can be seen.


def test_a_stimulus_without_a_rule_is_our_error(driver: Driver) -> None:
    with pytest.raises(InternalError, match="no rule for"):
        driver.step(CaptureTurn(driver.new_run()))


def test_ten_thousand_readers_of_one_weight_leave_nothing_behind(driver: Driver) -> None:
    read_set = driver.scheduler.read_set([Region(1, 0, 8)])
    run = driver.new_run()
    assert run.footprint is not None
    footprint = run.footprint
    footprint.read_set = read_set
    for index in range(10_000):
        run = bound(driver.new_run(), footprint=footprint)
        driver.step(Submit(run))
        driver.done(run)
        if index % 5_000 == 0:
            assert driver.scheduler.statistics().tracker_entries == 0
    assert driver.scheduler.statistics().tracker_entries == 0
    driver.scheduler.drop_read_set(read_set)
    assert not driver.scheduler._ledger.tracker.is_tracked(1)


def test_statistics_count_what_happened(driver: Driver) -> None:
    writer, reader = driver.call(writes=(A,)), driver.call(reads=(A,))
    cancelled = driver.call(reads=(A,))
    driver.cancel(cancelled)
    driver.failed(writer)
    driver.done(driver.call())
    found = driver.scheduler.statistics()
    assert (found.tickets, found.waits, found.done, found.failed, found.dropped) == (4, 2, 1, 2, 1)
    assert (found.queued, found.in_flight, found.in_flight_peak, found.gates, found.gates_avoided) == (0, 0, 1, 0, 0)
    assert reader.state is State.FAILED


def test_the_verifier_notices_runs_that_wait_for_nothing(driver: Driver) -> None:
    group = GroupState("narrow", in_flight_max=1)
    run = driver.call(group=group)
    run.recorded = False
    with pytest.raises(InternalError, match="not in the ledger"):
        driver.scheduler.verify()
    run.recorded = True
    leader, _second = driver.first_call(), driver.first_call()
    leader.state = State.QUEUED
    leader.blockers = 0
    driver.scheduler._queued += 1
    driver.scheduler._queued_counted += 1
    with pytest.raises(InternalError, match="arrivals wait for nothing"):
        driver.scheduler.verify()
    leader.state = State.CAPTURING
    driver.scheduler._queued -= 1
    driver.scheduler._queued_counted -= 1


# A quiet scheduler.


def test_one_step_of_a_quiet_scheduler_equals_an_inline_start_and_its_end() -> None:
    short, long = Driver(), Driver()
    assert short.scheduler.is_quiet
    for _ in range(2):
        run = bound(Run(short.group), writes=(A,))
        short.scheduler.step_at_once(run)
        assert (run.state, run.ticket) == (State.DONE, short.scheduler.statistics().tickets)
        long.done(long.call(writes=(A,), inline=True))
    assert short.scheduler.statistics() == long.scheduler.statistics()
    assert short.scheduler.story() == long.scheduler.story()
    assert short.scheduler.is_quiet


@pytest.mark.parametrize("what", ["runs", "captures", "is stained", "lost a device", "is closed", "is limited"])
def test_a_scheduler_is_not_quiet_while_anything(what: str) -> None:
    driver = Driver(memory_bytes_max=1) if what == "is limited" else Driver()
    if what == "runs":
        driver.call(reads=(A,))
    elif what == "captures":
        driver.first_call()
    elif what == "is stained":
        driver.failed(driver.call(writes=(A,)))
    elif what == "lost a device":
        driver.step(DeviceLost("gpu", OSError("gone")))
    elif what == "is closed":
        driver.step(Close())
    assert not driver.scheduler.is_quiet
