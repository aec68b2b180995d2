"""A run of several steps, driven from a task or from a plain thread.

Law: waits and hands back; what is waited for is the run's.
"""

from __future__ import annotations

from typing import Any

import anyio.to_thread

from asyncjit.numpy import Array
from asyncjit.onnx._program import Run
from asyncjit.replay import Replay

__all__ = ["awaited", "blocked"]


async def awaited(run: Run) -> dict[str, Any]:
    """Drive the steps of a run from a task."""
    answer: Any = None
    try:
        while True:
            wanted = run.send(answer)
            if isinstance(wanted, Replay):
                answer = await wanted
                await _arrived(answer)
            else:
                answer = await anyio.to_thread.run_sync(wanted)
    except StopIteration as end:
        result: dict[str, Any] = end.value
        return result
    finally:
        run.close()


async def _arrived(value: Any) -> None:
    if isinstance(value, Array):
        await value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            await _arrived(each)


def blocked(run: Run) -> dict[str, Any]:
    """Drive the steps of a run from a thread without a loop."""
    answer: Any = None
    while True:
        try:
            wanted = run.send(answer)
        except StopIteration as end:
            result: dict[str, Any] = end.value
            return result
        answer = wanted.wait() if isinstance(wanted, Replay) else wanted()
