"""Dynamic batching: concurrent calls of one function share a replay.

Law: ``gathering`` decides in synchronous steps who runs with whom and when; ``rows`` takes calls apart and results too;
``batched`` waits. Nothing here starts a task or a thread: those who wait drive it.
"""

from __future__ import annotations

from asyncjit.jit.batching.batched import Batched, BatchStatistics
from asyncjit.jit.batching.rows import buckets_of

__all__ = ["BatchStatistics", "Batched", "buckets_of"]
