"""Measuring on fewer cores than there are.

Law: binds threads to cores and takes that back; nothing is measured here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["on_cores"]


@contextmanager
def on_cores(count: int | None) -> Iterator[None]:
    """Within the block the calling thread, and what it starts, runs on the first ``count`` cores that it may use; on
    all of them with None.

    So each engine has the same cores, whatever it takes for the number of its threads: with one worker asyncjit would
    leave all cores to BLAS. Where the system cannot bind threads nothing happens.
    """
    bind = getattr(os, "sched_setaffinity", None)
    if count is None or bind is None:
        yield
        return
    before = os.sched_getaffinity(0)
    bind(0, sorted(before)[:count])
    try:
        yield
    finally:
        bind(0, before)
