"""Ends before their time: runs that fail or are removed while others they hid, or that hid others, go on.

Law: the chains that a simpler scheduler would break, one by one; random ones are in ``test_order``.
"""

from __future__ import annotations

from asyncjit.errors import DeviceLostError, EngineClosedError
from asyncjit.records import GroupState, State
from asyncjit.runs import Close, CloseDeadline, DeviceLost, ReleaseWaiter
from tests.core.scheduler_driver import A, B, Driver, kinds


def test_a_failed_run_frees_nothing_that_it_still_waited_for(driver: Driver) -> None:
    """The reader still reads when the run that hid it fails: the next writer has to wait for the reader."""
    source, reader = driver.call(writes=(B,)), driver.call(reads=(A,))
    hider = driver.call(reads=(B,), writes=(A,))
    writer = driver.call(writes=(A,))
    driver.failed(source)
    assert hider.state is State.FAILED
    assert writer.state is State.QUEUED
    later = driver.call(writes=(A,))
    driver.done(reader)
    assert (writer.state, later.state) == (State.RUNNING, State.QUEUED)


def test_a_run_that_fails_on_arrival_hides_no_reader_either(driver: Driver) -> None:
    driver.failed(driver.call(writes=(B,)))
    reader = driver.call(reads=(A,))
    assert driver.call(reads=(B,), writes=(A,)).state is State.FAILED
    writer = driver.call(writes=(A,))
    assert writer.state is State.QUEUED
    driver.done(reader)
    assert writer.state is State.RUNNING


def test_an_earlier_writer_that_is_done_later_does_not_heal_a_later_failure(driver: Driver) -> None:
    driver.failed(driver.call(writes=(B,)))
    early = driver.call(writes=(A,))
    assert driver.call(reads=(B,), writes=(A,)).state is State.FAILED
    driver.done(early)
    assert driver.call(reads=(A,)).state is State.FAILED


def test_a_reader_of_state_survives_the_removal_of_a_writer_whose_outputs_it_does_not_read(driver: Driver) -> None:
    gate = driver.call(reads=(B,))
    removed = driver.call(writes=(A, B), outputs=(50,))
    reader = driver.call(reads=(A,))
    driver.cancel(removed)
    assert reader.state is State.RUNNING
    driver.done(gate)


def test_a_run_that_waits_for_nobody_is_removed_without_relinking(driver: Driver) -> None:
    group = GroupState("narrow", in_flight_max=1)
    first, removed = driver.call(group=group), driver.call(group=group, writes=(A,))
    reader = driver.call(reads=(A,))
    driver.cancel(removed)
    assert reader.state is State.RUNNING
    driver.done(first, reader)


def test_a_lost_device_takes_abandoned_and_doomed_work_along(driver: Driver) -> None:
    writer = driver.call(writes=(A,))
    doomed = driver.call(reads=(A,), device="gpu", segment=1)
    abandoned = driver.call(device="gpu")
    driver.wait(abandoned)
    driver.drop_wait(abandoned)
    driver.failed(writer)
    driver.step(DeviceLost("gpu", OSError("gone")))
    assert (doomed.state, abandoned.state) == (State.FAILED, State.FAILED)


def test_a_loss_is_known_to_calls_that_were_held_behind_a_capture(driver: Driver) -> None:
    leader, second = driver.first_call(), driver.first_call()
    behind = driver.call(device="gpu")
    driver.step(DeviceLost("gpu", OSError("gone")))
    assert behind.state is State.QUEUED
    driver.captured(leader)
    driver.captured(second)
    assert isinstance(behind.error, DeviceLostError)


def test_a_doomed_run_is_shielded_or_let_go_like_any_that_runs(driver: Driver) -> None:
    writer = driver.call(writes=(A,))
    pure = driver.call(reads=(A,), segment=1)
    abandoned = driver.call(reads=(A,), segment=1)
    driver.wait(abandoned)
    driver.drop_wait(abandoned)
    driver.failed(writer)
    assert (pure.state, abandoned.state) == (State.DOOMED, State.DOOMED)
    driver.wait(pure)
    driver.drop_wait(pure)
    assert (kinds(driver), pure.state) == ([ReleaseWaiter], State.DOOMED)


def test_whom_a_run_followed_stays_known_and_gates_are_told_from_what_had_ended(driver: Driver) -> None:
    first, behind, ahead = driver.call(writes=(A,)), driver.call(writes=(A,)), driver.call(writes=(A,), device="gpu")
    assert (first.followed, behind.followed, ahead.followed) == ((), (first.ticket,), (behind.ticket,))
    driver.done(first)
    found = driver.scheduler.statistics()
    assert (found.waits, found.gates, found.gates_avoided) == (2, 1, 1)
    # One that goes straight through.
    last = driver.call(writes=(A,), device="gpu")
    assert last.followed == (ahead.ticket,)
    assert driver.scheduler.statistics().gates == 2


def test_what_a_read_would_fail_with_is_known_when_no_read_is_taken_any_more(driver: Driver) -> None:
    """Also where a run with a lower ticket does well after the failure, which heals nothing."""
    early, late = driver.call(writes=(A,)), driver.call(writes=(A,))
    driver.step(Close())
    driver.step(CloseDeadline())
    assert late.state is State.FAILED
    driver.done(early)
    error = driver.scheduler.failure_read_by(driver.new_run(reads=(A,)))
    assert error is not None
    assert isinstance(error.__cause__, EngineClosedError)
    assert driver.scheduler.failure_read_by(driver.new_run(reads=(B,))) is None
