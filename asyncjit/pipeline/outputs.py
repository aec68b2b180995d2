"""One run of a pipeline: the block that it lives in, and what comes out.

Law: entering and leaving, delivery, and what is cancelled when. How items move is ``pipe``'s.
"""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any

import anyio

from asyncjit.clock import Clock, MonotonicClock
from asyncjit.pipeline.lines import Item
from asyncjit.pipeline.pipe import Pipe
from asyncjit.pipeline.stages import Stage
from asyncjit.pipeline.statistics import PipelineStatistics, StageStatistics
from asyncjit.sources import Source, as_failure

__all__ = ["Outputs"]


class Outputs:
    """The outputs of a pipeline for one source, in its order; see ``pipeline``.

    An async context manager, entered once, and inside the block an async iterator, asked by one task at a time.
    """

    def __init__(
        self, stages: list[Stage], source: Source[Any], in_flight: int, on_error: str, close_timeout_s: float
    ) -> None:
        self._clock: Clock = MonotonicClock()
        self._stages = stages
        self._pipe = Pipe(stages, source, in_flight, on_error == "raise", self._clock)
        self._close_timeout_s = close_timeout_s
        self._tasks: Any = None
        self._state = "not entered"
        self._is_asked = False
        self._is_over = False
        self._items = self._failed = 0
        self._entered_s = self._left_s = 0.0

    async def __aenter__(self) -> Outputs:
        if self._state != "not entered":
            raise RuntimeError(f"the outputs of a pipeline are entered once, these are {self._state}; call it again")
        self._state = "open"
        self._entered_s = self._clock.now_s()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._pipe.start(self._tasks)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Cancel what is on its way, and wait until it has ended.

        Async stages are cancelled, calls that have not started are removed, a thread finishes the item it is at, the
        source is closed. Calls and threads that need longer than ``close_timeout_s`` are left behind, threads with a
        warning. Cancellation: finishes first, within that time.
        """
        self._state, self._left_s = "left", self._clock.now_s()
        self._pipe.cancel()
        try:
            # Not told of the error: it would come back in a group.
            await self._tasks.__aexit__(None, None, None)
        finally:
            try:
                with anyio.move_on_after(self._close_timeout_s, shield=True):
                    await self._pipe.wait_until_ended()
            finally:
                self._warn_of_threads()

    def _warn_of_threads(self) -> None:
        left = [f"{stage.index} ({stage.name!r})" for stage in self._pipe.workers if not stage.is_stopped]
        if left:
            warnings.warn(
                f"stage {', '.join(left)} of a pipeline was still at an item {self._close_timeout_s} s after the "
                "pipeline was left; its thread is left behind and ends with that item. Raise close_timeout_s to wait "
                "longer",
                RuntimeWarning,
                stacklevel=3,
            )

    def __aiter__(self) -> Outputs:
        return self

    async def __anext__(self) -> Any:
        """The next output.

        Cancellation: nothing is lost; the next call gives the output that this one waited for.

        Raises:
            StopAsyncIteration: there are no more.
            RuntimeError: outside of the block, or another task is waiting for an output.
            Exception: with ``on_error="raise"`` what a stage raised, in the item's place; what the source raised.
        """
        if self._state != "open":
            raise RuntimeError(
                f"the outputs of a pipeline are read inside its block, which was {self._state}; write "
                "`async with pipeline(…)(source) as outputs:`"
            )
        if self._is_asked:
            raise RuntimeError("two tasks ask one pipeline for an output at the same time; ask from one of them")
        if self._is_over:
            raise StopAsyncIteration
        self._is_asked = True
        try:
            item = await self._pipe.next()
        finally:
            self._is_asked = False
        if item is None:
            self._is_over = True
            raise StopAsyncIteration
        return self._deliver(item)

    def _deliver(self, item: Item) -> Any:
        error = item.error
        self._items += not item.is_last
        if error is None:
            return item.value
        self._failed += not item.is_last
        if not (item.is_last or self._pipe.stops_at_errors) and isinstance(error, Exception):
            return error
        self._is_over = True
        self._pipe.cancel()
        try:
            raise as_failure(error)
        finally:
            # It remembers this frame, and the frame should not remember it.
            del error, item

    def statistics(self) -> PipelineStatistics:
        """Counts and times so far; immutable."""
        until_s = self._clock.now_s() if self._state == "open" else self._left_s
        elapsed_s = until_s - self._entered_s
        return PipelineStatistics(
            items=self._items,
            failed=self._failed,
            in_flight=self._pipe.in_flight,
            in_flight_peak=self._pipe.in_flight_peak,
            elapsed_s=elapsed_s,
            stages=tuple(
                StageStatistics(
                    stage.name, stage.items, stage.busy_s, stage.busy_s / elapsed_s if elapsed_s > 0 else 0.0
                )
                for stage in self._stages
            ),
        )
