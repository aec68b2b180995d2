"""From ticket to outcome, rule by rule: who may start, what an end sets free, what a failure takes along.

Law: through ``Scheduler.step`` with calls whose footprints are known; captures, waits and limits are in
``test_scheduler``.
"""

from __future__ import annotations

import pytest

from asyncjit.errors import DependencyError, DeviceLostError, InternalError, ReplayCancelledError
from asyncjit.records import Footprint, GroupState, Run, State, Touch
from asyncjit.runs import DeviceLost, Release, Resolve, Skip, Start, Submit
from tests.core.scheduler_driver import A, B, Driver, bound

# Order.


def test_tickets_are_taken_in_the_order_of_calls(driver: Driver) -> None:
    assert [driver.call().ticket for _ in range(3)] == [1, 2, 3]


def test_a_reader_is_held_back_until_the_writer_is_done(driver: Driver) -> None:
    writer = driver.call(writes=(A,))
    reader = driver.call(reads=(A,))
    assert (writer.state, reader.state) == (State.RUNNING, State.QUEUED)
    driver.done(writer)
    assert [type(command) for command in driver.commands] == [Release, Resolve, Start]
    assert driver.started() == [reader]


def test_a_writer_is_held_back_until_all_readers_are_done(driver: Driver) -> None:
    readers = [driver.call(reads=(A,)), driver.call(weights=(A,))]
    writer = driver.call(writes=(A,))
    driver.done(readers[1])
    assert writer.state is State.QUEUED
    driver.done(readers[0])
    assert writer.state is State.RUNNING


def test_readers_of_the_same_bytes_run_side_by_side(driver: Driver) -> None:
    assert {driver.call(reads=(A,), weights=(B,)).state for _ in range(3)} == {State.RUNNING}


def test_a_later_segment_that_waits_does_not_keep_a_run_from_starting(driver: Driver) -> None:
    writer = driver.call(writes=(A,))
    driver.call(reads=(A,), segment=2)
    [start] = driver.commands
    assert isinstance(start, Start)
    assert start.gates == {2: [writer]}


def test_a_gate_stands_before_every_segment_that_could_touch_the_bytes(driver: Driver) -> None:
    writer = driver.call(writes=(A,))
    touch = Touch(0, 0, 8, 0, 0)
    footprint = Footprint(((1, (touch,), ()),), fronts={1: (1, 3)})
    run = bound(Run(driver.group), reads=(A,), footprint=footprint)
    [start] = driver.step(Submit(run))
    assert isinstance(start, Start)
    assert start.gates == {1: [writer], 3: [writer]}


def test_a_device_that_gains_by_it_gets_work_whose_first_segment_still_waits(driver: Driver) -> None:
    writer = driver.call(writes=(A,), device="gpu")
    driver.call(reads=(A,), device="gpu")
    [start] = driver.commands
    assert isinstance(start, Start)
    assert start.gates == {0: [writer]}


def test_nobody_starts_before_what_comes_first_has_started(driver: Driver) -> None:
    writer = driver.call(writes=(A,))
    held = driver.call(reads=(A,), writes=(B,))
    late, last = driver.call(reads=(B,), segment=1), driver.call(reads=(B,))
    assert late.state is State.QUEUED
    driver.done(writer)
    assert driver.started() == [held, late]
    assert last.state is State.QUEUED


# Room.


def test_a_function_has_in_flight_max_replays_in_flight_and_the_next_in_order_follows(driver: Driver) -> None:
    group = GroupState("narrow", in_flight_max=2)
    runs = [driver.call(group=group) for _ in range(4)]
    assert [run.state for run in runs] == [State.RUNNING, State.RUNNING, State.QUEUED, State.QUEUED]
    driver.done(runs[1])
    assert driver.started() == [runs[2]]
    assert driver.scheduler.statistics().in_flight_peak == 2


def test_room_of_one_function_is_not_taken_by_another(driver: Driver) -> None:
    full = GroupState("full", in_flight_max=1)
    driver.call(group=full)
    driver.call(group=full)
    assert driver.call(group=GroupState("free", in_flight_max=1)).state is State.RUNNING


def test_who_waits_for_others_does_not_hold_up_who_waits_for_room_only(driver: Driver) -> None:
    group = GroupState("narrow", in_flight_max=1)
    writer = driver.call(writes=(A,))
    held = driver.call(reads=(A,), group=group)
    free = driver.call(group=group)
    assert (held.state, free.state) == (State.QUEUED, State.RUNNING)
    driver.done(writer)
    assert held.state is State.QUEUED
    driver.done(free)
    assert held.state is State.RUNNING


