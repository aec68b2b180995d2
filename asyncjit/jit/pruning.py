"""``prune=True``: the first replay computes everything, later ones only what can change.

Law: which of two programs a call replays. Both give the same results as long as nobody changes what the once-part
reads.
"""

from __future__ import annotations

import threading

from asyncjit.capture import Pruned
from asyncjit.engine import Engine
from asyncjit.program import Program
from asyncjit.replay import Replay

__all__ = ["Pruning"]


class Pruning:
    """The state of one pruned capture. Any thread."""

    def __init__(self, engine: Engine, pruned: Pruned, whole: Program, executor: str | None) -> None:
        self._engine = engine
        self._pruned = pruned
        self._whole = whole
        self._executor = executor
        self._rest: Program | None = None
        self._lock = threading.Lock()

    def program(self) -> Program:
        """What the next call replays."""
        rest = self._rest
        if rest is None:
            return self._whole
        if any(rest.state[slot].failure is not None for slot in self._pruned.held):
            # The replay that should have computed it failed or was cancelled: compute it again.
            self._rest = None
            return self._whole
        return rest

    def programs(self) -> list[Program]:
        """What the next call replays, and then the other one if it was made."""
        rest = self._rest
        return [self._whole] if rest is None else [rest, self._whole]

    def learn(self, replay: Replay[object]) -> None:
        """Take what a replay of the whole program has computed, or will."""
        if self._rest is not None or replay.program is not self._whole:
            return
        with self._lock:
            if self._rest is None:
                pruned = self._pruned
                handed = replay.outputs[len(replay.outputs) - len(pruned.held) :]
                state = {**pruned.rest_state, **dict(zip(pruned.held, handed, strict=True))}
                self._rest = self._engine.load(pruned.rest, state, pruned.rest_outputs, executor=self._executor)
