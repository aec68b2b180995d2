"""Watches of byte ranges: which writes they see."""

from __future__ import annotations

import gc

from asyncjit.deps import Region
from asyncjit.runs import Footprint, GroupState, Run, Touch
from asyncjit.watches import Watch, Watches


def a_writer(ticket: int, key: int, start: int, stop: int) -> Run:
    run = Run(GroupState("writer"))
    run.ticket = ticket
    run.bind("cpu", Footprint(((0, (), (Touch(0, start, stop, 0, 0),)),)), [key], [0])
    return run


def test_only_writes_that_meet_the_bytes_count_and_the_latest_ticket_stays() -> None:
    watches = Watches()
    watch = Watch([Region(7, 16, 32), Region(8, 0, 4)], 3)
    watches.add(watch)
    assert watch.written_at == 3
    for ticket, key, start, stop in ((4, 7, 0, 16), (5, 7, 32, 64), (6, 9, 0, 64), (7, 8, 4, 8)):
        watches.note(a_writer(ticket, key, start, stop))
    assert watch.written_at == 3
    watches.note(a_writer(9, 7, 31, 40))
    assert watch.written_at == 9
    watches.note(a_writer(8, 8, 0, 1))
    assert watch.written_at == 9
    watches.note(a_writer(10, 8, 0, 1))
    assert watch.written_at == 10


def test_reads_and_new_outputs_are_no_writes() -> None:
    watches = Watches()
    watch = Watch([Region(7, 0, 64)], 0)
    watches.add(watch)
    run = Run(GroupState("reader"))
    run.ticket = 1
    run.bind("cpu", Footprint(((0, (Touch(0, 0, 64, 0, 0),), ()),)), [7], [0])
    run.outputs = [8]
    watches.note(run)
    assert watch.written_at == 0


def test_a_watch_that_nobody_holds_leaves_nothing_behind() -> None:
    watches = Watches()
    watches.add(Watch([Region(7, 0, 64)], 0))
    gc.collect()
    watches.note(a_writer(1, 7, 0, 64))
    held = Watch([Region(8, 0, 64)], 0)
    watches.add(held)
    assert list(watches.by_key) == [8]
