"""The orders that a hazard tracker owes, one at a time, on the smallest programs that need them.

Law: each test states the accesses and who must come before whom; the random comparison with an oracle is in
``test_deps``. A program is a list of (name, reads, writes); buffers are numbers, ranges are (buffer, start, stop).
"""

from __future__ import annotations

from collections.abc import Iterable

from asyncjit.deps import DepsTracker, Region

Range = tuple[int, int, int]
Step = tuple[str, list[Range], list[Range]]

A, B, C, WHOLE = 1, 2, 3, 64


def whole(*buffers: int) -> list[Range]:
    return [(buffer, 0, WHOLE) for buffer in buffers]


def regions(ranges: Iterable[Range]) -> list[Region]:
    return [Region(*each) for each in ranges]


def orders(*steps: Step, tracker: DepsTracker[str] | None = None, stream: str | None = None) -> dict[str, set[str]]:
    """For each step those that the tracker says it must follow."""
    tracker = DepsTracker() if tracker is None else tracker
    found = {}
    for name, reads, writes in steps:
        hazards = tracker.access(regions(reads), regions(writes), name, stream or name)
        found[name] = {*hazards.raw, *hazards.war, *hazards.waw}
    return found


def test_two_writes_to_one_buffer_keep_their_order() -> None:
    assert orders(("first", [], whole(A)), ("second", [], whole(A))) == {"first": set(), "second": {"first"}}


def test_a_write_waits_for_the_read_before_it() -> None:
    assert orders(("read", whole(A), whole(B)), ("write", [], whole(A))) == {"read": set(), "write": {"read"}}


def test_reads_of_one_buffer_are_not_ordered() -> None:
    assert orders(("one", whole(A), whole(B)), ("other", whole(A), whole(C))) == {"one": set(), "other": set()}


def test_a_result_written_back_to_where_it_came_from_waits_for_its_own_source() -> None:
    """``b = a + 1`` and then ``a = b * 2``: read after write on b, write after read on a."""
    tracker: DepsTracker[str] = DepsTracker()
    tracker.access(regions(whole(A)), regions(whole(B)), "there", 0)
    hazards = tracker.access(regions(whole(B)), regions(whole(A)), "back", 1)
    assert (hazards.raw, hazards.war, hazards.waw) == (["there"], ["there"], [])
    assert orders(("reader", whole(A), whole(C)), tracker=tracker)["reader"] == {"back"}


def test_a_copy_waits_for_the_kernel_that_writes_its_source() -> None:
    found = orders(("kernel", whole(A), whole(B)), ("copy", whole(B), whole(C)))
    assert found["copy"] == {"kernel"}


def test_a_kernel_waits_for_the_copy_that_fills_its_operand() -> None:
    found = orders(("copy", whole(A), whole(B)), ("kernel", whole(B), whole(C)), ("next copy", whole(A), whole(B)))
    assert found["kernel"] == {"copy"}
    assert found["next copy"] == {"copy", "kernel"}


def test_orders_hold_across_graphs_that_are_launched_one_after_the_other() -> None:
    """One tracker outlives the graphs: each is one entry, under its own stream."""
    tracker: DepsTracker[str] = DepsTracker()
    for name, reads, writes in (("fill", [], whole(A)), ("use", whole(A), whole(B)), ("refill", [], whole(A))):
        found = orders((name, reads, writes), tracker=tracker)
        assert found[name] == {"fill": set(), "use": {"fill"}, "refill": {"fill", "use"}}[name]


def test_a_copy_and_a_kernel_that_read_one_source_run_beside_each_other() -> None:
    found = orders(("write", [], whole(A)), ("copy out", whole(A), whole(B)), ("kernel", whole(A), whole(C)))
    assert found["copy out"] == found["kernel"] == {"write"}


def test_views_that_overlap_are_ordered_and_views_side_by_side_are_not() -> None:
    found = orders(
        ("left", [], [(A, 0, 32)]),
        ("right", [], [(A, 32, 64)]),
        ("middle", [(A, 16, 48)], whole(B)),
        ("left end", [], [(A, 0, 16)]),
        ("right of middle", [], [(A, 40, 56)]),
    )
    assert found["right"] == set()
    assert found["middle"] == {"left", "right"}
    assert found["left end"] == {"left"}
    assert found["right of middle"] == {"right", "middle"}


def test_a_write_to_a_part_leaves_the_earlier_write_standing_for_the_rest() -> None:
    found = orders(
        ("whole", [], whole(A)),
        ("part", [], [(A, 0, 16)]),
        ("reads the part", [(A, 0, 16)], []),
        ("reads the rest", [(A, 16, 64)], []),
        ("reads both", whole(A), []),
    )
    assert found["reads the part"] == {"part"}
    assert found["reads the rest"] == {"whole"}
    assert found["reads both"] == {"part", "whole"}


def test_a_write_to_a_part_leaves_the_earlier_read_standing_for_the_rest() -> None:
    found = orders(
        ("reads", whole(A), []),
        ("part", [], [(A, 0, 16)]),
        ("writes the part", [], [(A, 0, 16)]),
        ("writes the rest", [], [(A, 16, 64)]),
    )
    assert found["part"] == {"reads"}
    assert found["writes the part"] == {"part"}
    assert found["writes the rest"] == {"reads"}


def test_a_write_in_the_middle_leaves_both_ends_with_the_old_writer() -> None:
    found = orders(
        ("whole", [], whole(A)),
        ("middle", [], [(A, 24, 40)]),
        ("left", [(A, 0, 24)], []),
        ("right", [(A, 40, 64)], []),
        ("inside", [(A, 30, 31)], []),
        ("across", [(A, 23, 25)], []),
    )
    assert found["left"] == found["right"] == {"whole"}
    assert found["inside"] == {"middle"}
    assert found["across"] == {"whole", "middle"}
