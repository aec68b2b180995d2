"""Stains: bytes that hold nothing, because the run that should have written them failed or was removed.

Law: ranges and tickets; who fails for them is decided elsewhere. Imports ``runs`` and below.

A failed run leaves stains on all that it writes, whether or not that was written; each has the ticket of its run. What
a run would see of a stain is decided by tickets alone: it is of a lower ticket, and no unfinished run in between
overwrites it. A run with a higher ticket that overwrites it and is done takes it away for good; one that is removed
never hid it. Rows of blocks are healed and hidden as a whole (see ``regions``), so a stain may be seen for too long,
never for too short.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable

from asyncjit.deps import Region, overlap, without
from asyncjit.runs import Run

__all__ = ["Stains"]


class Stains:
    """Bytes that hold nothing, by buffer, each with the failed run that should have written them, in ticket order."""

    __slots__ = ("by_key",)

    def __init__(self) -> None:
        self.by_key: dict[int, list[tuple[Run, Region]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.by_key.values()))

    def add(self, run: Run, regions: Iterable[Region], live: Collection[int]) -> None:
        """Stain ``regions``. An older stain beneath goes, unless a run of ``live`` could still tell the two apart.

        So a function that fails at every call leaves one stain on its state, not one a call.
        """
        for region in regions:
            if region.start == region.stop:
                continue
            stains = self.by_key.setdefault(region.key, [])
            if stains:
                stains[:] = [
                    (other, old)
                    for other, old in stains
                    if without(old, region) != () or not _are_neighbours(other.ticket, run.ticket, live)
                ]
            insort(stains, (run, region), key=lambda stain: stain[0].ticket)

    def heal(self, run: Run, regions: Iterable[Region]) -> None:
        """``run`` is done: what it wrote over is clean, but for stains of runs that come after it."""
        for region in regions:
            stains = self.by_key.get(region.key)
            if stains is None:
                continue
            left = [
                (other, piece)
                for other, old in stains
                for piece in (_rest(old, region) if other.ticket < run.ticket else (old,))
            ]
            if left:
                self.by_key[region.key] = left
            else:
                del self.by_key[region.key]

    def source(self, run: Run, regions: Iterable[Region]) -> Run | None:
        """The failed run whose stain ``run`` would read in ``regions``, or None. ``run.needs`` are up to date."""
        for region in regions:
            for other, stain in reversed(self.by_key.get(region.key, ())):
                if other.ticket < run.ticket and overlap(stain, region):
                    covers = [needed for needed in run.needs if needed.ticket > other.ticket]
                    if any(overlap(piece, region) for piece in _uncovered(stain, covers)):
                        return other
        return None


def _are_neighbours(lower: int, upper: int, live: Collection[int]) -> bool:
    """Whether ``lower`` is the lower ticket, and no live one stands between the two."""
    if upper - lower <= len(live):
        return lower < upper and not any(ticket in live for ticket in range(lower + 1, upper))
    return not any(lower < ticket < upper for ticket in live)


def _rest(old: Region, new: Region) -> tuple[Region, ...]:
    rest = without(old, new)
    return (old,) if rest is None else rest


def _uncovered(stain: Region, writers: Iterable[Run]) -> list[Region]:
    """What ``writers`` leave of ``stain``. A row of blocks is covered as a whole or not at all."""
    pieces = [stain]
    for writer in writers:
        for cover in writer.writes():
            if cover.key == stain.key:
                pieces = [rest for piece in pieces for rest in _rest(piece, cover)]
    return pieces
