"""Arrival, rule by rule: what runs inline, first calls and their captures, limits.

Law: through ``Scheduler.step``. What becomes of a call once it is in the ledger is in ``test_flow``.
"""

from __future__ import annotations

import pytest

from asyncjit.errors import (
    CaptureError,
    DependencyError,
    EngineBusyError,
    EngineClosedError,
    InternalError,
    ReplayCancelledError,
)
from asyncjit.records import GroupState, State
from asyncjit.runs import (
    BeginCapture,
    CaptureTurn,
    Close,
    CloseDeadline,
    Reject,
    ReleaseWaiter,
    Resolve,
    Start,
    Submit,
)
from tests.core.scheduler_driver import A, B, Driver, bound, kinds

# Inline.


def test_small_work_with_nothing_to_wait_for_runs_at_once_and_leaves_no_entries(driver: Driver) -> None:
    run = driver.call(writes=(A,), inline=True)
    [start] = driver.commands
    assert isinstance(start, Start)
    assert (start.run, start.inline, start.gates) == (run, True, {})
    driver.done(run)
    # No frame was given to it, and nobody could begin to wait.
    assert kinds(driver) == []
    statistics = driver.scheduler.statistics()
    assert (statistics.inline, statistics.done, statistics.in_flight, statistics.tracker_entries) == (1, 1, 0, 0)


def test_readers_beside_readers_run_inline_and_whoever_has_to_wait_does_not(driver: Driver) -> None:
    reader = driver.call(reads=(A,))
    beside = driver.call(reads=(A,), inline=True)
    assert driver.scheduler.statistics().inline == 1
    driver.done(beside)
    assert driver.call(writes=(A,), inline=True).state is State.QUEUED
    driver.done(reader)
    assert driver.scheduler.statistics().inline == 1


def test_nothing_runs_inline_past_others_that_wait_for_room(driver: Driver) -> None:
    group = GroupState("narrow", in_flight_max=1)
    first = driver.call(group=group)
    assert driver.call(group=group, inline=True).state is State.QUEUED
    driver.done(first)


def test_an_inline_failure_leaves_a_stain_and_an_inline_overwriter_heals_it(driver: Driver) -> None:
    driver.failed(driver.call(writes=(A,), inline=True))
    assert driver.call(reads=(A,), inline=True).state is State.FAILED
    driver.done(driver.call(writes=(A,), inline=True))
    assert driver.call(reads=(A,), inline=True).state is State.RUNNING
    driver.done(driver.commands[0].run)  # type: ignore[attr-defined]


# First calls.


def test_one_capture_a_signature_at_a_time_and_everybody_replays_in_order_of_arrival(driver: Driver) -> None:
    leader = driver.first_call()
    assert kinds(driver) == [BeginCapture]
    second, third = driver.first_call(), driver.first_call()
    assert driver.commands == []
    assert (leader.state, second.state) == (State.CAPTURING, State.AWAITING_CAPTURE)
    driver.captured(leader)
    assert kinds(driver) == [BeginCapture, Start]
    driver.captured(second)
    driver.captured(third)
    assert [run.ticket for run in (leader, second, third)] == [1, 2, 3]
    assert third.state is State.RUNNING


def test_different_signatures_and_different_functions_are_captured_side_by_side(driver: Driver) -> None:
    runs = [driver.first_call("s"), driver.first_call("t"), driver.first_call("s", GroupState("g"))]
    assert {run.state for run in runs} == {State.CAPTURING}


def test_a_run_stands_behind_a_capture_only_when_it_came_after_a_second_call(driver: Driver) -> None:
    leader = driver.first_call()
    early = driver.call(reads=(A,))
    assert not driver.scheduler.stands_behind(leader, early)
    second = driver.first_call()
    late = driver.call(reads=(A,))
    assert [driver.scheduler.stands_behind(leader, run) for run in (early, second, late)] == [False, True, True]
    assert not driver.scheduler.stands_behind(late, second)
    driver.captured(leader)
    assert not driver.scheduler.stands_behind(leader, leader)
    driver.captured(second)
    assert not driver.scheduler.stands_behind(second, late)


def test_a_capture_alone_holds_nobody_up_and_takes_its_ticket_when_it_has_ended(driver: Driver) -> None:
    leader = driver.first_call()
    beside = driver.call(reads=(A,))
    assert (beside.ticket, beside.state, leader.ticket) == (1, State.RUNNING, 0)
    bound(leader, writes=(A,))
    driver.captured(leader)
    assert (leader.ticket, leader.state) == (2, State.QUEUED)
    driver.done(beside)
    assert leader.state is State.RUNNING


def test_a_capture_that_fails_alone_leaves_no_ticket_behind(driver: Driver) -> None:
    leader = driver.first_call()
    assert not driver.scheduler.is_idle
    driver.capture_failed(leader, CaptureError("no"))
    assert (leader.ticket, driver.scheduler.is_idle) == (0, True)
    assert driver.call(reads=(A,)).ticket == 1


def test_calls_behind_callers_of_one_capture_are_held_until_their_footprints_are_known(driver: Driver) -> None:
    leader, second = driver.first_call(), driver.first_call()
    behind = driver.call(reads=(A,), inline=True)
    assert (leader.ticket, second.ticket, behind.ticket, behind.state) == (1, 2, 3, State.QUEUED)
    bound(leader, writes=(A,))
    driver.captured(leader)
    driver.captured(second)
    assert behind.state is State.QUEUED
    driver.done(leader)
    assert behind.state is State.RUNNING


