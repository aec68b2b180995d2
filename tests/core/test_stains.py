"""Bytes that hold nothing. Law: stains alone, and runs that have but a ticket; who sees them is the ledger's affair."""

from __future__ import annotations

import pytest

from asyncjit.deps import Region
from asyncjit.records import Footprint, GroupState, Run, Touch
from asyncjit.stains import Stains

GROUP = GroupState("f")

COLUMN = Region(1, 0, 5, 1, 4)


def region(key: int, start: int = 0, stop: int = 8) -> Region:
    return Region(key, start, stop)


def ticketed(ticket: int) -> Run:
    run = Run(GROUP)
    run.ticket = ticket
    return run


def test_a_stain_is_seen_by_later_runs_where_no_writer_in_between_covers_it() -> None:
    stains, failed, writer = Stains(), ticketed(2), ticketed(3)
    stains.add(failed, [region(1)], ())
    writer.bind("cpu", Footprint(((0, (), (Touch(0, 2, 6, 0, 0), Touch(1, 0, 8, 0, 0))),)), [1, 2], [0, 0])
    reader, earlier = ticketed(4), ticketed(1)
    assert stains.source(reader, [region(2), region(1, 4, 5)]) is failed
    reader.needs.add(writer)
    assert stains.source(reader, [region(1, 4, 5)]) is None
    assert stains.source(reader, [region(1, 5, 7)]) is failed
    assert stains.source(earlier, [region(1)]) is None
    writer.ticket = 1
    assert stains.source(reader, [region(1, 4, 5)]) is failed


def test_the_newest_failure_is_the_one_that_is_named() -> None:
    stains, old, new = Stains(), ticketed(1), ticketed(2)
    stains.add(old, [region(1)], ())
    stains.add(new, [region(1, 0, 4)], ())
    assert stains.source(ticketed(3), [region(1)]) is new
    assert stains.source(ticketed(3), [region(1, 4, 8)]) is old


def test_healing_takes_away_what_was_overwritten_and_leaves_the_rest_and_later_stains() -> None:
    stains = Stains()
    runs = {ticket: Run(GROUP) for ticket in (1, 2, 3)}
    for ticket, run in runs.items():
        run.ticket = ticket
    stains.add(runs[1], [region(1)], {})
    stains.add(runs[3], [region(1, 0, 1)], {})
    stains.heal(runs[2], [region(1, 0, 4), region(2)])
    assert stains.by_key == {1: [(runs[1], region(1, 4, 8)), (runs[3], region(1, 0, 1))]}
    runs[2].ticket = 4
    stains.heal(runs[2], [region(1)])
    assert stains.by_key == {}


def test_a_column_is_healed_as_a_whole() -> None:
    stains, failed, done = Stains(), Run(GROUP), Run(GROUP)
    failed.ticket, done.ticket = 1, 2
    stains.add(failed, [COLUMN], {})
    stains.heal(done, [region(1, 0, 4)])
    assert len(stains) == 1
    stains.heal(done, [COLUMN])
    assert not stains.by_key


@pytest.mark.parametrize(
    ("live", "left"),
    [
        ((), [9]),
        ((5,), [1, 9]),
        ((1, 9), [9]),
        ((2, 3, 4, 20, 21, 22, 23, 24, 25), [1, 9]),
        (tuple(range(10, 30)), [9]),
    ],
)
def test_a_newer_stain_replaces_what_it_covers_unless_a_live_run_stands_between(
    live: tuple[int, ...], left: list[int]
) -> None:
    stains, old, new = Stains(), Run(GROUP), Run(GROUP)
    old.ticket, new.ticket = 1, 9
    stains.add(old, [region(1, 2, 4)], live)
    stains.add(new, [region(1), region(2, 3, 3)], live)
    assert [run.ticket for run, _ in stains.by_key[1]] == left
    assert list(stains.by_key) == [1]


def test_an_older_stain_that_comes_late_takes_its_place_and_replaces_nothing() -> None:
    stains, old, new = Stains(), Run(GROUP), Run(GROUP)
    old.ticket, new.ticket = 1, 9
    stains.add(new, [region(1, 2, 4)], ())
    stains.add(old, [region(1)], ())
    assert [run.ticket for run, _ in stains.by_key[1]] == [1, 9]
