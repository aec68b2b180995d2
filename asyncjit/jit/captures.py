"""The captures of one function on one engine, and which of them fits a call.

Law: matching is the hot path of every call: one pass over the arguments, one dictionary lookup, a few identity checks.
Whatever needs more (overlapping arguments, arguments that are also state) is looked at only when two of them share
memory.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from asyncjit.capture import Pattern, pattern_of, region
from asyncjit.deps import overlap
from asyncjit.engine import Engine
from asyncjit.errors import AliasError
from asyncjit.jit.body import Recorded
from asyncjit.jit.guards import Guards
from asyncjit.jit.hosts import CallHost
from asyncjit.jit.options import Options
from asyncjit.jit.pruning import Pruning
from asyncjit.jit.results import SymbolicResults, assembler
from asyncjit.numpy import Array
from asyncjit.program import Group, Program
from asyncjit.storage import Storage

__all__ = ["Entry", "Epoch", "Table"]

Key = tuple[Hashable, ...]


class Entry:
    """One capture: a program, how to bind a call to it, and what it must not be called with."""

    __slots__ = (
        "assemble",
        "bindings",
        "build",
        "captured",
        "checks",
        "inputs_written",
        "is_plain",
        "key",
        "last_used",
        "names",
        "pattern",
        "pinned",
        "program",
        "pruning",
        "replays",
        "results",
        "states",
    )

    def __init__(
        self, key: Key, pattern: Pattern, program: Program, recorded: Recorded, pruning: Pruning | None = None
    ) -> None:
        captured = recorded.captured
        self.key = key
        self.pattern = pattern
        self.program = program
        #: Chooses the program where the capture is pruned; ``program`` is the whole one then.
        self.pruning = pruning
        self.captured = captured
        self.names = recorded.names
        self.bindings = captured.bindings
        #: Every argument has a slot of its own that begins at its offset.
        self.is_plain = captured.bindings == tuple((index, 0) for index in range(len(recorded.names)))
        self.pinned = captured.pinned
        self.inputs_written = captured.inputs_written
        self.states = frozenset(captured.state_touches)
        writes_state = any(touch.writes for touches in captured.state_touches.values() for touch in touches)
        #: An argument that is also state matters.
        self.checks = bool(self.states) and (writes_state or bool(self.inputs_written))
        self.build = recorded.build
        self.assemble = assembler(recorded.build, captured.results)
        #: Makes the same with symbolic results, for the values of a replay.
        self.results = SymbolicResults(recorded.build, captured.results)
        self.last_used = 0
        self.replays = 0

    def programs(self) -> list[Program]:
        """What a call replays: the first of them next."""
        return [self.program] if self.pruning is None else self.pruning.programs()

    def nbytes(self) -> int:
        """Bytes of one frame, and of what the recording made: constants."""
        frames = (sum(program.plan.frame_nbytes.values()) for program in self.programs())
        return max(frames) + sum(storage.nbytes for storage in self.captured.constants)

    def bind(self, arrays: Sequence[Array]) -> list[tuple[Any, int]]:
        """Storage and offset of each INPUT slot."""
        if self.is_plain:
            return [(array._storage, array._offset) for array in arrays]
        return [(arrays[index]._storage, arrays[index]._offset + shift) for index, shift in self.bindings]

    def takes_pinned(self, arrays: Sequence[Array]) -> bool:
        return all(arrays[i]._storage is storage and arrays[i]._offset == offset for i, storage, offset in self.pinned)


class Epoch:
    """Captures made while the names that the function reads were bound to the same objects."""

    __slots__ = ("entries", "guards", "pinned")

    def __init__(self, guards: Guards) -> None:
        self.guards = guards
        #: By key; captures that hold for one pattern of overlaps only by ("overlap", key, pattern).
        self.entries: dict[Hashable, Entry] = {}
        #: Captures that bind some arguments as state, by key.
        self.pinned: dict[Key, list[Entry]] = {}

    def __iter__(self) -> Iterator[Entry]:
        yield from list(self.entries.values())
        for entries in list(self.pinned.values()):
            yield from list(entries)

    def add(self, entry: Entry) -> Entry:
        """Keep the entry, or the one that another thread has made for the same calls meanwhile."""
        if entry.pinned:
            self.pinned.setdefault(entry.key, []).append(entry)
            return entry
        key: Hashable = ("overlap", entry.key, entry.pattern) if entry.captured.merged else entry.key
        return self.entries.setdefault(key, entry)

    def remove(self, entry: Entry) -> None:
        for key, other in list(self.entries.items()):
            if other is entry:
                del self.entries[key]
        for key, entries in list(self.pinned.items()):
            kept = [other for other in entries if other is not entry]
            if kept:
                self.pinned[key] = kept
            else:
                del self.pinned[key]


class Table:
    """Everything that is captured of one function (of one instance) on one engine. Any thread."""

    def __init__(self, engine: Engine, name: str, function: object, options: Options) -> None:
        self.engine = engine
        self.name = name
        self.options = options
        self.group = Group(
            name, in_flight_max=options.in_flight_max, on_cancel=options.on_cancel, exempt=options.exempt
        )
        self.host = CallHost(engine)
        self.uses = 0
        self.made = 0
        self.dropped = 0
        #: Replays of captures that are held no more.
        self._replays_before = 0
        self._function = function
        self._lock = threading.Lock()
        #: Names that the function rebinds itself while it is recorded.
        self._ignored: frozenset[tuple[int, str]] = frozenset()
        self.epoch = Epoch(Guards(function))
        self._others: list[Epoch] = []

    def current(self) -> Epoch:
        """The epoch of the names as they are bound now."""
        epoch = self.epoch
        if epoch.guards.hold():
            return epoch
        with self._lock:
            known = next((other for other in self._others if other.guards.hold()), None)
            if known is None:
                known = Epoch(Guards(self._function, self._ignored))
            else:
                self._others.remove(known)
            if any(epoch):
                self._others.append(epoch)
            self.epoch = known
            return known

    def find(self, epoch: Epoch, key: Key, arrays: Sequence[Array]) -> Entry | None:
        """The capture that fits, or None when the call has to be recorded.

        Raises:
            AliasError: a written argument overlaps another one, or state, in a way that the capture did not have.
        """
        entry = epoch.entries.get(key)
        storages = [array._storage for array in arrays]
        apart = len(set(storages)) == len(storages)
        if (
            entry is not None
            and apart
            and not epoch.pinned
            and not (entry.checks and not entry.states.isdisjoint(storages))
        ):
            return entry
        return self._find_among_aliases(epoch, key, arrays, apart)

    def _find_among_aliases(self, epoch: Epoch, key: Key, arrays: Sequence[Array], apart: bool) -> Entry | None:
        for pinned in epoch.pinned.get(key, ()):
            if pinned.takes_pinned(arrays) and not self._state_conflict(pinned, arrays):
                return pinned
        entry = epoch.entries.get(key)
        pattern = () if apart else pattern_of_arrays(arrays)
        if pattern:
            exact = epoch.entries.get(("overlap", key, pattern))
            if exact is not None:
                entry = exact
            elif entry is not None:
                written = next((group for group in pattern for i, _ in group if i in entry.inputs_written), None)
                if written is not None:
                    if self.options.admits_aliases:
                        return None
                    raise _alias_error(self.name, [entry.names[index] for index, _ in written], entry, "each other")
        if entry is not None and (conflict := self._state_conflict(entry, arrays)) is not None:
            if self.options.admits_aliases:
                return None
            index, storage = conflict
            raise _alias_error(self.name, [entry.names[index]], entry, self.name_of_state(epoch, storage, entry))
        return entry

    def _state_conflict(self, entry: Entry, arrays: Sequence[Array]) -> tuple[int, Storage] | None:
        """An argument that shares bytes with state, one of them written; bound as state itself it may."""
        if not entry.checks:
            return None
        pinned = {index for index, _, _ in entry.pinned}
        for index, array in enumerate(arrays):
            storage: Any = array._storage
            touches = entry.captured.state_touches.get(storage)
            if touches and index not in pinned:
                mine = region(storage, array._offset, array._spec)
                written = index in entry.inputs_written
                if any((written or touch.writes) and overlap(mine, touch.region) for touch in touches):
                    return index, storage
        return None

    def name_of_state(self, epoch: Epoch, storage: Storage, entry: Entry) -> str:
        """What the user calls it, as far as that can be found out."""
        for name, value in epoch.guards.bindings():
            if isinstance(value, Array) and value._storage is storage:
                return f"state {name!r}"
            for attribute, inner in getattr(value, "__dict__", {}).items():
                if isinstance(inner, Array) and inner._storage is storage:
                    return f"state '{name}.{attribute}'"
        met_at = entry.captured.met_at.get(storage)
        return "an array that the capture does not use" if met_at is None else f"state first used at {met_at}"

    def add(self, epoch: Epoch, entry: Entry) -> Entry:
        """Take a new capture; the least recently used one goes where there are too many."""
        with self._lock:
            rebound = epoch.guards.rebound()
            if rebound:
                self._ignored |= rebound
                epoch.guards.drop(rebound)
            self.uses += 1
            entry.last_used = self.uses
            kept = epoch.add(entry)
            if kept is entry:
                self.made += 1
            while self._is_full(entries := list(self)):
                self._drop(min(entries, key=lambda each: each.last_used))
            return kept

    def _is_full(self, entries: Sequence[Entry]) -> bool:
        limit = self.options.captures_bytes_max
        is_heavy = limit is not None and len(entries) > 1 and sum(each.nbytes() for each in entries) > limit
        return is_heavy or len(entries) > self.options.captures_max

    def _drop(self, entry: Entry) -> None:
        self.dropped += 1
        self._replays_before += entry.replays
        for epoch in (self.epoch, *self._others):
            epoch.remove(entry)
        self._others = [epoch for epoch in self._others if any(epoch)]

    def epochs(self) -> list[Epoch]:
        return [self.epoch, *self._others]

    def replays(self) -> int:
        return self._replays_before + sum(entry.replays for entry in self)

    def __iter__(self) -> Iterator[Entry]:
        """All captures held, those of the present names first."""
        for epoch in (self.epoch, *self._others):
            yield from epoch


def pattern_of_arrays(arrays: Sequence[Array]) -> Pattern:
    return pattern_of(
        [array._storage for array in arrays], [array._offset for array in arrays], [array._spec for array in arrays]
    )


def _alias_error(function: str, names: list[str], entry: Entry, other: str) -> AliasError:
    return AliasError(
        f"arguments {' and '.join(map(repr, names))} of {function!r} overlap {other}, and one side is written, which "
        "was not so when the function was captured; pass arrays that share no memory (`x.copy()`), or jit a second "
        "function for calls that overlap",
        function=function,
        names=tuple(names),
        other=other,
        written=tuple(entry.names[index] for index in sorted(entry.inputs_written)),
    )
