"""Frames of the NumPy executor: the memory of one replay, and the calls of its segments with prepared views.

Law: memory and views; runs nothing, knows no thread and no clock. Imports ``_numpy_code``, ``_numpy_memory`` and below.

Views of intermediates are made once a frame, views of state once a ``bind_state``, views of inputs and outputs once a
replay. A segment is a list of entries ``(function, arguments)``; a replay fills in the arguments that are an input or
an output, and takes them out again when the segment has run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from asyncjit.devices._numpy_code import SegmentCode
from asyncjit.devices._numpy_memory import Array, ViewSpec
from asyncjit.devices.base import Memory
from asyncjit.errors import InternalError

__all__ = ["POISON", "Bound", "Entry", "NumpyFrame", "State"]

#: One call, ready to be made.
Entry = tuple[Callable[..., object], Sequence[Array]]

POISON = 0xFF


class State(NamedTuple):
    """What STATE slots are bound to at one time: the memory of each, a view of each operand, and slots still
    unbound."""

    memories: dict[int, tuple[Memory, int]]
    views: tuple[Array, ...]
    missing: tuple[int, ...]


class Bound:
    """A segment in one frame with one state: its entries, and the arguments in them that a replay fills in and takes
    out again, as (arguments, place, index of the view).

    Filled in place: 0.1 us an argument, where making the call's arguments anew takes 0.3 us.
    """

    __slots__ = ("_places", "entries", "state")

    def __init__(self, state: State, entries: list[Entry], places: list[tuple[list[Any], int, int]]) -> None:
        self.state = state
        self.entries = entries
        self._places = places

    def fill(self, views: Sequence[Array]) -> None:
        for arguments, place, index in self._places:
            arguments[place] = views[index]

    def release(self) -> None:
        """Refer to the replay's inputs and outputs no more."""
        for arguments, place, _ in self._places:
            arguments[place] = None


class NumpyFrame:
    """The arena of one replay, faulted in, with the views of all intermediates."""

    __slots__ = ("__weakref__", "_arena", "_bound", "_is_shared", "_segments", "_views", "nbytes")

    def __init__(
        self, segments: Sequence[SegmentCode], specs: Sequence[ViewSpec], arena: Array, is_shared: bool = False
    ) -> None:
        # Cold pages cost 1.6 us each, in the first replay if not here.
        arena.fill(0)
        self.nbytes = arena.nbytes
        self._arena = arena
        self._is_shared = is_shared
        self._segments = segments
        self._views = [spec.view(arena, 0) for spec in specs]
        self._bound: list[Bound | None] = [None] * len(segments)

    def poison(self) -> None:
        """Overwrite the arena, so that whoever reads what no call wrote gets NaN, -1 or nonsense. Not one that other
        frames use too: what they left there counts."""
        if not self._is_shared:
            self._arena.fill(POISON)

    def forget_state(self) -> None:
        """Drop the views of state that are kept for the next replay. One that runs right now has its own references."""
        for index, segment in enumerate(self._segments):
            if segment.stateful:
                self._bound[index] = None

    def bind(
        self, segment: int, bindings: Sequence[tuple[Memory, int]], state: State, values: Sequence[int] = ()
    ) -> Bound:
        """A segment filled in for one replay; ``release`` it when it has run. One thread at a time for each segment.

        ``values``: those of the plan's symbols.

        Raises:
            InternalError: a STATE slot was never bound.
        """
        code = self._segments[segment]
        bound = self._bound[segment]
        if bound is None or (bound.state is not state and code.stateful):
            self._bound[segment] = bound = self._prepare(code, state)
        views: list[Any] = []
        if code.bound:
            for slot, natural, dtype, shape, spec in code.bound:
                memory, base = bindings[slot]
                if not natural or base or memory.dtype is not dtype or memory.shape != shape:
                    memory = spec.view(memory, base)
                views.append(memory)
        if code.late is not None:
            views += code.late.make(values, self._arena, state.memories, bindings)
        if views:
            bound.fill(views)
        return bound

    def _prepare(self, code: SegmentCode, state: State) -> Bound:
        if state.missing:
            raise InternalError(
                f"STATE slots {list(state.missing)} were never bound; call bind_state before the first submission",
                story=(),
            )
        entries: list[Entry] = []
        places: list[tuple[list[Any], int, int]] = []
        for call in code.codes:
            arguments: list[Any] = [None] * sum(map(len, call[1:]))
            for place, index in call.from_arena:
                arguments[place] = self._views[index]
            for place, index in call.from_state:
                arguments[place] = state.views[index]
            places += ((arguments, place, index) for place, index in call.from_bindings)
            late_from = len(code.bound)
            places += ((arguments, place, index + late_from * (index >= 0)) for place, index in call.from_late)
            entries.append((call.function, arguments if call.from_bindings or call.from_late else tuple(arguments)))
        return Bound(state, entries, places)
