"""The containers of the tracker keep their indices in step."""

from __future__ import annotations

from asyncjit.regions import Region
from asyncjit.tracks import Entry, ReadSet, Track


def entry(start: int, stop: int, stream: str, *, writes: bool) -> Entry[str]:
    return Entry(Region(1, start, stop), "dep", stream, 1, writes)


def test_a_track_is_empty_again_when_all_that_came_has_gone() -> None:
    track: Track[str] = Track()
    entries = [
        entry(0, 8, "a", writes=False),
        entry(8, 16, "a", writes=False),
        entry(0, 8, "b", writes=False),
        entry(0, 16, "b", writes=True),
    ]
    for one in entries:
        track.add(one)
    assert set(track.entries()) == set(entries)
    assert track.reads_by_stream == {"a": entries[:2], "b": entries[2:3]}
    assert track.writes.overlapping(Region(1, 3, 4)) == entries[3:]
    for one in entries:
        assert not track.is_empty()
        track.remove(one)
    assert track.is_empty()
    assert not track.reads


def test_a_track_that_stands_in_a_read_set_is_not_empty() -> None:
    track: Track[str] = Track()
    track.sets[ReadSet()] = None
    assert not track.is_empty()


def test_a_read_set_is_touched_by_what_overlaps_one_of_its_members() -> None:
    read_set: ReadSet[str] = ReadSet()
    read_set.members[1] = [Region(1, 0, 4), Region(1, 8, 12)]
    assert read_set.touches(Region(1, 10, 20))
    assert not read_set.touches(Region(1, 4, 8))
