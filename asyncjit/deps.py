"""Who must wait for whom: hazards between accesses to ranges of bytes.

Law: knows ranges, dependencies and streams, all opaque and hashable; not what a call, a replay or a device is.
Imports ``ir`` and below.

A read must follow the last writer of every byte it touches (read after write); a write must also follow that
writer (write after write) and every reader since (write after read). The tracker keeps, for each buffer, a map of
disjoint byte ranges to their last writers, and for each stream a map of ranges to its latest read. A write cuts
what it covers out of both. Work on one stream is in order, so the latest read of a stream stands for all of its
reads before: that, and ``release``, keep the memory bounded over endless replays.

Ranges are contiguous or rows of equal blocks. Rows of blocks are *compared* exactly with contiguous ranges and with
rows of the same stride, else by their extent. They are not *cut*: a row of blocks displaces only an entry equal to
it, and only a contiguous range around all of it displaces a row of blocks. An entry kept for too long causes an
edge that another edge implies, never a missing one.

A **read set** is a fixed set of ranges that many accesses read whole (the weights of a model): an access costs the
same whatever the number of ranges.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from asyncjit.ir import View

__all__ = ["DepsTracker", "Hazards", "ReadSet", "Region", "overlap", "region_of", "without"]

D = TypeVar("D", bound=Hashable)


class Region(NamedTuple):
    """Bytes ``[start, stop)`` of buffer ``key``; with ``block``, only the blocks of that length ``stride`` apart.

    A row of blocks ends with a whole block: ``stop - start - block`` is a multiple of ``stride``.
    """

    key: int
    start: int
    stop: int
    block: int = 0
    stride: int = 0


def region_of(view: View, key: int | None = None, shift: int = 0) -> Region:
    """The bytes of ``view``, as bytes of buffer ``key`` (default: its own serial), moved up by ``shift``."""
    start = view.offset_bytes + shift
    if key is None:
        key = view.buffer.serial
    if view.count <= 1 or view.stride_bytes <= view.block_bytes:
        return Region(key, start, start + view.nbytes)
    return Region(key, start, start + view.nbytes, view.block_bytes, view.stride_bytes)


def overlap(a: Region, b: Region) -> bool:
    """Whether ``a`` and ``b`` share a byte; exact unless both are rows of blocks with unequal strides."""
    if a.key != b.key or max(a.start, b.start) >= min(a.stop, b.stop):
        return False
    if not a.block:
        return not b.block or _row_meets_range(b, a)
    if not b.block:
        return _row_meets_range(a, b)
    return a.stride != b.stride or _rows_meet(a, b)


def _row_meets_range(row: Region, span: Region) -> bool:
    first = max(span.start, row.start) - row.start
    stop = min(span.stop, row.stop) - row.start
    inside_block = first % row.stride < row.block
    return inside_block or (first // row.stride + 1) * row.stride < stop


def _rows_meet(a: Region, b: Region) -> bool:
    """Blocks ``i`` of a and ``j`` of b meet iff, with ``t = i - j``: shift - a.block < t * stride < shift + b.block."""
    stride, shift = a.stride, b.start - a.start
    last_a = (a.stop - a.start - a.block) // stride
    last_b = (b.stop - b.start - b.block) // stride
    lowest = max((shift - a.block) // stride + 1, -last_b)
    highest = min(-((-shift - b.block) // stride) - 1, last_a)
    return lowest <= highest


def without(old: Region, new: Region) -> tuple[Region, ...] | None:
    """What is left of ``old`` when ``new`` is taken out; None when it stays as it is."""
    if old.start >= new.stop or new.start >= old.stop:
        return None
    if old == new or (not new.block and new.start <= old.start and old.stop <= new.stop):
        return ()
    if old.block or new.block:
        return None
    left = (old._replace(stop=new.start),) if old.start < new.start else ()
    return (*left, old._replace(start=new.stop)) if new.stop < old.stop else left


@dataclass(slots=True)
class Hazards(Generic[D]):
    """Dependencies by kind, each list without duplicates, newest first."""

    raw: list[D] = field(default_factory=list)
    war: list[D] = field(default_factory=list)
    waw: list[D] = field(default_factory=list)


class ReadSet(Generic[D]):
    """Ranges that are always read together. Made and used by one tracker, which alone changes it."""

    __slots__ = ("_dropped", "_members", "_pending", "_readings")

    def __init__(self) -> None:
        self._members: dict[int, list[Region]] = {}
        self._pending: dict[_Entry[D], None] = {}
        self._readings: dict[Hashable, _Entry[D]] = {}
        self._dropped = False

    @property
    def members(self) -> Mapping[int, Sequence[Region]]:
        """The ranges, by buffer; without those of buffers that were forgotten."""
        return self._members

    def _touches(self, region: Region) -> bool:
        return any(overlap(member, region) for member in self._members[region.key])


_NOWHERE = Region(0, 0, 0)


class _Entry(Generic[D]):
    """One range last written or read by ``dep``; with ``reading_of``, a reading of a whole read set instead."""

    __slots__ = ("dep", "pending_in", "position", "reading_of", "region", "stream", "writes")

    def __init__(self, region: Region, dep: D, stream: Hashable, position: int, writes: bool) -> None:
        self.region = region
        self.dep = dep
        self.stream = stream
        self.position = position
        self.writes = writes
        self.pending_in: list[ReadSet[D]] | None = None
        self.reading_of: ReadSet[D] | None = None


def _newest_first(entries: list[_Entry[D]]) -> list[D]:
    if len(entries) > 1:
        entries.sort(key=lambda entry: -entry.position)
        return list(dict.fromkeys([entry.dep for entry in entries]))
    return [entry.dep for entry in entries]


class _Index(Generic[D]):
    """Entries of one buffer, found by range: sorted by start within classes of similar length.

    An entry of the class ``c`` is shorter than ``1 << c``, so only those that start less than that before a range can
    meet it: a look-up costs a bisection a class and its hits, even where 10,000 ranges of one buffer are live.
    """

    __slots__ = ("classes",)

    def __init__(self) -> None:
        self.classes: dict[int, tuple[list[int], list[_Entry[D]]]] = {}

    def add(self, entry: _Entry[D]) -> None:
        region = entry.region
        size = (region.stop - region.start).bit_length()
        found = self.classes.get(size)
        if found is None:
            self.classes[size] = ([region.start], [entry])
        else:
            starts, entries = found
            place = bisect_right(starts, region.start)
            starts.insert(place, region.start)
            entries.insert(place, entry)

    def remove(self, entry: _Entry[D]) -> None:
        region = entry.region
        size = (region.stop - region.start).bit_length()
        starts, entries = self.classes[size]
        if len(entries) == 1:
            del self.classes[size]
        else:
            place = entries.index(entry, bisect_left(starts, region.start))
            del starts[place], entries[place]

    def overlapping(self, region: Region) -> list[_Entry[D]]:
        found: list[_Entry[D]] = []
        for size, (starts, entries) in self.classes.items():
            first = bisect_right(starts, region.start - (1 << size))
            for entry in entries[first : bisect_left(starts, region.stop, first)]:
                if overlap(entry.region, region):
                    found.append(entry)
        return found


class _Track(Generic[D]):
    """All entries of one buffer: its last writers, its readers since (also by stream), and the read sets it is in."""

    __slots__ = ("reads", "reads_by_stream", "sets", "writes")

    def __init__(self) -> None:
        self.writes: _Index[D] = _Index()
        self.reads: _Index[D] = _Index()
        self.reads_by_stream: dict[Hashable, list[_Entry[D]]] = {}
        self.sets: dict[ReadSet[D], None] = {}

    def is_empty(self) -> bool:
        return not (self.writes.classes or self.reads_by_stream or self.sets)

    def add(self, entry: _Entry[D]) -> None:
        if entry.writes:
            self.writes.add(entry)
        else:
            self.reads.add(entry)
            self.reads_by_stream.setdefault(entry.stream, []).append(entry)

    def remove(self, entry: _Entry[D]) -> None:
        if entry.writes:
            self.writes.remove(entry)
        else:
            self.reads.remove(entry)
            mine = self.reads_by_stream[entry.stream]
            if len(mine) == 1:
                del self.reads_by_stream[entry.stream]
            else:
                mine.remove(entry)

    def entries(self) -> list[_Entry[D]]:
        groups = [*self.writes.classes.values(), *self.reads.classes.values()]
        return [entry for _, entries in groups for entry in entries]


class DepsTracker(Generic[D]):
    """The last writers and the readers since, of every byte that was accessed and not released.

    The regions of one call of ``hazards``, ``record`` or ``access`` are one batch, which never conflicts with itself.
    A dependency that accesses a read set as well asks for all its hazards first and records afterwards. Not
    thread-safe.
    """

    __slots__ = ("_by_stream", "_position", "_tracks")

    def __init__(self) -> None:
        self._tracks: dict[int, _Track[D]] = {}
        self._by_stream: dict[Hashable, dict[_Entry[D], None]] = {}
        self._position = 0

    # --- one access -------------------------------------------------------------------------------------------------

    def access(self, reads: Iterable[Region], writes: Iterable[Region], dep: D, stream: Hashable) -> Hazards[D]:
        """``hazards`` and then ``record``."""
        reads, writes = tuple(reads), tuple(writes)
        hazards = self.hazards(reads, writes)
        self.record(reads, writes, dep, stream)
        return hazards

    def hazards(self, reads: Iterable[Region], writes: Iterable[Region]) -> Hazards[D]:
        """What an access would have to follow. Records nothing."""
        raw: list[_Entry[D]] = []
        war: list[_Entry[D]] = []
        waw: list[_Entry[D]] = []
        sets: dict[ReadSet[D], None] = {}
        for region in reads:
            track = self._tracks.get(region.key)
            if track is not None:
                raw += track.writes.overlapping(region)
        for region in writes:
            track = self._tracks.get(region.key)
            if track is not None:
                waw += track.writes.overlapping(region)
                war += track.reads.overlapping(region)
                for read_set in track.sets:
                    if read_set._readings and read_set not in sets and read_set._touches(region):
                        sets[read_set] = None
                        war += read_set._readings.values()
        return Hazards(_newest_first(raw), _newest_first(war), _newest_first(waw))

    def record(self, reads: Iterable[Region], writes: Iterable[Region], dep: D, stream: Hashable) -> None:
        """Remember ``dep`` as a reader and as the last writer. ``stream`` runs in order and can be released."""
        self._position += 1
        for region in reads:
            if region.start < region.stop:
                track = self._track(region.key)
                older = track.reads_by_stream.get(stream)
                if older is not None:
                    self._cut(track, [*older], region)
                self._add(track, _Entry(region, dep, stream, self._position, False))
        for region in writes:
            if region.start < region.stop:
                track = self._track(region.key)
                self._cut_out(track, region)
                self._add(track, _Entry(region, dep, stream, self._position, True))

    # --- read sets --------------------------------------------------------------------------------------------------

    def read_set(self, regions: Iterable[Region]) -> ReadSet[D]:
        """A new read set of ``regions``; costs their number once."""
        read_set: ReadSet[D] = ReadSet()
        for region in regions:
            if region.start < region.stop:
                read_set._members.setdefault(region.key, []).append(region)
                track = self._track(region.key)
                track.sets[read_set] = None
                for entry in track.writes.overlapping(region):
                    self._make_pending(entry, read_set)
        return read_set

    def read_set_hazards(self, read_set: ReadSet[D]) -> list[D]:
        """The live last writers of any byte of the set, newest first. Costs their number, not that of the ranges."""
        if not read_set._pending:
            return []
        return _newest_first(list(read_set._pending))

    def record_read_set(self, read_set: ReadSet[D], dep: D, stream: Hashable) -> None:
        """Remember ``dep`` as a reader of the whole set: one entry a stream, until ``release``.

        A write to some of the ranges leaves it standing for the others, so a later write to the same ranges may name
        a reader that is already implied.
        """
        self._position += 1
        older = read_set._readings.get(stream)
        if older is not None:
            self._unremember(older)
        entry = _Entry(_NOWHERE, dep, stream, self._position, False)
        entry.reading_of = read_set
        read_set._readings[stream] = entry
        self._remember(entry)

    def drop_read_set(self, read_set: ReadSet[D]) -> None:
        """Give the set up. Readings that were recorded through it count until they are released."""
        read_set._dropped = True
        self._retire_dropped(read_set)

    # --- forgetting -------------------------------------------------------------------------------------------------

    def release(self, stream: Hashable) -> None:
        """Forget every access of ``stream``: all of it has finished. Costs the number of its entries."""
        for entry in self._by_stream.pop(stream, ()):
            self._unlink(entry)

    def release_reads(self, stream: Hashable) -> None:
        """Forget the reads of ``stream`` and keep its writes."""
        for entry in [entry for entry in self._by_stream.get(stream, ()) if not entry.writes]:
            self._unremember(entry)
            self._unlink(entry)

    def clear(self, regions: Iterable[Region]) -> None:
        """Cut ``regions`` out of every entry. Readings of a read set stay, for they may stand for other ranges."""
        for region in regions:
            track = self._tracks.get(region.key)
            if track is not None and region.start < region.stop:
                self._cut_out(track, region)
                self._drop_track_if_empty(region.key, track)

    def forget(self, key: int) -> None:
        """Drop all that is known of buffer ``key``, also from read sets: it does not exist any more."""
        track = self._tracks.pop(key, None)
        if track is not None:
            for entry in track.entries():
                self._unremember(entry)
            for read_set in track.sets:
                del read_set._members[key]

    @property
    def tracked(self) -> KeysView[int]:
        """The buffers that ``is_tracked`` answers for: a live view."""
        return self._tracks.keys()

    def is_tracked(self, key: int) -> bool:
        """False when no access to buffer ``key`` is remembered and no read set holds a part of it."""
        return key in self._tracks

    @property
    def entry_count(self) -> int:
        """Ranges and readings of read sets that are remembered."""
        return sum(map(len, self._by_stream.values()))

    # --- inside -----------------------------------------------------------------------------------------------------

    def _track(self, key: int) -> _Track[D]:
        track = self._tracks.get(key)
        if track is None:
            track = self._tracks[key] = _Track()
        return track

    def _drop_track_if_empty(self, key: int, track: _Track[D]) -> None:
        if track.is_empty():
            del self._tracks[key]

    def _remember(self, entry: _Entry[D]) -> None:
        mine = self._by_stream.get(entry.stream)
        if mine is None:
            self._by_stream[entry.stream] = {entry: None}
        else:
            mine[entry] = None

    def _unremember(self, entry: _Entry[D]) -> None:
        """Take an entry out of the index by stream and out of read sets; the caller takes it out of its track."""
        mine = self._by_stream[entry.stream]
        if len(mine) == 1:
            del self._by_stream[entry.stream]
        else:
            del mine[entry]
        self._no_longer_pending(entry)

    def _unlink(self, entry: _Entry[D]) -> None:
        """Take an entry that the index by stream no longer holds out of where it stands."""
        read_set = entry.reading_of
        if read_set is not None:
            del read_set._readings[entry.stream]
            if read_set._dropped:
                self._retire_dropped(read_set)
        else:
            track = self._tracks[entry.region.key]
            track.remove(entry)
            self._no_longer_pending(entry)
            self._drop_track_if_empty(entry.region.key, track)

    def _no_longer_pending(self, entry: _Entry[D]) -> None:
        if entry.pending_in is not None:
            for read_set in entry.pending_in:
                del read_set._pending[entry]
            entry.pending_in = None

    def _make_pending(self, entry: _Entry[D], read_set: ReadSet[D]) -> None:
        if entry not in read_set._pending:
            read_set._pending[entry] = None
            entry.pending_in = [*(entry.pending_in or ()), read_set]

    def _retire_dropped(self, read_set: ReadSet[D]) -> None:
        for entry in read_set._pending:
            assert entry.pending_in is not None
            entry.pending_in.remove(read_set)
        read_set._pending.clear()
        if read_set._readings:
            return
        for key in read_set._members:
            track = self._tracks[key]
            track.sets.pop(read_set, None)
            self._drop_track_if_empty(key, track)
        read_set._members.clear()

    def _add(self, track: _Track[D], entry: _Entry[D]) -> None:
        self._remember(entry)
        track.add(entry)
        if entry.writes:
            for read_set in track.sets:
                if not read_set._dropped and read_set._touches(entry.region):
                    self._make_pending(entry, read_set)

    def _cut_out(self, track: _Track[D], region: Region) -> None:
        """Cut ``region`` out of every entry of ``track``."""
        self._cut(track, track.reads.overlapping(region), region)
        self._cut(track, track.writes.overlapping(region), region)

    def _cut(self, track: _Track[D], entries: Iterable[_Entry[D]], region: Region) -> None:
        """Replace each of ``entries`` by what is left of it outside ``region``."""
        for entry in entries:
            rest = without(entry.region, region)
            if rest is not None:
                self._unremember(entry)
                track.remove(entry)
                for piece in rest:
                    self._add(track, _Entry(piece, entry.dep, entry.stream, entry.position, entry.writes))
