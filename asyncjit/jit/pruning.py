"""``prune=True``: what depends on no argument is computed again only when the state that it reads was written.

Law: which of two programs a call replays. Both give the same results: the choice is made where the call takes its
ticket, and the short one is chosen only if no replay between the one that computed and this one may have written what
was read. A replay that failed or was removed hands nothing on, and one that has not ended does not yet, so that its
end is its caller's alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from asyncjit.capture import Pruned
from asyncjit.engine import Engine
from asyncjit.program import Program
from asyncjit.replay import Replay
from asyncjit.runs import FINISHED, Run, State
from asyncjit.scheduler import Scheduler
from asyncjit.storage import Storage
from asyncjit.watches import Inputs

__all__ = ["Pruning"]


class Pruning:
    """The state of one pruned capture. It is read and changed under the engine's lock."""

    def __init__(
        self, engine: Engine, pruned: Pruned, whole: Program, executor: str | None, *, lowering: bool = True
    ) -> None:
        self._whole = whole
        self._rest = engine.load(
            pruned.rest, pruned.rest_state, pruned.rest_outputs, lowering=lowering, executor=executor
        )
        if not lowering:
            # It is for the caller to have it lowered.
            self._rest.lowered = False
        self._watch = engine.watch(pruned.once_reads)
        self._held_count = pruned.held_count
        #: What the once-part gave, and the ticket of the replay that computed it.
        self._held: Sequence[Storage] = ()
        self._computed_at = 0
        #: The replay of the whole program that will give it anew.
        self._computing: tuple[Run, Sequence[Storage]] | None = None

    def programs(self) -> list[Program]:
        """What the next call replays, as far as can be told, and then the other one. Any thread."""
        both, computing = [self._rest, self._whole], self._computing
        computed_at = self._computed_at
        if computing is not None and computing[0].state is State.DONE:
            computed_at = computing[0].ticket
        return both if computed_at > self._watch.written_at else both[::-1]

    def choose(self, inputs: Inputs, scheduler: Scheduler) -> tuple[Program, Inputs]:
        """What a call replays that takes the next ticket now. Under the engine's lock."""
        computing = self._computing
        if computing is not None and computing[0].state is State.DONE:
            self._computed_at, self._held = computing[0].ticket, computing[1]
            self._computing = None
        if self._computed_at > self._watch.written_at and scheduler.is_certain:
            return self._rest, [*inputs, *((storage, 0) for storage in self._held)]
        return self._whole, inputs

    def learn(self, replay: Replay[object]) -> None:
        """Take what a replay of the whole program will compute. Under the engine's lock."""
        if replay.program is not self._whole:
            return
        computing = self._computing
        if computing is not None:
            run, _ = computing
            if run.state not in FINISHED and run.ticket > self._watch.written_at:
                return
        self._computing = (replay._run, replay.outputs[len(replay.outputs) - self._held_count :])
