"""Deliberate faults of the engine: each breaks one rule, and something has to notice.

Law: a registry; every fault replaces one function of the product for as long as a test runs, from outside. Who catches
them is in ``test_mutations``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from asyncjit.arrival import Arrival
from asyncjit.conductor import Conductor
from asyncjit.deps import DepsTracker
from asyncjit.flow import Flow
from asyncjit.ledger import Ledger
from asyncjit.ports import AsyncioPort
from asyncjit.program import Loaded
from asyncjit.records import GroupState, State
from asyncjit.runs import ReleaseWaiter, Start
from asyncjit.scheduler import Scheduler
from asyncjit.stains import Stains
from asyncjit.storage import Storage

__all__ = ["FAULTS", "Fault"]


Make = Callable[[Any], Any]


@dataclass(frozen=True)
class Fault:
    """``make(original)`` gives what stands in for ``owner.name``; ``also`` what else is replaced, in the same words.

    ``theme`` is that of the soak programs that put it to the test most, where one does more than others.
    """

    what: str
    owner: Any
    name: str
    make: Make
    theme: str | None = None
    also: tuple[tuple[Any, str, Make], ...] = ()


FAULTS: list[Fault] = []

#: For the fault that has all replays of a program share one frame.
_frames: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()


def fault(
    what: str, owner: Any, name: str, *, theme: str | None = None, also: tuple[tuple[Any, str, Make], ...] = ()
) -> Callable[[Make], None]:
    """Register a fault."""
    return lambda make: FAULTS.append(Fault(what, owner, name, make, theme, also))


@fault("drop write-after-read edges", DepsTracker, "hazards")
def _(original: Any) -> Any:
    def hazards(self: Any, reads: Any, writes: Any) -> Any:
        found = original(self, reads, writes)
        found.war.clear()
        return found

    return hazards


@fault("drop write-after-write edges", DepsTracker, "hazards")
def _(original: Any) -> Any:
    def hazards(self: Any, reads: Any, writes: Any) -> Any:
        found = original(self, reads, writes)
        found.waw.clear()
        return found

    return hazards


@fault("drop read-after-write edges", DepsTracker, "hazards")
def _(original: Any) -> Any:
    def hazards(self: Any, reads: Any, writes: Any) -> Any:
        found = original(self, reads, writes)
        found.raw.clear()
        return found

    return hazards


@fault("drop the readers of a read set", DepsTracker, "record_read_set")
def _(original: Any) -> Any:
    return lambda self, read_set, dep, stream: None


@fault("give a frame to the next replay before its device has passed it", Loaded, "take_frame")
def _(original: Any) -> Any:
    def take_frame(self: Any, group: Any) -> Any:
        frames = _frames.setdefault(self.executable, [])
        if not frames:
            frames.append(self.executable.create_frame())
        return frames[0]

    return take_frame


@fault("let others write what abandoned work still reads", Scheduler, "_on_wait_cancelled")
def _(original: Any) -> Any:
    def on_wait_cancelled(self: Any, stimulus: Any, commands: list[Any]) -> None:
        original(self, stimulus, commands)
        run = stimulus.run
        if run.state is State.ABANDONED:
            self._release_successors(run, started=True)

    return on_wait_cancelled


@fault("let go a waiter of work that is to be finished first", Scheduler, "_on_wait_cancelled")
def _(original: Any) -> Any:
    def on_wait_cancelled(self: Any, stimulus: Any, commands: list[Any]) -> None:
        original(self, stimulus, commands)
        if not any(type(command) is ReleaseWaiter for command in commands):
            commands.append(ReleaseWaiter(stimulus.run))

    return on_wait_cancelled


@fault("ignore one of the gates of a start", Conductor, "_start")
def _(original: Any) -> Any:
    def start(self: Any, replay: Any, command: Any) -> None:
        gates = {segment: list(runs)[1:] for segment, runs in command.gates.items() if len(runs) > 1}
        original(self, replay, Start(command.run, gates, command.inline))

    return start


@fault("let successors start when a run starts", Flow, "_start")
def _(original: Any) -> Any:
    def start(self: Any, run: Any, commands: list[Any]) -> None:
        original(self, run, commands)
        self._release_successors(run, started=True)

    return start


@fault("swap two tickets: record a call behind the one that comes after it", Arrival, "_on_submit")
def _(original: Any) -> Any:
    held: list[Any] = []

    def on_submit(self: Any, stimulus: Any, commands: list[Any]) -> None:
        # One call in three waits for the next before it takes its ticket, as if that were taken at the await.
        if not held and not stimulus.inline and self._tickets % 3 == 1 and not stimulus.run.group.exempt:
            held.append((self, stimulus))
            return
        original(self, stimulus, commands)
        if held and held[0][0] is self:
            original(self, held.pop()[1], commands)
        else:
            held.clear()

    return on_submit


@fault("wake waiters when a replay starts", Conductor, "_launch")
def _(original: Any) -> Any:
    def launch(self: Any, submission: Any, replay: Any, loaded: Any) -> None:
        original(self, submission, replay, loaded)
        for storage in (*replay.outputs, *replay.written):
            storage.leave(replay)
        replay.settled.signal()

    return launch


@fault("poison nothing when a run fails", Ledger, "stain")
def _(original: Any) -> Any:
    return lambda self, run, regions: None


@fault("heal nothing", Stains, "heal")
def _(original: Any) -> Any:
    return lambda self, run, regions: None


@fault("admit one more than in_flight_max", GroupState, "has_room")
def _(original: Any) -> Any:
    return property(lambda self: self.in_flight_max is None or self.running <= self.in_flight_max)


@fault("forget to relink after a removal", Ledger, "withdraw")
def _(original: Any) -> Any:
    def withdraw(self: Any, run: Any) -> None:
        original(self, run)
        self.is_stale = False

    return withdraw


@fault("write in place into memory that somebody has a view of", Conductor, "_before_write")
def _(original: Any) -> Any:
    def before_write(self: Any, storage: Any) -> None:
        storage.is_state = True

    return before_write


@fault("lose the wake-up of a replay", Conductor, "_conclude")
def _(original: Any) -> Any:
    def conclude(self: Any, replay: Any) -> None:
        original(self, replay)
        if replay.ticket % 5 == 0:
            self._ended.remove(replay)

    return conclude


@fault("lose a coalesced wake-up of the loop", AsyncioPort, "_drain")
def _(original: Any) -> Any:
    def drain(self: Any) -> None:
        while len(self._due) > 1:
            self._due.pop()
        original(self)

    return drain


@fault("remove a replay and leave its readers to it", Ledger, "stain_source")
def _(original: Any) -> Any:
    return lambda self, run: None


@fault("take calls beyond replays_queued_max", Arrival, "_is_queue_full")
def _(original: Any) -> Any:
    return lambda self, run: False


@fault("leave a trace of a refused call", Ledger, "unlink")
def _(original: Any) -> Any:
    def unlink(self: Any, run: Any) -> None:
        for other in run.predecessors:
            other.successors.remove(run)
        run.blockers = 0

    return unlink


@fault("give a view of state instead of a copy", Storage, "read_host")
def _(original: Any) -> Any:
    def read_host(self: Any, offset: int, shape: Any, strides: Any, dtype: Any, what: str) -> Any:
        original(self, offset, shape, strides, dtype, what)
        return np.ndarray(shape, dtype, buffer=self.memory, offset=offset, strides=strides)

    return read_host
