"""The table of the life of a replay. Law: reads the table; whether the scheduler keeps to it is asked elsewhere."""

from __future__ import annotations

from asyncjit import runs
from asyncjit.runs import FINISHED, STARTED, TRANSITIONS, Command, Run, RunDone, RunFailed, State, Stimulus


def test_every_state_has_a_row_and_only_the_finished_have_no_way_out() -> None:
    assert set(TRANSITIONS) == set(State)
    assert {state for state, row in TRANSITIONS.items() if not row} == FINISHED


def test_every_state_can_be_reached_from_a_call() -> None:
    reached = {State.CAPTURING, State.AWAITING_CAPTURE, State.QUEUED}
    while fresh := {target for state in reached for target in TRANSITIONS[state].values()} - reached:
        reached |= fresh
    assert reached == set(State)


def test_whatever_has_started_takes_an_outcome_and_nothing_else_does() -> None:
    assert {state for state, row in TRANSITIONS.items() if RunDone in row} == STARTED
    assert {state for state, row in TRANSITIONS.items() if RunFailed in row} == STARTED


def test_nothing_started_is_ever_dropped_and_nothing_unstarted_is_ever_done() -> None:
    for state, row in TRANSITIONS.items():
        assert state not in STARTED or State.DROPPED not in row.values()
        assert state in STARTED or State.DONE not in row.values()


def test_stimuli_and_commands_are_all_exported() -> None:
    kinds = {*Stimulus.__subclasses__(), *Command.__subclasses__()}
    mine = {kind.__name__ for kind in kinds if kind.__module__ == runs.__name__}
    assert mine <= set(runs.__all__)
    assert {stimulus.__name__ for row in TRANSITIONS.values() for stimulus in row} <= mine
    assert Run.__name__ in runs.__all__