def test_when_the_leader_fails_the_next_takes_over(driver: Driver) -> None:
    leader, second, behind = driver.first_call(), driver.first_call(), driver.call()
    error = CaptureError("no")
    driver.capture_failed(leader, error)
    assert kinds(driver) == [Resolve, BeginCapture]
    assert (leader.error, leader.state, second.state) == (error, State.FAILED, State.CAPTURING)
    driver.capture_failed(second, error)
    assert behind.state is State.RUNNING


@pytest.mark.parametrize("how", ["cancel", "drop the only wait"])
def test_a_leader_that_is_cancelled_ends_its_capture_for_the_next_and_is_removed(driver: Driver, how: str) -> None:
    leader, second = driver.first_call(), driver.first_call()
    if how == "cancel":
        assert driver.cancel(leader) == []
    else:
        driver.wait(leader)
        assert [type(command) for command in driver.drop_wait(leader)] == [ReleaseWaiter]
    driver.captured(leader)
    assert kinds(driver) == [BeginCapture, Resolve]
    assert isinstance(leader.error, ReplayCancelledError)
    assert second.state is State.CAPTURING


def test_a_leader_that_somebody_waits_for_again_is_wanted_again(driver: Driver) -> None:
    leader = driver.first_call()
    driver.wait(leader)
    driver.drop_wait(leader)
    driver.wait(leader)
    driver.captured(leader)
    assert leader.state is State.RUNNING


def test_a_leader_whose_outputs_were_passed_on_is_wanted_whoever_waits(driver: Driver) -> None:
    leader, second = driver.first_call(), driver.first_call()
    bound(leader, outputs=(50,))
    reader = driver.call(reads=((50, 0, 4),))
    driver.wait(leader)
    driver.drop_wait(leader)
    driver.captured(leader)
    driver.captured(second)
    driver.done(leader)
    assert reader.state is State.RUNNING


def test_whoever_waits_for_a_capture_can_be_cancelled(driver: Driver) -> None:
    leader, second, third = (driver.first_call() for _ in range(3))
    driver.cancel(second)
    assert second.state is State.DROPPED
    driver.wait(third)
    driver.drop_wait(third)
    assert third.state is State.DROPPED
    driver.captured(leader)
    assert kinds(driver) == [Start]
    assert driver.scheduler.statistics().dropped == 2


def test_a_queued_call_behind_a_capture_can_be_cancelled(driver: Driver) -> None:
    leader, second = driver.first_call(), driver.first_call()
    behind = driver.call(outputs=(50,))
    reader = driver.call(reads=((50, 0, 4),))
    driver.cancel(behind)
    driver.captured(leader)
    driver.captured(second)
    assert isinstance(reader.error, DependencyError)


def test_only_captures_that_were_asked_for_end(driver: Driver) -> None:
    leader, second = driver.first_call(), driver.first_call()
    with pytest.raises(InternalError, match="no rule for CaptureTurn"):
        driver.step(CaptureTurn(second))
    driver.captured(leader)


# Limits.


def test_a_call_beyond_the_queue_limit_is_rejected_and_leaves_no_trace() -> None:
    driver = Driver(replays_queued_max=1)
    driver.call(writes=(A,))
    queued = driver.call(reads=(A,))
    rejected = driver.call(writes=(A,))
    [command] = driver.commands
    assert isinstance(command, Reject)
    assert isinstance(command.error, EngineBusyError)
    assert (rejected.ticket, rejected.predecessors, queued.successors) == (0, {}, [])
    assert driver.call(reads=(B,)).state is State.RUNNING
    exempt = driver.call(reads=(A,), group=GroupState("eager", exempt=True))
    assert exempt.state is State.QUEUED
    driver.scheduler.verify()


def test_the_queue_limit_holds_for_whoever_waits_for_a_capture_or_behind_one() -> None:
    driver = Driver(replays_queued_max=1)
    leader = driver.first_call()
    driver.first_call()
    for rejected in (driver.first_call(), driver.call()):
        assert rejected.ticket == 0
        assert kinds(driver) == [Reject]
    assert driver.first_call("other").state is State.CAPTURING
    driver.captured(leader)
    driver.scheduler.verify()


def test_a_call_beyond_the_memory_limit_is_rejected() -> None:
    driver = Driver(memory_bytes_max=100)
    driver.step(Submit(driver.new_run(), False, 60, 40))
    assert kinds(driver) == [Start]
    driver.step(Submit(driver.new_run(), False, 60, 41))
    [command] = driver.commands
    assert isinstance(command, Reject)
    assert isinstance(command.error, EngineBusyError)
    assert command.error.limit == "memory_bytes_max"


def test_a_first_call_that_turns_out_too_large_fails_with_that_and_the_next_goes_on() -> None:
    driver = Driver(memory_bytes_max=100)
    leader, second = driver.first_call(), driver.first_call()
    driver.captured(leader, memory_bytes=60, new_bytes=41)
    assert isinstance(leader.error, EngineBusyError)
    driver.captured(second, memory_bytes=60, new_bytes=40)
    assert second.state is State.RUNNING
    driver.scheduler.verify()


# Closing.


def test_after_close_calls_are_rejected_and_a_capture_that_was_taken_replays(driver: Driver) -> None:
    leader = driver.first_call()
    driver.step(Close())
    for late in (driver.call(), driver.first_call("t")):
        [command] = driver.commands
        assert isinstance(command, Reject)
        assert isinstance(command.error, EngineClosedError)
        assert late.ticket == 0
    driver.captured(leader)
    assert leader.state is State.RUNNING


def test_a_capture_that_ends_after_the_deadline_fails(driver: Driver) -> None:
    leader = driver.first_call()
    driver.step(CloseDeadline())
    driver.captured(leader)
    assert (leader.state, type(leader.error)) == (State.FAILED, EngineClosedError)
