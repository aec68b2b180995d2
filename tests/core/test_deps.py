"""The tracker against an oracle that remembers the last accesses of every single byte."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import Phase, given, settings

from asyncjit.deps import DepsTracker, Hazards, Region

KEYS, NBYTES = (1, 2), 24


def members(region: Region) -> set[tuple[int, int]]:
    if not region.block:
        return {(region.key, byte) for byte in range(region.start, region.stop)}
    starts = range(region.start, region.stop, region.stride)
    return {(region.key, byte) for start in starts for byte in range(start, start + region.block)}


def cells(regions: Iterable[Region]) -> set[tuple[int, int]]:
    return set().union(*map(members, regions))


@dataclass
class Cell:
    writer: tuple[int, Hashable] | None = None
    readers: dict[Hashable, int] = field(default_factory=dict)


class Oracle:
    """The definition: for each byte its last writer, and since then the latest reader of each stream."""

    def __init__(self) -> None:
        self.cells = {(key, byte): Cell() for key in KEYS for byte in range(NBYTES)}

    def access(self, reads: Iterable[Region], writes: Iterable[Region], dep: int, stream: Hashable) -> Hazards[int]:
        read, written = cells(reads), cells(writes)
        raw = {writer[0] for cell in read if (writer := self.cells[cell].writer)}
        waw = {writer[0] for cell in written if (writer := self.cells[cell].writer)}
        war = {reader for cell in written for reader in self.cells[cell].readers.values()}
        for cell in read:
            self.cells[cell].readers[stream] = dep
        for cell in written:
            self.cells[cell] = Cell((dep, stream))
        return Hazards(*(sorted(found, reverse=True) for found in (raw, war, waw)))

    def release(self, stream: Hashable) -> None:
        for cell in self.cells.values():
            cell.readers.pop(stream, None)
            if cell.writer and cell.writer[1] == stream:
                cell.writer = None

    def release_reads(self, stream: Hashable) -> None:
        for cell in self.cells.values():
            cell.readers.pop(stream, None)

    def clear(self, regions: Iterable[Region]) -> None:
        self.cells.update({cell: Cell() for cell in cells(regions)})

    def forget(self, key: int) -> None:
        self.clear([Region(key, 0, NBYTES)])

    def is_tracked(self, key: int) -> bool:
        return any(cell.writer or cell.readers for (where, _), cell in self.cells.items() if where == key)


@st.composite
def ranges(draw: st.DrawFn) -> Region:
    start = draw(st.integers(0, NBYTES))
    return Region(draw(st.sampled_from(KEYS)), start, draw(st.integers(start, NBYTES)))


@st.composite
def columns(draw: st.DrawFn) -> Region:
    """Blocks of a matrix with rows of six bytes."""
    first, rows = draw(st.integers(0, 4)), draw(st.integers(2, 4))
    block = draw(st.integers(1, 5 - first))
    return Region(draw(st.sampled_from(KEYS)), first, first + 6 * (rows - 1) + block, block, 6)


def few(regions: st.SearchStrategy[Region]) -> st.SearchStrategy[list[Region]]:
    return st.lists(regions, max_size=3)


Step = Callable[["Oracle | DepsTracker[int]", int], object]
streams = st.integers(0, 3)


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, Step]:
    stream = draw(streams)
    match draw(st.sampled_from(["access"] * 6 + ["release", "release_reads", "clear", "forget"])):
        case "access":
            reads, writes = draw(few(ranges())), draw(few(ranges()))
            return f"access({reads}, {writes}, {stream})", lambda on, dep: on.access(reads, writes, dep, stream)
        case "release":
            return f"release({stream})", lambda on, _: on.release(stream)
        case "release_reads":
            return f"release_reads({stream})", lambda on, _: on.release_reads(stream)
        case "clear":
            regions = draw(few(ranges()))
            return f"clear({regions})", lambda on, _: on.clear(regions)
        case _:
            key = draw(st.sampled_from(KEYS))
            return f"forget({key})", lambda on, _: on.forget(key)


@given(st.lists(steps(), max_size=25))
def test_ranges_give_exactly_the_hazards_of_their_bytes_newest_first(program: list[tuple[str, Step]]) -> None:
    tracker: DepsTracker[int] = DepsTracker()
    oracle = Oracle()
    for dep, (_, step) in enumerate(program):
        assert step(tracker, dep) == step(oracle, dep)
        assert [tracker.is_tracked(key) for key in KEYS] == [oracle.is_tracked(key) for key in KEYS]
        assert list(tracker.tracked) == [] or set(tracker.tracked) <= set(KEYS)
    for stream in range(4):
        tracker.release(stream)
    assert tracker.entry_count == 0
    assert not tracker.tracked


# --- order, with columns, read sets and release ----------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """``whole``: read set that is read as well. ``finished``: how many of the oldest finish before this one starts."""

    reads: list[Region]
    writes: list[Region]
    whole: int | None = None
    finished: int = 0


WEIGHTS = (
    (Region(1, 0, 6), Region(1, 6, 24, 2, 6), Region(2, 3, 3)),
    (Region(1, 4, 8), Region(2, 0, 24), Region(2, 8, 9)),
)
anything = few(st.one_of(ranges(), columns()))
accesses = st.builds(Access, anything, anything, st.sampled_from([None, None, 0, 1]), st.sampled_from([0, 0, 0, 1, 2]))


def ancestors(edges: list[set[int]]) -> list[set[int]]:
    found: list[set[int]] = []
    for sources in edges:
        found.append(sources.union(*(found[source] for source in sources)))
    return found


def order_by_bytes(program: list[Access]) -> list[set[int]]:
    oracle, oldest, edges = Oracle(), 0, []
    for dep, access in enumerate(program):
        for _ in range(min(access.finished, dep - oldest)):
            oracle.release(oldest)
            oldest += 1
        reads = access.reads if access.whole is None else [*access.reads, *WEIGHTS[access.whole]]
        found = oracle.access(reads, access.writes, dep, dep)
        edges.append({*found.raw, *found.war, *found.waw})
    return ancestors(edges)


def order_by_tracker(tracker: DepsTracker[int], program: list[Access]) -> list[set[int]]:
    oldest, edges = 0, []
    read_sets = [tracker.read_set(weights) for weights in WEIGHTS]
    for dep, access in enumerate(program):
        for _ in range(min(access.finished, dep - oldest)):
            tracker.release(oldest)
            oldest += 1
        found = tracker.hazards(access.reads, access.writes)
        edges.append({*found.raw, *found.war, *found.waw})
        if access.whole is not None:
            edges[-1].update(tracker.read_set_hazards(read_sets[access.whole]))
            tracker.record_read_set(read_sets[access.whole], dep, dep)
        tracker.record(access.reads, access.writes, dep, dep)
    for read_set in read_sets:
        tracker.drop_read_set(read_set)
    for dep in range(oldest, len(program)):
        tracker.release(dep)
    assert tracker.entry_count == 0
    assert not tracker.tracked
    return ancestors(edges)


class ReadAfterWriteOnly(DepsTracker[int]):
    """What a tracker would be that forgets that writes must wait, too."""

    def hazards(self, reads: Iterable[Region], writes: Iterable[Region]) -> Hazards[int]:
        return Hazards(super().hazards(reads, writes).raw)


class ForgetsReadSets(DepsTracker[int]):
    """What a tracker would be whose read sets are not seen by later writes."""

    def record_read_set(self, read_set: object, dep: int, stream: Hashable) -> None:
        pass


def check_order(make: Callable[[], DepsTracker[int]], *phases: Phase) -> None:
    @settings(max_examples=150, database=None, deadline=None, phases=phases)
    @given(st.lists(accesses, max_size=14))
    def check(program: list[Access]) -> None:
        assert order_by_tracker(make(), program) == order_by_bytes(program)

    check()


def test_columns_read_sets_and_release_give_the_order_of_the_bytes() -> None:
    check_order(DepsTracker, Phase.generate, Phase.shrink)


@pytest.mark.parametrize("broken", [ReadAfterWriteOnly, ForgetsReadSets])
def test_the_comparison_of_orders_catches_a_tracker_that_is_wrong(broken: Callable[[], DepsTracker[int]]) -> None:
    with pytest.raises(AssertionError):
        check_order(broken, Phase.generate)


# --- bounded over endless replays ------------------------------------------------------------------------------------

WEIGHT = Region(1, 0, NBYTES)
MANY = 100_000


def test_a_weight_read_100_000_times_on_one_stream_stays_one_entry() -> None:
    tracker: DepsTracker[int] = DepsTracker()
    for dep in range(MANY):
        tracker.record([WEIGHT], [], dep, "stream")
    assert tracker.entry_count == 1
    assert tracker.hazards([], [WEIGHT]).war == [MANY - 1]


def test_a_weight_read_by_100_000_replays_keeps_only_those_in_flight() -> None:
    tracker: DepsTracker[int] = DepsTracker()
    most = 0
    for dep in range(MANY):
        tracker.record([WEIGHT], [], dep, dep)
        tracker.release(dep - 4)
        most = max(most, tracker.entry_count)
    assert most == 4
    assert tracker.hazards([], [WEIGHT]).war == [MANY - 1, MANY - 2, MANY - 3, MANY - 4]


def test_a_read_set_read_by_100_000_replays_keeps_only_those_in_flight() -> None:
    tracker: DepsTracker[int] = DepsTracker()
    weights = tracker.read_set([WEIGHT, Region(2, 0, 8)])
    for dep in range(MANY):
        tracker.record_read_set(weights, dep, dep)
        tracker.release(dep - 4)
    assert tracker.entry_count == 4
    assert tracker.hazards([], [WEIGHT]).war == [MANY - 1, MANY - 2, MANY - 3, MANY - 4]


def test_rows_written_and_read_over_and_over_leave_one_entry_each() -> None:
    tracker: DepsTracker[int] = DepsTracker()
    for dep in range(10_000):
        row = Region(1, 8 * (dep % 16), 8 * (dep % 16) + 8)
        tracker.access([WEIGHT], [row], dep, "stream")
    assert tracker.entry_count <= 16 + 3


def test_a_read_set_costs_the_same_whatever_its_size() -> None:
    tracker: DepsTracker[str] = DepsTracker()
    weights = tracker.read_set(Region(key, 0, 8) for key in range(200))
    weights.members = {}  # an access that looked at a member would now miss it
    tracker.record_read_set(weights, "first", 1)
    tracker.record_read_set(weights, "second", 1)
    assert tracker.read_set_hazards(weights) == []
    assert tracker.entry_count == 1


# --- read sets, one rule each ----------------------------------------------------------------------------------------


def test_a_read_set_waits_for_what_was_written_before_it_was_made() -> None:
    tracker: DepsTracker[str] = DepsTracker()
    tracker.record([], [Region(1, 0, 4)], "w0", 0)
    tracker.record([], [Region(1, 8, 12)], "w1", 1)
    weights = tracker.read_set([Region(1, 0, 10), Region(1, 2, 6), Region(1, 5, 5)])
    assert tracker.read_set_hazards(weights) == ["w1", "w0"]
    tracker.release(1)
    assert tracker.read_set_hazards(weights) == ["w0"]


def test_a_write_that_is_cut_waits_for_a_read_set_only_where_it_is_left() -> None:
    tracker: DepsTracker[str] = DepsTracker()
    weights = tracker.read_set([Region(1, 0, 4)])
    tracker.record([], [Region(1, 0, 8)], "old", 0)
    tracker.record([], [Region(1, 0, 4)], "new", 1)
    assert tracker.read_set_hazards(weights) == ["new"]


def test_readings_of_a_dropped_set_count_until_they_are_released() -> None:
    tracker: DepsTracker[str] = DepsTracker()
    weights = tracker.read_set([Region(1, 0, 4), Region(2, 0, 4)])
    tracker.record_read_set(weights, "reader", 0)
    tracker.record([], [Region(1, 2, 3)], "w0", 1)
    tracker.drop_read_set(weights)
    assert tracker.read_set_hazards(weights) == []
    assert tracker.hazards([], [Region(2, 0, 1)]).war == ["reader"]
    tracker.record([], [Region(2, 0, 4)], "w1", 1)
    assert tracker.read_set_hazards(weights) == []
    tracker.release(0)
    assert tracker.hazards([], [Region(2, 0, 1)]).war == []
    tracker.release(1)
    assert not tracker.tracked


def test_a_reader_of_two_ranges_of_a_set_is_named_once() -> None:
    tracker: DepsTracker[str] = DepsTracker()
    weights = tracker.read_set([Region(1, 0, 4), Region(2, 0, 4)])
    tracker.record_read_set(weights, "reader", 0)
    assert tracker.hazards([], [Region(1, 0, 4), Region(2, 0, 4)]).war == ["reader"]


def test_a_forgotten_buffer_leaves_its_read_sets() -> None:
    tracker: DepsTracker[str] = DepsTracker()
    weights = tracker.read_set([Region(1, 0, 4), Region(2, 0, 4)])
    tracker.record([], [Region(1, 0, 4)], "w", 0)
    tracker.forget(1)
    tracker.forget(3)
    assert tracker.read_set_hazards(weights) == []
    assert list(weights.members) == [2]
    assert not tracker.is_tracked(1)
    tracker.drop_read_set(weights)
    assert not tracker.is_tracked(2)


def test_clearing_leaves_readings_of_a_set_that_may_stand_for_other_bytes() -> None:
    tracker: DepsTracker[str] = DepsTracker()
    weights = tracker.read_set([Region(1, 0, 8)])
    tracker.record_read_set(weights, "reader", 0)
    tracker.record([], [Region(1, 0, 8)], "w", 1)
    tracker.clear([Region(1, 0, 8), Region(1, 3, 3), Region(9, 0, 4)])
    found = tracker.hazards([Region(1, 0, 8)], [Region(1, 4, 8)])
    assert (found.raw, found.war, found.waw) == ([], ["reader"], [])
