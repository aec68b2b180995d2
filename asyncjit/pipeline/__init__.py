"""``pipeline``: items of a source through several functions, which work at the same time on different items.

Law: what a user types. How items move is ``pipe``'s, what one stage does ``stages``', the block ``outputs``'.

Nothing here is an async generator: a generator that holds a task group can be suspended inside of it, and then
cancellation strikes whoever runs next (PEP 789). Hence the explicit block.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any

from asyncjit.pipeline.outputs import Outputs
from asyncjit.pipeline.stages import make_stage, name_of
from asyncjit.pipeline.statistics import PipelineStatistics, StageStatistics
from asyncjit.sources import Source

__all__ = ["Outputs", "Pipeline", "PipelineStatistics", "StageStatistics", "pipeline"]


class Pipeline:
    """Stages and limits, to be called with a source; see ``pipeline``. May be called again and at the same time."""

    def __init__(
        self, stages: tuple[Callable[[Any], Any], ...], in_flight: int, on_error: str, close_timeout_s: float
    ) -> None:
        if not stages:
            raise TypeError("a pipeline needs at least one stage: pipeline(f, g)(source)")
        if in_flight < 1:
            raise ValueError(f"in_flight must be at least 1, got {in_flight!r}")
        if on_error not in ("raise", "return"):
            raise ValueError(f"on_error must be 'raise' or 'return', got {on_error!r}")
        if not close_timeout_s >= 0:
            raise ValueError(f"close_timeout_s must not be negative, got {close_timeout_s!r}")
        self._functions = stages
        self._in_flight = in_flight
        self._on_error = on_error
        self._close_timeout_s = close_timeout_s
        self._make_stages()

    def _make_stages(self) -> Any:
        return [make_stage(index, function) for index, function in enumerate(self._functions)]

    def __call__(self, source: Iterable[Any] | AsyncIterable[Any]) -> Outputs:
        """The outputs for the items of ``source``, to be entered with ``async with``; nothing has started before.

        Raises:
            TypeError: ``source`` cannot be iterated over.
        """
        items: Source[Any] = Source(source, "a pipeline")
        return Outputs(self._make_stages(), items, self._in_flight, self._on_error, self._close_timeout_s)

    def __repr__(self) -> str:
        return f"<pipeline {' -> '.join(name_of(function) for function in self._functions)}>"


def pipeline(
    *stages: Callable[[Any], Any], in_flight: int = 4, on_error: str = "raise", close_timeout_s: float = 5.0
) -> Pipeline:
    """Chain functions into a pipeline: ``async with pipeline(f, g, h)(source) as outputs: async for out in outputs: …``

    A stage takes what the one before returned, a tuple too, as its one argument. It is

    - a jitted function: stages of this kind in a row are submitted for an item all at once, each on the pending arrays
      of the one before, with no host and no loop in between; several items may be under way in them;
    - another async function, run on the loop, or any other callable, run on a thread of its own in the context of the
      block; what a callable returns is awaited if it is a coroutine, as a replay is. Each works on one item at a time,
      in order. It gets arrays that have been awaited.

    Outputs come in the order of the source, and arrays in them have been awaited where a jitted function made them. At
    most ``in_flight`` items are on their way, from before the source is asked for one until its output is delivered. A
    plain source is asked on the loop's thread, and is asked for the next item when the memory of the last may be
    written again; it is closed at the end of the block. When the engine is full, items wait for what is under way.

    ``on_error="raise"``: the first item, in the order of the source, at which a stage fails raises in its place, and
    what comes after it is cancelled. ``"return"``: the exception is that item's output, and the others go on. The
    exception is what the stage raised, with a note that names stage and item; that of jitted stages is the one of the
    first that failed. An error of the source raises in either case.

    Leaving the block early cancels what is under way and waits for it: async stages are cancelled, calls that have not
    started are removed, and calls and threads at work are given ``close_timeout_s``; after that a thread is left behind
    with a RuntimeWarning. Works on asyncio and trio.

    Raises:
        TypeError: no stages, or one that cannot be called.
        ValueError: a limit out of its range.
    """
    return Pipeline(stages, in_flight, on_error, close_timeout_s)
