"""Accesses and stains across replays. Law: the ledger alone; no run is started, failed or cancelled by anybody."""

from __future__ import annotations

import pytest

from asyncjit.deps import Region
from asyncjit.errors import InternalError
from asyncjit.ledger import Ledger
from asyncjit.records import GroupState, Run, State
from tests.core.scheduler_driver import A, B, Range, bound

GROUP = GroupState("f")


class Book:
    """A ledger and runs with tickets."""

    def __init__(self) -> None:
        self.ledger = Ledger()

    def run(
        self,
        ticket: int,
        *,
        reads: tuple[Range, ...] = (),
        writes: tuple[Range, ...] = (),
        outputs: tuple[int, ...] = (),
        segment: int = 0,
        weights: tuple[Range, ...] = (),
    ) -> Run:
        """A live run that has not looked yet."""
        run = bound(Run(GROUP), reads=reads, writes=writes, outputs=outputs, segment=segment)
        run.ticket = ticket
        if weights:
            assert run.footprint is not None
            run.footprint.read_set = self.ledger.tracker.read_set([Region(*weight) for weight in weights])
            run.footprint.read_set_segment = segment
        self.ledger.live[ticket] = run
        return run

    def enter(self, ticket: int, **accesses: object) -> Run:
        """A live run that has looked and is recorded."""
        run = self.run(ticket, **accesses)  # type: ignore[arg-type]
        self.ledger.look(run)
        self.ledger.record(run)
        return run

    def fail(self, run: Run) -> None:
        run.state = State.FAILED
        self.ledger.withdraw(run)
        for other in run.successors:
            del other.predecessors[run]
            other.needs.discard(run)
        run.successors.clear()
        self.ledger.stain(run, run.writes())

    def check(self) -> None:
        def check(condition: bool, message: str) -> None:
            if not condition:
                raise InternalError(message)

        self.ledger.verify(check)


@pytest.fixture
def book() -> Book:
    return Book()


# Links.


def test_a_reader_needs_the_last_writer_and_a_writer_follows_the_readers_since(book: Book) -> None:
    first = book.enter(1, writes=(A,))
    reader = book.enter(2, reads=(A,), segment=3)
    second = book.enter(3, writes=(A,))
    assert (reader.predecessors, reader.needs) == ({first: 3}, {first})
    assert (second.predecessors, second.needs) == ({first: 0, reader: 0}, set())
    assert first.successors == [reader, second]
    book.check()


def test_the_earliest_segment_that_touches_what_another_touches_is_the_one_that_waits(book: Book) -> None:
    writer = book.enter(1, writes=(A, B))
    reader = book.run(2, reads=(A,), segment=2, weights=(B,))
    assert reader.footprint is not None
    reader.footprint.read_set_segment = 1
    book.ledger.look(reader)
    assert reader.predecessors == {writer: 1}
    reader.footprint.read_set_segment = 4
    book.ledger.unlink(reader)
    book.ledger.look(reader)
    assert reader.predecessors == {writer: 2}
    assert reader.needs == {writer}


def test_ranges_that_do_not_meet_wait_for_nobody(book: Book) -> None:
    book.enter(1, writes=((1, 0, 4),))
    assert not book.enter(2, writes=((1, 4, 8),)).predecessors
    book.check()


def test_a_run_is_untouched_while_nobody_knows_its_buffers(book: Book) -> None:
    ledger = book.ledger
    assert ledger.is_blank
    run = book.run(9, reads=(A,), weights=(B,))
    assert ledger.is_untouched(run)
    assert not ledger.is_blank
    other = book.enter(1, writes=(A,))
    assert not ledger.is_untouched(run)
    ledger.release(other)
    other = book.enter(2, writes=(B,))
    assert not ledger.is_untouched(run)
    ledger.release(other)
    assert ledger.is_untouched(run)


@pytest.mark.parametrize("stained", [A, B])
def test_a_run_is_not_untouched_by_stains_on_its_buffers_or_its_read_set(book: Book, stained: Range) -> None:
    run = book.run(9, reads=(A,), weights=(B,))
    book.ledger.stain(book.run(1), [Region(7, 0, 8)])
    assert book.ledger.is_untouched(run)
    book.ledger.stain(book.run(2), [Region(*stained)])
    assert not book.ledger.is_untouched(run)
    assert book.ledger.is_untouched(book.run(10, reads=((5, 0, 8),)))


def test_release_forgets_the_run_and_heals_what_it_wrote_even_when_it_was_never_recorded(book: Book) -> None:
    failed = book.enter(1, writes=(A,))
    book.fail(failed)
    recorded = book.enter(2, writes=(B,))
    book.ledger.release(recorded)
    assert 2 not in book.ledger.live
    assert len(book.ledger.stains) == 1
    inline = book.run(3, writes=(A,))
    book.ledger.release(inline)
    assert not book.ledger.stains.by_key
    assert book.ledger.tracker.entry_count == 0


# Ends before their time.


def test_what_a_withdrawn_writer_hid_shows_again_after_relinking(book: Book) -> None:
    reader = book.enter(1, reads=(A,))
    hider = book.enter(2, writes=(A,))
    writer = book.enter(3, writes=(A,))
    assert writer.predecessors == {hider: 0}
    book.fail(hider)
    assert book.ledger.is_stale
    with pytest.raises(InternalError, match="out of date"):
        book.check()
    assert list(book.ledger.relink()) == []
    assert writer.predecessors == {reader: 0}
    book.check()


