"""What a refused or failed replay is told. Law: messages and what they carry."""

from __future__ import annotations

from asyncjit import refusals
from asyncjit.records import GroupState, Run, State


def run_of(name: str, ticket: int, state: State = State.QUEUED, error: BaseException | None = None) -> Run:
    run = Run(GroupState(name))
    run.ticket, run.state, run.error = ticket, state, error
    return run


def test_a_reader_is_told_who_failed_and_why() -> None:
    cause = ValueError("broken")
    error = refusals.source_failed(run_of("reader", 2), run_of("writer", 1, State.FAILED, cause))
    assert "replay 2 of 'reader' reads what replay 1 of 'writer' should have written" in str(error)
    assert "failed: broken" in str(error)
    assert (error.function, error.source, error.source_ticket) == ("reader", "writer", 1)
    assert error.__cause__ is cause


def test_the_chain_of_causes_does_not_grow_with_the_chain_of_readers() -> None:
    cause = ValueError("broken")
    source = run_of("f", 1, State.FAILED, cause)
    for ticket in range(2, 5):
        source = run_of("f", ticket, State.FAILED, refusals.source_failed(run_of("f", ticket), source))
        assert source.error is not None
        assert source.error.__cause__ is cause


def test_a_reader_of_what_was_removed_is_told_that_it_did_not_run() -> None:
    source = run_of("writer", 1, State.DROPPED)
    source.error = refusals.cancelled(source)
    error = refusals.source_failed(run_of("reader", 2), source)
    assert "did not run" in str(error)
    assert error.__cause__ is source.error


def test_every_refusal_names_what_was_given_and_what_to_do() -> None:
    run = run_of("f", 4)
    memory = refusals.memory_full(run, 900, 200, 1_000)
    assert (memory.limit, memory.given, memory.expected) == ("memory_bytes_max", 1_100, 1_000)
    queue = refusals.queue_full(run, 10, 10)
    assert (queue.limit, queue.given, queue.expected) == ("replays_queued_max", 10, 10)
    lost = refusals.device_lost("cpu", OSError("gone"))
    assert lost.device == "cpu"
    assert isinstance(lost.__cause__, OSError)
    assert refusals.cancelled(run).ticket == refusals.closed_before_start(run).ticket == 4
    told = [memory, queue, lost, refusals.cancelled(run), refusals.closed_before_start(run)]
    assert all(";" in str(error) for error in (*told, refusals.closed_at_call(run)))
