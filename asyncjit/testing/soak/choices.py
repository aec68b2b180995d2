"""Choices: whatever is open in a soak run is decided here, by a seed, by a list, or by who tests the tests.

Law: numbers only; what they mean is for whoever asks. 0 is always the dullest answer, so that a run that was cut short,
or that somebody shrinks, does less and not more.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

__all__ = ["Choices", "RecordedChoices", "SeededChoices"]


class Choices(Protocol):
    """Decides. Thread: one at a time."""

    def choose(self, count: int) -> int:
        """A number from 0 to ``count - 1``; ``count`` is at least 1."""
        ...


class SeededChoices:
    """Chooses by a seed: first the seed modulo what there is, so that neighbours differ, and at random from then on.

    ``taken`` lists what was chosen, for ``RecordedChoices``.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = random.Random(seed)
        self.taken: list[int] = []

    def choose(self, count: int) -> int:
        """See ``Choices``."""
        chosen = self._random.randrange(count) if self.taken else self._seed % count
        self.taken.append(chosen)
        return chosen


class RecordedChoices:
    """Chooses what is on a list; 0 where that is over. A number that is too large for its question is taken modulo."""

    def __init__(self, taken: Sequence[int]) -> None:
        self._left = list(reversed(taken))

    def choose(self, count: int) -> int:
        """See ``Choices``."""
        return self._left.pop() % count if self._left else 0
