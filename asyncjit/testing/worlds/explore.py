"""Small worlds, exhaustively: programs of a few replays over a few bytes, in every order of all that can happen.

Law: enumerates and explores; what is right is judged by ``World.judge``, what holds in between by ``Scheduler.verify``.

A program is a number. Each replay has a few segments, each of which reads and writes at most one byte; so the number is
written in digits, one a segment. Programs that are the same but for names of bytes are told apart by nothing, so only
the least of them counts; one with a replay that meets no other is a smaller program, and does not count at all.
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

Digits = tuple[int, ...]


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
        return int(((self.bytes + 1) ** 2) ** (self.replays * self.segments))

    def program(self, number: int) -> list[Call] | None:
        """The program of a number; None where another stands for it, or a smaller one."""
        digits = self._digits(number)
        for order in permutations(range(1, self.bytes + 1)):
            if self._renamed(digits, (0, *order)) < digits:
                return None
        calls = [self._call(digits[i * self.segments : (i + 1) * self.segments]) for i in range(self.replays)]
        if not all(any(_meet(call, other) for other in calls if other is not call) for call in calls):
            return None
        return calls

    def programs(self, every: int = 1, first: int = 0) -> Iterator[tuple[int, list[Call]]]:
        """Of all numbers each ``every``-th that counts, from ``first`` on."""
        for number in range(first, self.count, every):
            calls = self.program(number)
            if calls is not None:
                yield number, calls

    def _digits(self, number: int) -> Digits:
        base = (self.bytes + 1) ** 2
        return tuple(number // base**place % base for place in range(self.replays * self.segments))

    def _renamed(self, digits: Digits, names: Sequence[int]) -> Digits:
        base = self.bytes + 1
        return tuple(names[digit // base] * base + names[digit % base] for digit in digits)

    def _call(self, digits: Digits) -> Call:
        def span(byte: int) -> tuple[Span, ...]:
            return (Span(1, byte - 1, byte),) if byte else ()

        parts = tuple(Part(span(digit // (self.bytes + 1)), span(digit % (self.bytes + 1))) for digit in digits)
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
    paths: list[tuple[tuple[str, int, int], ...]] = [()]
    while paths:
        path = paths.pop()
        world = World(calls, new_groups(), disturbances=disturbances)
        world.verifies = False
        for action in path:
            world.do(action)
        mark = fingerprint(world)
        if mark not in seen:
            seen.add(mark)
            world.scheduler.verify()
            paths += [(*path, action) for action in (*world.actions(), *world.disturbances())]
            if not world.actions():
                yield world


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
