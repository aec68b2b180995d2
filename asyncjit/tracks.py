"""What the dependency tracker remembers: entries, the track of a buffer, read sets.

Law: containers that keep their own indices right; when an entry comes and goes is decided in ``deps``, the only module
that changes them. Imports ``regions`` and below.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from asyncjit.regions import Region, RegionIndex, overlap

__all__ = ["NOWHERE", "D", "Entry", "ReadSet", "Track"]

D = TypeVar("D", bound=Hashable)


class ReadSet(Generic[D]):
    """Ranges that are always read together. Made and used by one tracker, which alone changes it."""

    __slots__ = ("dropped", "members", "pending", "readings")

    def __init__(self) -> None:
        #: The ranges, by buffer; without those of buffers that were forgotten.
        self.members: dict[int, list[Region]] = {}
        #: Live writes that touch a member.
        self.pending: dict[Entry[D], None] = {}
        #: The latest reading of each stream.
        self.readings: dict[Hashable, Entry[D]] = {}
        #: Given up; only the readings still count.
        self.dropped = False

    def touches(self, region: Region) -> bool:
        return any(overlap(member, region) for member in self.members[region.key])


NOWHERE = Region(0, 0, 0)


class Entry(Generic[D]):
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


class Track(Generic[D]):
    """All entries of one buffer: its last writers, its readers since (also by stream), and the read sets it is in."""

    __slots__ = ("reads", "reads_by_stream", "sets", "writes")

    def __init__(self) -> None:
        self.writes: RegionIndex[Entry[D]] = RegionIndex()
        self.reads: RegionIndex[Entry[D]] = RegionIndex()
        self.reads_by_stream: dict[Hashable, list[Entry[D]]] = {}
        self.sets: dict[ReadSet[D], None] = {}

    def is_empty(self) -> bool:
        return not (self.reads_by_stream or self.writes or self.sets)

    def add(self, entry: Entry[D]) -> None:
        if entry.writes:
            self.writes.add(entry)
        else:
            self.reads.add(entry)
            mine = self.reads_by_stream.get(entry.stream)
            if mine is None:
                self.reads_by_stream[entry.stream] = [entry]
            else:
                mine.append(entry)

    def remove(self, entry: Entry[D]) -> None:
        if entry.writes:
            self.writes.remove(entry)
        else:
            self.reads.remove(entry)
            mine = self.reads_by_stream[entry.stream]
            if len(mine) == 1:
                del self.reads_by_stream[entry.stream]
            else:
                mine.remove(entry)

    def entries(self) -> list[Entry[D]]:
        return [*self.writes.all(), *self.reads.all()]
