"""Records: what came of the statements of a soak run, as the oracle is told.

Law: data, and the errors that are made on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asyncjit.numpy import Array
from asyncjit.replay import Replay
from asyncjit.runs import Run
from asyncjit.testing.soak.program import Program, Source, Statement

__all__ = ["InjectedError", "Read", "Record"]


class InjectedError(Exception):
    """What a call fails with because the device was told to."""


@dataclass(eq=False)
class Record:
    """What came of a statement. ``run`` is the scheduler's of its last replay; None where the call was refused."""

    index: int
    statement: Statement
    #: How often all had been loaded anew.
    generation: int = 0
    replay: Replay[Any] | None = None
    run: Run | None = None
    refusal: BaseException | None = None
    arrays: Sequence[Array] | None = None
    #: Waits or ``cancel`` that may have removed it.
    cancels: int = 0
    #: Rows that a batch was made of.
    rows: np.ndarray | None = None
    #: Replays that the statement made.
    replays: list[Replay[Any]] = field(default_factory=list)
    #: The same, as the scheduler knows them.
    runs: list[Run] = field(default_factory=list)

    def settle(self) -> None:
        """The statement has been made, and not refused."""
        self.replay = self.replays[-1]
        self.run = self.replay._run
        self.runs = [replay._run for replay in self.replays]

    def outputs(self) -> Sequence[Array]:
        """The arrays that it makes, maybe pending; asking for them makes them wanted."""
        if self.arrays is None:
            assert self.replay is not None
            self.arrays = self.replay.result or ()
        return self.arrays

    def reach(self, program: Program) -> frozenset[int]:
        """Devices that it may have run on."""
        if self.statement.kind == "call":
            return program.bodies[self.statement.body].reach
        return frozenset((self.statement.device, *self.statement.devices))


@dataclass(frozen=True, eq=False)
class Read:
    """What reading an array, or some ``rows`` of it, gave at one place of the order."""

    source: Source
    found: np.ndarray | BaseException
    where: str
    rows: slice | None = None
