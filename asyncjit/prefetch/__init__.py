"""``prefetch``: items read, transformed and copied to a device ahead of whoever consumes them.

Law: the surface; each module says what it is for. The order in which they build on each other: ``window``,
``items``, ``child``, ``processes`` and ``crew``, ``producers``, ``surface``.
"""

from __future__ import annotations

from asyncjit.prefetch.surface import Prefetch, PrefetchStatistics, prefetch

__all__ = ["Prefetch", "PrefetchStatistics", "prefetch"]