def test_a_removed_run_gives_its_place_in_the_queue_to_the_next(driver: Driver) -> None:
    group = GroupState("narrow", in_flight_max=1)
    first, second, third = (driver.call(group=group) for _ in range(3))
    driver.cancel(second)
    driver.done(first)
    assert driver.started() == [third]


def test_work_of_an_exempt_group_queues_without_being_counted_for_the_limit(driver: Driver) -> None:
    eager = GroupState("eager", in_flight_max=1, exempt=True)
    first, second = driver.call(group=eager), driver.call(group=eager)
    assert driver.scheduler.statistics().queued == 1
    driver.done(first, second)


# Failure.


def test_a_failure_takes_its_readers_along_and_theirs_and_chains_the_cause(driver: Driver) -> None:
    error = ValueError("broken")
    writer = driver.call(writes=(A,))
    reader = driver.call(reads=(A,), writes=(B,))
    second = driver.call(reads=(B,))
    other = driver.call(reads=((3, 0, 8),))
    driver.failed(writer, error)
    assert [type(command) for command in driver.commands] == [Release, Resolve, Resolve, Resolve]
    for run in (reader, second):
        assert isinstance(run.error, DependencyError)
        assert run.error.__cause__ is error
    assert other.state is State.RUNNING


def test_a_later_call_that_reads_what_failed_takes_a_ticket_and_fails(driver: Driver) -> None:
    driver.failed(driver.call(writes=(A,)))
    late = driver.call(reads=(A,), writes=(B,))
    assert (late.ticket, late.state) == (2, State.FAILED)
    assert [type(command) for command in driver.commands] == [Resolve]
    assert isinstance(driver.call(reads=(B,)).error, DependencyError)


def test_whoever_overwrites_what_failed_runs_and_heals_it(driver: Driver) -> None:
    writer = driver.call(writes=(A,))
    over = driver.call(writes=(A,))
    driver.failed(writer)
    assert over.state is State.RUNNING
    waiting = driver.call(reads=(A,))
    assert waiting.state is State.QUEUED
    driver.done(over)
    assert waiting.state is State.RUNNING
    assert driver.call(reads=(A,)).state is State.RUNNING


def test_every_range_of_a_failed_run_is_void_and_no_other(driver: Driver) -> None:
    driver.failed(driver.call(writes=((1, 0, 4),), outputs=(50,)))
    assert driver.call(reads=((1, 3, 5),)).state is State.FAILED
    assert driver.call(reads=((1, 4, 8),)).state is State.RUNNING
    assert driver.call(reads=((50, 0, 1),)).state is State.FAILED


def test_a_running_reader_of_a_failed_run_is_doomed_and_fails_when_the_device_has_passed_it(driver: Driver) -> None:
    writer = driver.call(writes=(A,))
    reader = driver.call(reads=(A,), writes=(B,), segment=1)
    third = driver.call(reads=(B,))
    driver.failed(writer)
    assert reader.state is State.DOOMED
    assert [type(command) for command in driver.commands] == [Release, Resolve, Skip]
    assert third.state is State.QUEUED
    driver.done(reader)
    assert (reader.state, third.state) == (State.FAILED, State.FAILED)
    assert isinstance(reader.error, DependencyError)


def test_a_doomed_run_keeps_its_reason_when_a_call_of_it_fails_too(driver: Driver) -> None:
    writer, second = driver.call(writes=(A,)), driver.call(writes=(B,))
    reader = driver.call(reads=(A, B), segment=1)
    driver.failed(writer)
    driver.failed(second)
    assert reader.state is State.DOOMED
    driver.failed(reader, ValueError("garbage in"))
    assert isinstance(reader.error, DependencyError)


def test_a_call_for_a_lost_device_takes_a_ticket_and_fails_even_if_it_could_run_inline(driver: Driver) -> None:
    driver.step(DeviceLost("cpu", OSError("gone")))
    run = driver.call(writes=(A,), inline=True)
    assert (run.ticket, run.state) == (1, State.FAILED)
    assert isinstance(run.error, DeviceLostError)
    assert isinstance(driver.call(reads=(A,), device="gpu").error, DependencyError)


# Removal.


