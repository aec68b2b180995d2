"""Who must wait for whom: hazards between accesses to ranges of bytes.

Law: knows ranges, dependencies and streams, all opaque and hashable; not what a call, a replay or a device is.
Imports ``tracks`` and below.

A read must follow the last writer of every byte it touches (read after write); a write must also follow that
writer (write after write) and every reader since (write after read). The tracker keeps, for each buffer, a map of
disjoint byte ranges to their last writers, and for each stream a map of ranges to its latest read. A write cuts
what it covers out of both. Work on one stream is in order, so the latest read of a stream stands for all of its
reads before: that, and ``release``, keep the memory bounded over endless replays.

Rows of blocks are not cut (see ``regions``), so an entry may be kept for too long: that causes an edge which another
edge implies or implied, never a missing one.

A **read set** is a fixed set of ranges that many accesses read whole (the weights of a model): an access costs the
same whatever the number of ranges.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, KeysView
from dataclasses import dataclass, field
from typing import Generic

from asyncjit.regions import Region, overlap, region_of, without
from asyncjit.tracks import NOWHERE, D, Entry, ReadSet, Track

__all__ = ["DepsTracker", "Hazards", "ReadSet", "Region", "overlap", "region_of", "without"]


@dataclass(slots=True)
class Hazards(Generic[D]):
    """Dependencies by kind, each list without duplicates, newest first."""

    raw: list[D] = field(default_factory=list)
    war: list[D] = field(default_factory=list)
    waw: list[D] = field(default_factory=list)


def _newest_first(entries: list[Entry[D]]) -> list[D]:
    if len(entries) > 1:
        entries.sort(key=lambda entry: -entry.position)
        return list(dict.fromkeys([entry.dep for entry in entries]))
    return [entry.dep for entry in entries]


class DepsTracker(Generic[D]):
    """The last writers and the readers since, of every byte that was accessed and not released.

    The regions of one call of ``hazards``, ``record`` or ``access`` are one batch, which never conflicts with itself.
    A dependency that accesses a read set as well asks for all its hazards first and records afterwards. Not
    thread-safe.
    """

    __slots__ = ("_by_stream", "_position", "_tracks")

    def __init__(self) -> None:
        self._tracks: dict[int, Track[D]] = {}
        self._by_stream: dict[Hashable, dict[Entry[D], None]] = {}
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
        raw: list[Entry[D]] = []
        war: list[Entry[D]] = []
        waw: list[Entry[D]] = []
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
                    if read_set.readings and read_set not in sets and read_set.touches(region):
                        sets[read_set] = None
                        war += read_set.readings.values()
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
                self._add(track, Entry(region, dep, stream, self._position, False))
        for region in writes:
            if region.start < region.stop:
                track = self._track(region.key)
                self._cut_out(track, region)
                self._add(track, Entry(region, dep, stream, self._position, True))

    # --- read sets --------------------------------------------------------------------------------------------------

    def read_set(self, regions: Iterable[Region]) -> ReadSet[D]:
        """A new read set of ``regions``; costs their number once."""
        read_set: ReadSet[D] = ReadSet()
        for region in regions:
            if region.start < region.stop:
                read_set.members.setdefault(region.key, []).append(region)
                track = self._track(region.key)
                track.sets[read_set] = None
                for entry in track.writes.overlapping(region):
                    self._make_pending(entry, read_set)
        return read_set

    def read_set_hazards(self, read_set: ReadSet[D]) -> list[D]:
        """The live last writers of any byte of the set, newest first. Costs their number, not that of the ranges."""
        if not read_set.pending:
            return []
        return _newest_first(list(read_set.pending))

    def record_read_set(self, read_set: ReadSet[D], dep: D, stream: Hashable) -> None:
        """Remember ``dep`` as a reader of the whole set: one entry a stream, until ``release``.

        A write to some of the ranges leaves it standing for the others, so a later write to the same ranges may name
        a reader that is already implied.
        """
        self._position += 1
        older = read_set.readings.get(stream)
        if older is not None:
            self._unremember(older)
        entry = Entry(NOWHERE, dep, stream, self._position, False)
        entry.reading_of = read_set
        read_set.readings[stream] = entry
        self._remember(entry)

    def drop_read_set(self, read_set: ReadSet[D]) -> None:
        """Give the set up. Readings that were recorded through it count until they are released."""
        read_set.dropped = True
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
                del read_set.members[key]

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

    def _track(self, key: int) -> Track[D]:
        track = self._tracks.get(key)
        if track is None:
            track = self._tracks[key] = Track()
        return track

    def _drop_track_if_empty(self, key: int, track: Track[D]) -> None:
        if track.is_empty():
            del self._tracks[key]

    def _remember(self, entry: Entry[D]) -> None:
        mine = self._by_stream.get(entry.stream)
        if mine is None:
            self._by_stream[entry.stream] = {entry: None}
        else:
            mine[entry] = None

    def _unremember(self, entry: Entry[D]) -> None:
        """Take an entry out of the index by stream and out of read sets; the caller takes it out of its track."""
        mine = self._by_stream[entry.stream]
        if len(mine) == 1:
            del self._by_stream[entry.stream]
        else:
            del mine[entry]
        self._no_longer_pending(entry)

    def _unlink(self, entry: Entry[D]) -> None:
        """Take an entry that the index by stream no longer holds out of where it stands."""
        read_set = entry.reading_of
        if read_set is not None:
            del read_set.readings[entry.stream]
            if read_set.dropped:
                self._retire_dropped(read_set)
        else:
            track = self._tracks[entry.region.key]
            track.remove(entry)
            self._no_longer_pending(entry)
            self._drop_track_if_empty(entry.region.key, track)

    def _no_longer_pending(self, entry: Entry[D]) -> None:
        if entry.pending_in is not None:
            for read_set in entry.pending_in:
                del read_set.pending[entry]
            entry.pending_in = None

    def _make_pending(self, entry: Entry[D], read_set: ReadSet[D]) -> None:
        if entry not in read_set.pending:
            read_set.pending[entry] = None
            entry.pending_in = [*(entry.pending_in or ()), read_set]

    def _retire_dropped(self, read_set: ReadSet[D]) -> None:
        for entry in read_set.pending:
            assert entry.pending_in is not None
            entry.pending_in.remove(read_set)
        read_set.pending.clear()
        if read_set.readings:
            return
        for key in read_set.members:
            track = self._tracks[key]
            track.sets.pop(read_set, None)
            self._drop_track_if_empty(key, track)
        read_set.members.clear()

    def _add(self, track: Track[D], entry: Entry[D]) -> None:
        self._remember(entry)
        track.add(entry)
        if entry.writes:
            for read_set in track.sets:
                if not read_set.dropped and read_set.touches(entry.region):
                    self._make_pending(entry, read_set)

    def _cut_out(self, track: Track[D], region: Region) -> None:
        """Cut ``region`` out of every entry of ``track``."""
        if track.reads_by_stream:
            self._cut(track, track.reads.overlapping(region), region)
        self._cut(track, track.writes.overlapping(region), region)

    def _cut(self, track: Track[D], entries: Iterable[Entry[D]], region: Region) -> None:
        """Replace each of ``entries`` by what is left of it outside ``region``."""
        for entry in entries:
            rest = without(entry.region, region)
            if rest is not None:
                self._unremember(entry)
                track.remove(entry)
                for piece in rest:
                    self._add(track, Entry(piece, entry.dep, entry.stream, entry.position, entry.writes))
