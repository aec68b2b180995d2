"""The pipe: how items move from the source through the stages, in order and bounded.

Law: the tasks of a pipeline and what they do with one item; entering, leaving and delivery are ``outputs``'.

A pipe is cut into *legs*. Each begins with somebody who waits, the source or a stage that is not jitted, and goes on
with the jitted stages that follow it, which are submitted for an item all at once, each on the pending results of the
one before. Every leg has one task and a line into which it puts its items, so they stay in order. An item holds its
room from before the source is asked for it until it is delivered; that bounds everything else.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable
from typing import Any

import anyio
import anyio.abc

from asyncjit.clock import Clock
from asyncjit.errors import EngineBusyError
from asyncjit.pipeline.lines import Item, Line
from asyncjit.pipeline.stages import Ended, JittedStage, Stage, Worked
from asyncjit.replay import Replay
from asyncjit.sources import Source

__all__ = ["Pipe"]


class _Leg:
    """Who waits, and the jitted stages behind; ``work`` is None where that is the source."""

    def __init__(self, work: Worked | None) -> None:
        self.work = work
        self.jitted: list[JittedStage] = []
        self.line = Line()


def _legs(stages: list[Stage]) -> list[_Leg]:
    legs = [_Leg(None)]
    for stage in stages:
        if isinstance(stage, JittedStage):
            legs[-1].jitted.append(stage)
        else:
            assert isinstance(stage, Worked)
            legs.append(_Leg(stage))
    return legs


class Pipe:
    """Moves items. Thread: the loop of the block."""

    def __init__(
        self, stages: list[Stage], source: Source[Any], in_flight: int, stops_at_errors: bool, clock: Clock
    ) -> None:
        self._legs = _legs(stages)
        self.workers = [leg.work for leg in self._legs if leg.work is not None]
        self._source = source
        self.stops_at_errors = stops_at_errors
        self._clock = clock
        self._room_max = in_flight
        #: Made where the loop runs.
        self._room: anyio.Semaphore
        #: Items that are not delivered, oldest first.
        self._items: deque[Item] = deque()
        self._delivered: anyio.Event | None = None
        #: The first item known to have failed, where that stops the run.
        self._failed_at = math.inf
        self._scopes = [anyio.CancelScope() for _ in self._legs]
        self._is_cancelled = False
        self.in_flight_peak = 0

    @property
    def in_flight(self) -> int:
        """Items that have left the source and are not delivered."""
        return len(self._items)

    def start(self, tasks: anyio.abc.TaskGroup) -> None:
        """Start the tasks."""
        self._room = anyio.Semaphore(self._room_max)
        tasks.start_soon(self._feed, name="asyncjit-pipeline-source")
        for index, leg in enumerate(self._legs[1:], 1):
            assert leg.work is not None
            tasks.start_soon(self._serve, index, name=f"asyncjit-pipeline-{leg.work.index}-{leg.work.name}")

    # Tasks.

    async def _feed(self) -> None:
        """Take items from the source as long as there is room."""
        leg = self._legs[0]
        try:
            with self._scopes[0]:
                index = 0
                while (item := await self._ask(index)) is not None:
                    index += 1
                    self._items.append(item)
                    self.in_flight_peak = max(self.in_flight_peak, len(self._items))
                    await self._go(item, leg)
                    if item.is_last:
                        break
                    # It is the consumer's to hold.
                    del item
        finally:
            leg.line.close()

    async def _ask(self, index: int) -> Item | None:
        """The next item of the source, or its error as an item; None at its end, or when no more are wanted."""
        await self._room.acquire()
        if self._failed_at < index:
            return None
        try:
            return Item(index, await self._source.next())
        except StopAsyncIteration:
            return None
        except Exception as error:
            item = Item(index, None)
            item.error, item.is_last = error, True
            return item

    async def _serve(self, index: int) -> None:
        """Give one item after the other to the stage."""
        leg, line = self._legs[index], self._legs[index - 1].line
        assert leg.work is not None
        try:
            with self._scopes[index]:
                while (item := await line.head()) is not None:
                    line.take()
                    # What stands behind a failed item will not be delivered.
                    if item.index <= self._failed_at:
                        await self._settle(item)
                        if item.error is None:
                            await self._work(item, leg.work, self._scopes[index])
                    await self._go(item, leg)
                    del item
        finally:
            leg.line.close()

    async def _work(self, item: Item, stage: Worked, scope: anyio.CancelScope) -> None:
        try:
            item.value = await stage.work(item.value, self._clock)
        except anyio.get_cancelled_exc_class() as error:
            if scope.cancel_called or anyio.current_effective_deadline() == -math.inf:
                raise
            # Nobody cancelled this task: the stage awaited something that was cancelled.
            failure = RuntimeError(f"stage {stage.index} ({stage.name!r}) awaited something that was cancelled")
            failure.__cause__ = error
            self._fail(item, stage, failure)
        except BaseException as error:
            self._fail(item, stage, error)

    async def _go(self, item: Item, leg: _Leg) -> None:
        """Through the jitted stages of a leg and into its line, without waiting unless the engine is full."""
        for stage in leg.jitted:
            if item.error is not None or item.index > self._failed_at:
                break
            await self._submit(item, stage)
        leg.line.put(item)
        if item.replays and item.replays[0][1]._staged:
            # The source may fill the same memory again for its next item.
            await item.replays[0][1].inputs_consumed

    async def _submit(self, item: Item, stage: JittedStage) -> None:
        try:
            while True:
                try:
                    replay: Replay[Any] = stage.function(item.value)
                    break
                except EngineBusyError:
                    room = self._room_to_come()
                    if room is None:
                        raise
                # Out of the handler: a refused call holds its outputs as long as its error lives.
                await room
            item.replays.append((stage, replay))
            if replay.program is None:
                # Another thread is recording this signature; what comes out is not known before.
                await replay
            item.value = replay.result
        except Exception as error:
            self._fail(item, stage, error)

    def _room_to_come(self) -> Awaitable[object] | None:
        """Something of this pipe that frees room in the engine when it ends or is delivered; None where nothing can."""
        for item in self._items:
            for _, replay in item.replays:
                if not replay.done():
                    return Ended(replay)
        if len(self._items) < 2:
            return None
        if self._delivered is None:
            self._delivered = anyio.Event()
        return self._delivered.wait()

    # Ends.

    async def next(self) -> Item | None:
        """The next item, settled, which is out of the pipe from now on; None after the last.

        Cancellation: nothing is lost.
        """
        line = self._legs[-1].line
        item = await line.head()
        if item is None:
            return None
        await self._settle(item)
        line.take()
        self._items.popleft()
        self._room.release()
        if self._delivered is not None:
            self._delivered.set()
            self._delivered = None
        return item

    async def _settle(self, item: Item) -> None:
        """Wait for the replays of an item; its error is that of the first stage that failed."""
        if not item.replays:
            return
        # The last first: one wake-up for all of them.
        await Ended(item.replays[-1][1])
        for _, replay in item.replays:
            await Ended(replay)
        replays, item.replays = item.replays, []
        has_failed = False
        for stage, replay in replays:
            stage.count(replay)
            if not has_failed:
                try:
                    item.value = replay.wait()
                except Exception as error:
                    has_failed = True
                    self._fail(item, stage, error)

    def _fail(self, item: Item, stage: Stage, error: BaseException) -> None:
        stage.note(error, item.index)
        item.error, item.value = error, None
        if self.stops_at_errors or not isinstance(error, Exception):
            self._failed_at = min(self._failed_at, item.index)

    def cancel(self) -> None:
        """Stop the tasks, and remove the replays that have not started, from the last to the first."""
        if self._is_cancelled:
            return
        self._is_cancelled = True
        for scope in self._scopes:
            scope.cancel()
        for item in reversed(self._items):
            for _, replay in reversed(item.replays):
                replay.cancel()
        for stage in self.workers:
            stage.stop()

    async def wait_until_ended(self) -> None:
        """Close the source, then wait for replays and threads."""
        try:
            await self._source.aclose()
        finally:
            for item in self._items:
                for _, replay in item.replays:
                    await Ended(replay)
            for stage in self.workers:
                await stage.wait_until_stopped()