def test_a_removed_writer_leaves_its_bytes_to_the_writer_before(driver: Driver) -> None:
    first = driver.call(writes=(A,))
    removed = driver.call(writes=(A,))
    reader = driver.call(reads=(A,))
    driver.cancel(removed)
    assert removed.state is State.DROPPED
    assert isinstance(removed.error, ReplayCancelledError)
    assert reader.needs == {first}
    driver.done(first)
    assert driver.started() == [reader]


def test_readers_of_the_outputs_of_a_removed_run_fail_and_overwriters_run(driver: Driver) -> None:
    driver.call(writes=(A,))
    removed = driver.call(reads=(A,), outputs=(50, 51))
    readers = [driver.call(reads=((50, 0, 4),)), driver.call(weights=((51, 0, 4),))]
    writer = driver.call(writes=((50, 0, 4),))
    driver.cancel(removed)
    assert [type(run.error) for run in readers] == [DependencyError, DependencyError]
    assert all(run.error is not None and run.error.__cause__ is removed.error for run in readers)
    assert writer.state is State.RUNNING
    assert isinstance(driver.call(reads=((51, 0, 4),)).error, DependencyError)


def test_a_removed_writer_that_hid_a_failure_brings_it_back(driver: Driver) -> None:
    gate = driver.call(reads=(A,))
    driver.failed(driver.call(writes=((1, 0, 4),), segment=1, device="gpu"))
    removed = driver.call(writes=(A,))
    readers = driver.call(reads=(A,), writes=(B,)), driver.call(reads=(B,))
    safe = driver.call(reads=((1, 4, 8),))
    driver.cancel(removed)
    assert [run.state for run in readers] == [State.FAILED, State.FAILED]
    assert isinstance(readers[0].error, DependencyError)
    assert (safe.state, gate.state) == (State.RUNNING, State.RUNNING)


def test_relinking_keeps_the_queue_for_room_in_ticket_order(driver: Driver) -> None:
    group = GroupState("narrow", in_flight_max=1)
    running, *queued = (driver.call(group=group) for _ in range(4))
    driver.call(reads=(A,))
    driver.cancel(driver.call(writes=(A,)))
    assert sorted(group.ready) == [run.ticket for run in queued]
    for run in (running, *queued):
        assert run.state is State.RUNNING
        driver.done(run)


# The table.


def test_what_the_table_does_not_allow_is_our_error_and_carries_the_story(driver: Driver) -> None:
    run = driver.call()
    with pytest.raises(InternalError, match="Captured does not happen to <run 1 of 'f': running>") as caught:
        driver.captured(run)
    assert caught.value.story == [(1, "Submit", State.QUEUED), (1, "Admitted", State.RUNNING)]


def test_the_story_of_a_run_is_what_happened_to_it(driver: Driver) -> None:
    first, second = driver.call(writes=(A,)), driver.call(reads=(A,))
    driver.done(first)
    scheduler = driver.scheduler
    assert [stimulus for _, stimulus, _ in scheduler.story(second)] == ["Submit", "Admitted"]
    assert [ticket for ticket, _, _ in scheduler.story()] == [1, 1, 2, 1, 2]


def test_a_run_made_at_once_has_the_story_of_one_that_was_admitted_and_done(driver: Driver) -> None:
    run = Run(driver.group)
    driver.scheduler.step_at_once(run)
    assert driver.scheduler.story(run) == [(1, "Admitted", State.RUNNING), (1, "RunDone", State.DONE)]


def test_the_verifier_notices_what_does_not_add_up(driver: Driver) -> None:
    group = GroupState("narrow", in_flight_max=1)
    driver.call(group=group)
    queued = driver.call(group=group)
    for name in ("_queued", "_queued_counted", "_in_flight"):
        setattr(driver.scheduler, name, getattr(driver.scheduler, name) + 1)
        with pytest.raises(InternalError, match="counted"):
            driver.scheduler.verify()
        setattr(driver.scheduler, name, getattr(driver.scheduler, name) - 1)
    queued.blockers = 1
    with pytest.raises(InternalError, match="blockers"):
        driver.scheduler.verify()
    queued.blockers = 0
    group.ready.clear()
    with pytest.raises(InternalError, match="does not wait for room"):
        driver.scheduler.verify()
    group.ready.append(queued.ticket)
    group.in_flight_max = 2
    with pytest.raises(InternalError, match="could start"):
        driver.scheduler.verify()
    group.in_flight_max = 1
    queued.state = State.DONE
    with pytest.raises(InternalError, match="still live"):
        driver.scheduler.verify()
    queued.state = State.QUEUED
