"""The ledger: which runs touch which bytes, who must therefore come first, and which bytes hold nothing.

Law: bookkeeping across replays. It starts nothing, fails nothing and knows no limits; the scheduler asks and decides.
Imports ``stains`` and below.

Theory. Accesses of unfinished runs stand in a hazard tracker, entered in ticket order, so that a lookup names the runs
that must come first. A write hides what it overwrites: whoever comes later follows the writer, and the writer follows
what it hid. That holds as long as a run ends after its predecessors. A run that ends before them (removed, or failed
without having run) would take the chain with it: then the rest is entered anew, in ticket order (``relink``).

The run recorded last is entered when somebody looks, which for most replays that are awaited one by one is never:
entering and releasing five buffers costs 20 us, a third of all that a replay costs besides its hops.

Stains of failed runs (see ``stains``) are not in the tracker, for they neither wait nor hide anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from asyncjit.deps import DepsTracker, Region, overlap
from asyncjit.runs import FINISHED, Run, State
from asyncjit.stains import Stains

__all__ = ["Check", "Ledger"]

#: Called with what must hold and what to say where it does not.
Check = Callable[[bool, str], None]


class Ledger:
    """Accesses and stains of all runs. ``live`` holds the unfinished runs in ticket order, recorded yet or not."""

    __slots__ = ("_latest", "_tracked", "_tracker", "is_stale", "live", "stains")

    def __init__(self) -> None:
        self._tracker: DepsTracker[Run] = DepsTracker()
        self._tracked = self._tracker.tracked
        #: Recorded, and not entered yet.
        self._latest: Run | None = None
        self.stains = Stains()
        self.live: dict[int, Run] = {}
        #: Links are out of date: a run ended before its predecessors. Nothing may be looked up before ``relink``.
        self.is_stale = False

    @property
    def tracker(self) -> DepsTracker[Run]:
        """Up to date."""
        if self._latest is not None:
            self._enter(self._latest)
            self._latest = None
        return self._tracker

    @property
    def is_blank(self) -> bool:
        """Nothing is known of any buffer."""
        return not (self.live or self.stains.by_key)

    def is_untouched(self, run: Run) -> bool:
        """Nothing is known of any buffer of the run, so that it need not look: the usual case of a small replay."""
        tracker = self.tracker
        if not self._tracked.isdisjoint(run.keys):
            return False
        footprint = run.footprint
        assert footprint is not None
        read_set = footprint.read_set
        if read_set is not None and tracker.read_set_hazards(read_set):
            return False
        stained = self.stains.by_key
        return not stained or (
            stained.keys().isdisjoint(run.keys) and (read_set is None or not stained.keys() & read_set.members.keys())
        )

    def look(self, run: Run) -> Run | None:
        """Link the run to the unfinished runs that must come first, as seen from its ticket.

        Returns a failed run that it would read from, or None.
        """
        footprint, tracker = run.footprint, self.tracker
        assert footprint is not None
        found, needs = run.predecessors, run.needs
        if footprint.read_set is not None:
            needs.update(tracker.read_set_hazards(footprint.read_set))
            found.update(dict.fromkeys(needs, footprint.read_set_segment))
        for segment, reads, writes in footprint.groups:
            hazards = tracker.hazards(run.regions(reads), run.regions(writes))
            needs.update(hazards.raw)
            for other in (*hazards.raw, *hazards.war, *hazards.waw):
                if found.get(other, segment) >= segment:
                    found[other] = segment
        for other in found:
            other.successors.append(run)
        return self.stain_source(run) if self.stains.by_key else None

    def stain_source(self, run: Run) -> Run | None:
        """The failed run that ``run``, whose links are up to date, would read from, or None."""
        footprint = run.footprint
        assert footprint is not None
        regions = run.reads()
        if footprint.read_set is not None:
            members = footprint.read_set.members
            regions += [region for key in self.stains.by_key.keys() & members.keys() for region in members[key]]
        return self.stains.source(run, regions)

    def record(self, run: Run) -> None:
        """Take note of the run's accesses. Runs are recorded in ticket order."""
        if self._latest is not None:
            self._enter(self._latest)
        self._latest = run
        run.recorded = True

    def _enter(self, run: Run) -> None:
        footprint = run.footprint
        assert footprint is not None
        if footprint.read_set is not None:
            self._tracker.record_read_set(footprint.read_set, run, run.ticket)
        self._tracker.record(run.reads(), run.writes(), run, run.ticket)

    def _leave(self, run: Run) -> None:
        if self._latest is run:
            self._latest = None
        else:
            self._tracker.release(run.ticket)

    def release(self, run: Run) -> None:
        """The run is done, and so are all that came before it."""
        if run.recorded:
            self._leave(run)
            del self.live[run.ticket]
        if self.stains.by_key:
            self.stains.heal(run, run.writes())

    def withdraw(self, run: Run) -> None:
        """Take out a run that did not do what it was to do; what it hid of others shows again after ``relink``.

        Outputs are new, so recording them hid nothing: work that writes nothing else costs no relinking.
        """
        self.live.pop(run.ticket, None)
        if run.recorded:
            assert run.footprint is not None
            self._leave(run)
            run.recorded = False
            if run.predecessors and not run.footprint.is_pure:
                self.is_stale = True
        self.unlink(run)

    def unlink(self, run: Run) -> None:
        """Let the run wait for nobody."""
        for other in run.predecessors:
            other.successors.remove(run)
        run.predecessors.clear()
        run.needs.clear()
        run.blockers = 0

    def stain(self, run: Run, regions: Iterable[Region]) -> None:
        self.stains.add(run, regions, self.live)

    def relink(self) -> Iterator[tuple[Run, Run]]:
        """Enter all recorded runs anew, in ticket order: O(live). Exhaust it before anything else is looked up.

        Yields each queued run that turns out to read from a failed one, with that one; the caller fails it, and thereby
        stains what it writes, before the next is looked at. Whether runs may start has to be asked anew of all.

        Runs that have started find the predecessors that they had: they hold gates for all that they conflict with, and
        what ended too early had not started, so it conflicts with none of them.
        """
        self.is_stale = False
        runs = [run for run in self.live.values() if run.recorded]
        for run in runs:
            self._leave(run)
            run.recorded = False
            run.predecessors.clear()
            run.needs.clear()
            run.successors.clear()
            run.blockers = 0
        for run in runs:
            source = self.look(run)
            if source is not None and run.state is State.QUEUED:
                yield run, source
            else:
                self.record(run)

    def forget(self, key: int) -> None:
        """The buffer is gone."""
        self.tracker.forget(key)
        self.stains.by_key.pop(key, None)

    def verify(self, check: Check) -> None:
        """Check order and links of the live runs: every two that conflict are ordered, by themselves or through others.

        Compares all pairs, so it is for tests and for reports of an internal error.
        """
        live = list(self.live.values())
        check([run.ticket for run in live] == sorted(self.live), "live runs are not in ticket order")
        check(not self.is_stale, "links are out of date")
        ancestors: dict[Run, set[Run]] = {}
        for run in live:
            check(run.needs <= run.predecessors.keys(), f"{run} needs a run that is not its predecessor")
            ancestors[run] = set()
            for other in run.predecessors:
                check(other.ticket < run.ticket, f"{run} waits for the later {other}")
                check(run in other.successors, f"{other} does not know its successor {run}")
                check(other.state not in FINISHED, f"{run} still waits for {other}")
                ancestors[run] |= {other, *ancestors.get(other, ())}
        recorded = [run for run in live if run.recorded]
        for index, run in enumerate(recorded):
            for other in recorded[:index]:
                segment = _first_conflict(other, run)
                ways = (way for way, at in run.predecessors.items() if segment is not None and at <= segment)
                ordered = any(way is other or other in ancestors[way] for way in ways)
                check(segment is None or ordered, f"{run} does not wait for {other}")


def _first_conflict(earlier: Run, later: Run) -> int | None:
    """The first segment of ``later`` that touches bytes in conflict with ``earlier``."""
    assert earlier.footprint is not None
    assert later.footprint is not None
    reads, writes = earlier.reads(), earlier.writes()
    if earlier.footprint.read_set is not None:
        reads += [region for regions in earlier.footprint.read_set.members.values() for region in regions]
    accesses = [
        (segment, later.regions(read), later.regions(written)) for segment, read, written in later.footprint.groups
    ]
    if later.footprint.read_set is not None:
        members = [region for regions in later.footprint.read_set.members.values() for region in regions]
        accesses.append((later.footprint.read_set_segment, members, []))
    found = [
        segment
        for segment, read, written in accesses
        if _any_overlap(writes, read) or _any_overlap(writes, written) or _any_overlap(reads, written)
    ]
    return min(found, default=None)


def _any_overlap(some: Sequence[Region], others: Sequence[Region]) -> bool:
    return any(overlap(one, other) for one in some for other in others)
