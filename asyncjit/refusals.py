"""What a refused, removed or failed replay is told: what, where, expected, given, and what to do.

Law: messages only; when they are due is decided in ``scheduler`` and ``flow``. Imports ``runs`` and below.
"""

from __future__ import annotations

from asyncjit.errors import (
    DependencyError,
    DeviceLostError,
    EngineBusyError,
    EngineClosedError,
    ReplayCancelledError,
)
from asyncjit.runs import Run, State

__all__ = [
    "cancelled",
    "closed_at_call",
    "closed_before_start",
    "device_lost",
    "memory_full",
    "queue_full",
    "source_failed",
]


def source_failed(run: Run, source: Run) -> DependencyError:
    """``run`` reads what ``source`` did not write. Chained is the failure at the root, not one a link.

    So the chain does not grow where a function fails at every call because it failed at the one before.
    """
    root = source.error
    if isinstance(root, DependencyError):
        root = root.__cause__
    error = DependencyError(
        f"replay {run.ticket} of {run.group.name!r} reads what replay {source.ticket} of {source.group.name!r} should "
        f"have written, but that one {'did not run' if source.state is State.DROPPED else 'failed'}: {root}; "
        "call that one again, or overwrite what it left",
        function=run.group.name,
        source=source.group.name,
        source_ticket=source.ticket,
    )
    error.__cause__ = root
    return error


def cancelled(run: Run) -> ReplayCancelledError:
    return ReplayCancelledError(
        f"replay {run.ticket} of {run.group.name!r} was cancelled before it started; call the function again",
        ticket=run.ticket,
    )


def closed_at_call(run: Run) -> EngineClosedError:
    return EngineClosedError(
        f"{run.group.name!r} was called after the engine was closed; open a new engine for new calls"
    )


def closed_before_start(run: Run) -> EngineClosedError:
    return EngineClosedError(
        f"replay {run.ticket} of {run.group.name!r} had not started when the time to close the engine was over; "
        "await replays before closing, or give it longer",
        ticket=run.ticket,
    )


def device_lost(device: str, cause: BaseException) -> DeviceLostError:
    error = DeviceLostError(
        f"device {device!r} was lost: {cause}; what was on it is gone, other devices stay usable", device=device
    )
    error.__cause__ = cause
    return error


def memory_full(run: Run, memory_bytes: int, new_bytes: int, limit: int) -> EngineBusyError:
    return EngineBusyError(
        f"{run.group.name!r} needs {new_bytes:,} bytes more, but {memory_bytes:,} of memory_bytes_max={limit:,} are in "
        "use; drop results that are no longer needed, await replays in flight, or raise the limit",
        limit="memory_bytes_max",
        given=memory_bytes + new_bytes,
        expected=limit,
    )


def queue_full(run: Run, queued: int, limit: int) -> EngineBusyError:
    return EngineBusyError(
        f"{run.group.name!r} was called while {queued:,} replays are queued (replays_queued_max={limit:,}); "
        "await some of them before calling again",
        limit="replays_queued_max",
        given=queued,
        expected=limit,
    )
