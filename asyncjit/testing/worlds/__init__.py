"""Worlds: the pure scheduler with everything around it, small enough to try all orders of events.

Law: this page says what there is. ``program`` is what is run, ``world`` runs it on a ``Scheduler``, ``serial`` judges,
``explore`` tries everything.
"""

from __future__ import annotations

from asyncjit.testing.worlds.explore import Bound, explore

__all__ = ["Bound", "explore"]
