"""Cells: arrays of the serial run, and which of their elements hold nothing.

Law: values and marks; knows no programs and no outcomes.

Next to each element stands whether it is **void**: the statement that should have written it failed. A statement that
reads void elements must fail, whoever overwrites them heals them, a failed statement leaves void all that it writes.
Those that were removed before they started leave void their outputs only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Cell"]


class Cell:
    """Values, which of them are void, and which were written by the statement under trial.

    Of what a statement makes for itself, elements are void that follow from void ones. The engine knows bytes by ranges
    and rows of blocks, so it may take more for void than is: what it may is ``stained``. Stains that are ``ragged``
    (left by writes with gaps) are healed as a whole or not at all.
    """

    __slots__ = ("fresh", "is_outside", "ragged", "root", "stained", "values", "void")

    def __init__(self, values: np.ndarray, void: np.ndarray, fresh: np.ndarray, root: Cell | None, *, is_outside: bool):
        self.values, self.void, self.fresh, self.is_outside = values, void, fresh, is_outside
        self.root = root or self
        if root is None:
            self.stained = np.zeros(values.size, bool)
            self.ragged = np.zeros(values.size, bool)

    @classmethod
    def of(cls, values: np.ndarray, void: np.ndarray | None = None) -> Cell:
        """What a statement makes for itself."""
        made = np.zeros(values.shape, bool)
        return cls(values, made if void is None else void, np.zeros(values.shape, bool), None, is_outside=False)

    def copy(self) -> Cell:
        other = Cell(self.values.copy(), self.void.copy(), np.zeros_like(self.fresh), None, is_outside=True)
        other.stained[...], other.ragged[...] = self.stained, self.ragged
        return other

    def _view(self, values: np.ndarray, void: np.ndarray, fresh: np.ndarray) -> Cell:
        return Cell(values, void, fresh, self.root, is_outside=self.is_outside)

    def __getitem__(self, key: Any) -> Cell:
        return self._view(self.values[key], self.void[key], self.fresh[key])

    @property
    def T(self) -> Cell:  # noqa: N802
        return self._view(self.values.T, self.void.T, self.fresh.T)

    @property
    def stale(self) -> np.ndarray:
        """Which elements are void, and were not written since."""
        found: np.ndarray = self.void & ~self.fresh
        return found

    @property
    def hull(self) -> slice:
        """From the first element to the last, in the order in which the root's lie in memory."""
        start, stop = np.lib.array_utils.byte_bounds(self.fresh)
        origin, _ = np.lib.array_utils.byte_bounds(self.root.fresh)
        return slice(start - origin, stop - origin)

    def fail(self, trial: Cell) -> None:
        """The statement that wrote as ``trial`` says has failed."""
        self.void |= trial.fresh
        self.stained[...], self.ragged[...] = trial.stained, trial.ragged
        self.stained |= trial.void.ravel()

    def succeed(self, trial: Cell) -> None:
        """It did well: what it wrote is void no more."""
        fresh = trial.fresh.ravel()
        self.values[...] = trial.values
        self.void &= ~trial.fresh
        if not (self.ragged & ~fresh).any():
            self.ragged[...] = False
        self.stained &= ~fresh | self.ragged
