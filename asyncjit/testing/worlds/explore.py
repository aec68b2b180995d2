"""Small worlds, exhaustively: programs of a few replays over a few bytes, in every order of all that can happen.

Law: enumerates and explores; what is right is judged by ``World.judge``, what holds in between by ``Scheduler.verify``.

Of a replay the scheduler is told which of its segments is the first to read a byte, and which the first to write it.
So all programs that agree in that are one program to it; and of these one is the hardest, in which every later segment
does the same again: whatever order would be wrong in another is wrong in this one. So a program is one number between
none and the last segment for each replay, each byte, and each of reading and writing, and nothing is left out by that.
Of programs that are the same but for names of bytes, only the least counts; one with a replay that meets no other is a
smaller program, and does not count at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from asyncjit.deps import Region
from asyncjit.records import GroupState
from asyncjit.testing.worlds.program import CPU, Call, Part, Span
from asyncjit.testing.worlds.world import World

__all__ = ["Bound", "explore", "fingerprint", "new_groups"]

Action = tuple[str, int, int]
#: From which segment on a byte is read, and from which on it is written.
Touched = tuple[int, int]


def new_groups() -> list[GroupState]:
    """One with room for one, one for two, and one for any number that takes no part in the queue limit."""
    return [
        GroupState("one", in_flight_max=1),
        GroupState("two", in_flight_max=2, on_cancel="abandon"),
        GroupState("many", in_flight_max=None, exempt=True),
    ]


@dataclass(frozen=True)
class Bound:
    """How small the worlds are: replays, segments of each, bytes of state; group of all replays, device of all."""

    replays: int = 3
    segments: int = 1
    bytes: int = 2
    group: int = 2
    device: str = CPU

    @property
    def count(self) -> int:
        """Programs before any are left out."""
        return int(self._base ** (2 * self.replays * self.bytes))

    @property
    def _base(self) -> int:
        return self.segments + 1

    def program(self, number: int) -> list[Call] | None:
        """The program of a number; None where another stands for it, or a smaller one."""
        replays = self._replays(number)
        for order in permutations(range(self.bytes)):
            if [tuple(replay[byte] for byte in order) for replay in replays] < replays:
                return None
        calls = [self._call(replay) for replay in replays]
        if not all(any(_meet(call, other) for other in calls if other is not call) for call in calls):
            return None
        return calls

    def programs(self, every: int = 1, first: int = 0) -> Iterator[tuple[int, list[Call]]]:
        """Of all numbers each ``every``-th that counts, from ``first`` on."""
        for number in range(first, self.count, every):
            calls = self.program(number)
            if calls is not None:
                yield number, calls

    def _replays(self, number: int) -> list[tuple[Touched, ...]]:
        digits = [number // self._base**place % self._base for place in range(2 * self.replays * self.bytes)]
        pairs = list(zip(digits[::2], digits[1::2], strict=True))
        return [tuple(pairs[at : at + self.bytes]) for at in range(0, len(pairs), self.bytes)]

    def _call(self, touched: Sequence[Touched]) -> Call:
        def spans(segment: int, which: int) -> tuple[Span, ...]:
            # 0 is never; n is from segment n - 1 on.
            return tuple(Span(1, byte, byte + 1) for byte, at in enumerate(touched) if 0 < at[which] <= segment + 1)

        parts = tuple(Part(spans(segment, 0), spans(segment, 1)) for segment in range(self.segments))
        return Call(parts, group=self.group, device=self.device, has_output=True)


def _meet(one: Call, other: Call) -> bool:
    writes, others = set(one.writes()), set(other.writes())
    return bool(writes & others or writes & set(other.reads()) or others & set(one.reads()))


def explore(calls: Sequence[Call], disturbances: int) -> Iterator[World]:
    """Every end that the program can come to: all orders of all actions, worlds that look the same only once.

    Invariants are checked in every state. At most ``disturbances`` times a call is cancelled, a waiter leaves, or a
    segment fails.
    """
    seen: set[object] = set()
    paths: list[tuple[Action, ...]] = [()]
    while paths:
        path = paths.pop()
        world = World(calls, new_groups(), disturbances=disturbances)
        world.verifies = False
        for action in path:
            world.do(action)
        while (mark := fingerprint(world)) not in seen:
            seen.add(mark)
            world.scheduler.verify()
            ordinary = world.actions()
            if not ordinary:
                yield world
            following = [*_enough(world, ordinary), *world.disturbances()]
            if not following:
                break
            # The others are come back to from the beginning; this world goes one of the ways itself.
            paths += [(*path, action) for action in following[1:]]
            path = (*path, following[0])
            world.do(following[0])


def _enough(world: World, actions: list[Action]) -> list[Action]:
    """Of what can happen next, that from which every wrong order still follows.

    A segment that is not the last of its replay may go first. The scheduler hears of ends alone, so whatever else can
    happen can happen after it as well. And where another replay runs too early or too late for it, that one does so for
    the last segment too, which touches all that the replay touches, and whose place is left open; its own first touch
    cannot come too early more easily than by going first.
    """

    def is_last(action: Action) -> bool:
        run = world.runs[action[1]]
        return run is not None and len(world.tasks[run].left) == 1

    return [action for action in actions if action[0] == "part" and not is_last(action)][:1] or actions


def fingerprint(world: World) -> object:
    """All that the future depends on: equal for two worlds that go on in the same ways."""
    ledger = world.scheduler._ledger
    bytes_ = [Region(key, at, at + 1) for key, content in sorted(world.memory.items()) for at in range(len(content))]
    hazards = [ledger.tracker.hazards([byte], [byte]) for byte in bytes_]
    probes = [[[dep.ticket for dep in kind] for kind in (found.raw, found.war, found.waw)] for found in hazards]
    stains = [(run.ticket, region) for _, found in sorted(ledger.stains.by_key.items()) for run, region in found]
    runs = [
        None
        if run is None
        else (
            run.state,
            run.ticket,
            run.waiters,
            run.cancelled,
            run.unwanted,
            sorted((other.ticket, segment) for other, segment in run.predecessors.items()),
            sorted(other.ticket for other in run.needs),
            type(run.error),
            run in world.fired,
            run in world.tasks and (world.tasks[run].left, world.tasks[run].is_spoilt),
            {part: at.hex() for part, at in world.digests.get(run, {}).items()},
        )
        for run in world.runs
    ]
    inbox = [(type(stimulus).__name__, stimulus.run.ticket) for stimulus in world.inbox]
    memory = sorted((key, bytes(content)) for key, content in world.memory.items())
    return repr((probes, stains, runs, inbox, memory, world.disturbances_left))
