"""How many threads BLAS may use while our workers run: threads x workers <= cores, over all devices of the process.

Law: the one place that touches the thread counts of BLAS libraries. Two workers of one BLAS thread each do 1.97 x the
matmuls of one worker, two of two threads each only 1.39 x (2 cores, 512 x 512): oversubscription costs a third.

The limit holds for the whole process, user code included, from the first plan of a device to the close of the last
one, when the former counts come back. Whoever wants another split gives the device fewer workers: with one, BLAS has
all cores. A thread that holds a limit of its own through threadpoolctl keeps it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["cores", "join", "release", "reserve", "try_limit"]

_logger = logging.getLogger("asyncjit.devices.cpu")

_lock = threading.Lock()
_workers: dict[object, int] = {}
_limiter: Any = None


def cores() -> int:
    """The cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def reserve(owner: object, workers: int) -> None:
    """Count ``workers`` for ``owner``, once, and set the limit. It looks through the loaded libraries, which takes
    milliseconds."""
    with _lock:
        if owner not in _workers:
            _workers[owner] = workers
            _apply_elsewhere()
        _limit_own_thread()


def join(owner: object) -> None:
    """Set the limit for the calling thread, a worker of ``owner``, before its first kernel. Counts nothing: a worker
    that comes to life when its device has been closed must not take threads that nobody would give back."""
    with _lock:
        if owner in _workers:
            _limit_own_thread()


def _limit_own_thread() -> None:
    # Where BLAS uses OpenMP, a thread's limit is its own affair.
    own = ThreadpoolController().select(threading_layer="openmp")
    own.limit(limits=_threads(), user_api="blas")


def try_limit(limit: Callable[..., None], *arguments: object, name: str) -> None:
    """``reserve`` or ``join`` for the device ``name``; raises nothing: without the limit it is slower, not wrong."""
    try:
        limit(*arguments)
    except Exception:
        _logger.exception("device %r could not limit the threads of BLAS and goes on without", name)


def release(owner: object) -> None:
    """Count the workers of ``owner`` no more; after the last owner the former thread counts are back."""
    with _lock:
        if _workers.pop(owner, None) is not None:
            _apply_elsewhere()


def _threads() -> int:
    return max(1, cores() // sum(_workers.values()))


def _apply_elsewhere() -> None:
    """On a thread of its own, which then ends: to threadpoolctl the thread that set the limit of OpenBLAS owns it as
    long as it lives, and later calls from others change nothing."""
    thread = threading.Thread(target=_apply, name="asyncjit-blas", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # No more threads, or the interpreter is shutting down.
        _apply()
    else:
        thread.join()


def _apply() -> None:
    global _limiter
    if _limiter is not None:
        _limiter.restore_original_limits()
        _limiter = None
    if _workers:
        _limiter = ThreadpoolController().limit(limits=_threads(), user_api="blas")