def test_withdrawing_work_that_writes_only_outputs_or_waits_for_nobody_needs_no_relinking(book: Book) -> None:
    first = book.enter(1, writes=(A,))
    book.ledger.withdraw(book.enter(2, reads=(A,), outputs=(50,)))
    book.ledger.withdraw(first)
    book.ledger.withdraw(book.run(3, writes=(A,)))
    assert not book.ledger.is_stale
    assert book.ledger.tracker.entry_count == 0


def test_relinking_yields_readers_of_stains_in_ticket_order_so_that_one_failure_finds_the_next(book: Book) -> None:
    old = book.enter(1, writes=(A,))
    waits = book.enter(2, reads=(B,))
    hider = book.enter(3, writes=(A, B))
    first = book.enter(4, reads=(A,), writes=((3, 0, 8),))
    second = book.enter(5, reads=((3, 0, 8),))
    book.fail(old)
    assert hider.predecessors == {waits: 0}
    book.ledger.withdraw(hider)
    found = []
    for run, source in book.ledger.relink():
        found.append((run, source))
        book.fail(run)
    assert found == [(first, old), (second, first)]
    book.check()


def test_relinking_leaves_started_runs_alone(book: Book) -> None:
    old = book.enter(1, writes=(A,))
    doomed = book.enter(2, reads=(A,))
    doomed.state = State.DOOMED
    book.fail(old)
    assert list(book.ledger.relink()) == []
    assert doomed.recorded


# Stains.


def test_a_stain_is_seen_by_later_runs_and_not_by_earlier_ones(book: Book) -> None:
    failed = book.enter(5, writes=(A,))
    book.fail(failed)
    assert book.ledger.look(book.run(6, reads=((1, 2, 3),))) is failed
    assert book.ledger.look(book.run(4, reads=(A,))) is None
    assert book.ledger.look(book.run(7, writes=(A,))) is None
    assert book.ledger.look(book.run(8, reads=(B,))) is None


def test_a_stain_is_seen_through_a_read_set(book: Book) -> None:
    failed = book.enter(1, outputs=(1,))
    book.fail(failed)
    assert book.ledger.look(book.run(2, weights=(A, B))) is failed
    assert book.ledger.look(book.run(3, weights=(B,))) is None


def test_a_live_writer_hides_the_part_of_a_stain_that_it_overwrites(book: Book) -> None:
    failed = book.enter(1, writes=(A,))
    book.fail(failed)
    book.enter(2, writes=((1, 2, 6), B))
    assert book.ledger.look(book.run(3, reads=((1, 2, 6),))) is None
    assert book.ledger.look(book.run(4, reads=((1, 5, 7),))) is failed


def test_a_writer_before_the_failed_run_hides_nothing(book: Book) -> None:
    book.enter(1, writes=(A,))
    failed = book.run(2, writes=(A,))
    book.fail(failed)
    assert book.ledger.look(book.run(3, reads=(A,))) is failed


def test_a_function_that_fails_at_every_call_leaves_one_stain(book: Book) -> None:
    for ticket in range(1, 200):
        run = book.run(ticket, writes=(A,))
        book.fail(run)
    assert len(book.ledger.stains) == 1


def test_a_freed_buffer_leaves_neither_entries_nor_stains(book: Book) -> None:
    book.fail(book.enter(1, outputs=(50,)))
    book.enter(2, writes=(A,))
    for key in (50, 1, 77):
        book.ledger.forget(key)
    assert not book.ledger.stains.by_key
    assert book.ledger.tracker.entry_count == 0


# The verifier.


def test_the_verifier_misses_no_unordered_conflict(book: Book) -> None:
    writer = book.enter(1, writes=(A,), segment=1)
    reader = book.run(2, weights=(A,), segment=1)
    book.ledger.record(reader)
    with pytest.raises(InternalError, match="does not wait for"):
        book.check()
    writer.successors.append(reader)
    reader.predecessors[writer] = 2
    with pytest.raises(InternalError, match="does not wait for"):
        book.check()
    reader.predecessors[writer] = 1
    book.check()


def test_the_verifier_knows_readings_of_read_sets(book: Book) -> None:
    book.enter(1, weights=(A,))
    book.ledger.record(book.run(2, writes=(A,)))
    with pytest.raises(InternalError, match="does not wait for"):
        book.check()


def test_the_verifier_checks_links_in_both_directions(book: Book) -> None:
    writer, reader = book.enter(1, writes=(A,)), book.enter(2, reads=(A,))
    reader.needs.add(reader)
    with pytest.raises(InternalError, match="not its predecessor"):
        book.check()
    reader.needs.clear()
    writer.successors.clear()
    with pytest.raises(InternalError, match="does not know its successor"):
        book.check()
    writer.successors.append(reader)
    writer.state = State.DONE
    with pytest.raises(InternalError, match="still waits for"):
        book.check()
    writer.state, writer.ticket = State.RUNNING, 3
    with pytest.raises(InternalError, match="ticket order"):
        book.check()


def test_what_is_recorded_is_entered_when_the_next_looks_and_in_order() -> None:
    book = Book()
    for ticket, writes in ((1, (A, B)), (2, (A,))):
        book.ledger.record(book.run(ticket, writes=writes))
    reader = book.run(3, reads=(A, B))
    assert not book.ledger.is_untouched(reader)
    book.ledger.look(reader)
    assert sorted(run.ticket for run in reader.predecessors) == [1, 2]
    reader = book.run(4, reads=(A,))
    book.ledger.look(reader)
    assert [run.ticket for run in reader.predecessors] == [2]
