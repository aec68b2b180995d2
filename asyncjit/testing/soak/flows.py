"""Flows: pipelines, maps and prefetches that make statements of a soak program, and calls that share their replays.

Law: what a user would write around ``aj.pipeline``, ``f.map``, ``aj.prefetch`` and ``f.batched``, in one task each, on
any loop; who made which call is told by a context variable of the task that makes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import anyio.lowlevel
import numpy as np

import asyncjit as aj
from asyncjit.errors import AsyncJitError, EngineBusyError, EngineClosedError
from asyncjit.replay import Replay
from asyncjit.runs import State
from asyncjit.testing.soak.kernels import host_values
from asyncjit.testing.soak.program import Source, Statement
from asyncjit.testing.soak.records import Read, Record
from asyncjit.testing.soak.stage import Stage, _sink

__all__ = ["FlowRun", "RowsCall"]

#: A record, and the arrays of it that were awaited just now.
Seen = Callable[[Record, Sequence[Any]], object]


class _Item:
    """Notes the calls that an item of a flow makes, from stage ``at`` on."""

    def __init__(self, flow: FlowRun, number: int, at: int) -> None:
        self._flow = flow
        self._number = number
        self._at = at

    def append(self, replay: Replay[Any], /) -> None:
        flow = self._flow
        record = flow.stage.begin(flow.place_of(self._number, self._at), flow.generation)
        self._at += 1
        record.replays.append(replay)
        record.settle()
        flow.records.append(record)
        flow.replays.append((record, replay))
        flow.stage.enlist(record)


class FlowRun:
    """One statement of kind "flow". ``told`` is what it was told of errors."""

    def __init__(self, stage: Stage, index: int, seen: Seen, *, threads: bool = False) -> None:
        flow = stage.program.statements[index].flow
        assert flow is not None
        self.stage = stage
        self.flow = flow
        self.index = index
        self.generation = len(stage.generations) - 1
        self.records: list[Record] = []
        self.replays: list[tuple[Record, Replay[Any]]] = []
        self.told: list[str] = []
        #: It ended before its time, so that calls of it may have been removed.
        self.is_cut = True
        self.is_over = False
        self._seen = seen
        self._threads = threads
        self._now = stage.now

    def place_of(self, item: int, stage: int) -> int:
        """The statement that is the call of an item in a stage."""
        return self.index + 1 + item * len(self.flow.bodies) + stage

    async def run(self) -> None:
        """All of it."""
        try:
            with self.stage.current():
                async with contextlib.AsyncExitStack() as blocks:
                    await self._consume(await self._source(blocks), blocks)
        except AsyncJitError as error:
            self.told.append(f"flow {self.index} ends with {error!r}")
        finally:
            self.is_over = True

    async def _consume(self, source: Any, blocks: contextlib.AsyncExitStack) -> None:
        flow = self.flow
        functions: list[Any] = [self._now.functions[body] for body in flow.bodies]
        outputs: Any
        if len(functions) == 1 and not flow.pauses:
            outputs = await blocks.enter_async_context(
                contextlib.aclosing(functions[0].map(source, in_flight=flow.in_flight))
            )
        else:
            stages = [stage for function in functions for stage in (function, self._pause)]
            chained = aj.pipeline(
                *(stages if flow.pauses else functions),
                in_flight=flow.in_flight,
                on_error="return" if flow.returns_errors else "raise",
            )
            outputs = await blocks.enter_async_context(chained(source))
        count = 0
        while flow.leaves_after is None or count < flow.leaves_after:
            try:
                value = await anext(outputs)
            except StopAsyncIteration:
                self.is_cut = False
                return
            self._deliver(count, value)
            count += 1

    def _deliver(self, count: int, value: Any) -> None:
        if isinstance(value, BaseException):
            self.told.append(f"output {count} of flow {self.index} is {value!r}")
            return
        record = self.stage.records.get(self.place_of(count, len(self.flow.bodies) - 1))
        assert record is not None, f"output {count} of flow {self.index} comes from no call"
        self._seen(record, value or ())

    async def _pause(self, value: Any) -> Any:
        """Between two stages: the calls behind it are made by the task that it runs in."""
        await anyio.lowlevel.checkpoint()
        if value:
            storage = value[0]._storage
            found = next(each for each, replay in self.replays if any(storage is own for own in replay.outputs))
            item, stage = divmod(found.index - self.index - 1, len(self.flow.bodies))
            _sink.set(_Item(self, item, stage + 1))
        return value

    # Items.

    async def _source(self, blocks: contextlib.AsyncExitStack) -> Any:
        if not self.flow.prefetched:
            return self._items()
        hosts = [self._hosts_of(item) for item in range(self.flow.items)]
        source: Any = hosts if self._threads else _lazily(hosts)
        device = self.stage.devices[self.stage.program.statements[self.index].device]
        batches = aj.prefetch(source, buffer=self.flow.prefetched, device=device)
        return _Marked(self, await blocks.enter_async_context(batches))

    def _items(self) -> Iterator[tuple[Any, ...]]:
        for item in range(self.flow.items):
            arrays = self.stage.arrays_of(self._statement(item), self._now)
            if arrays is None:
                return
            self.begin_item(item)
            yield tuple(arrays)

    def begin_item(self, item: int) -> None:
        """Whoever asked for the item makes its calls."""
        _sink.set(_Item(self, item, 0))

    def _statement(self, item: int) -> Statement:
        return self.stage.program.statements[self.place_of(item, 0)]

    def _hosts_of(self, item: int) -> tuple[np.ndarray, ...]:
        return tuple(host_values(self.stage.program, each) for each in self._statement(item).sources)


async def _lazily(items: Sequence[Any]) -> AsyncIterator[Any]:
    for item in items:
        await anyio.lowlevel.checkpoint()
        yield item


class _Marked:
    """Items of a prefetch; whoever asks for one makes its calls."""

    def __init__(self, flow: FlowRun, batches: Any) -> None:
        self._flow = flow
        self._batches = batches
        self._count = 0

    def __aiter__(self) -> _Marked:
        return self

    async def __anext__(self) -> Any:
        batch = await anext(self._batches)
        self._flow.begin_item(self._count)
        self._count += 1
        return batch


class RowsCall:
    """One statement of kind "rows". ``read`` is what it was given, with the place in a batch that its rows had."""

    def __init__(self, stage: Stage, index: int) -> None:
        statement = stage.program.statements[index]
        self.stage = stage
        self.index = index
        self.rows = host_values(stage.program, statement.sources[0], statement.n)
        self.is_over = self.is_cancelled = False
        self._batched = stage.now.batched[statement.body]

    async def run(self, seen: Callable[[Read], object]) -> None:
        """The call, from its beginning to its rows.

        Raises:
            AssertionError: it failed, and its batch did not.
        """
        try:
            with self.stage.current():
                given = await self._batched(self.rows)
        except AsyncJitError as error:
            self._check_failure(error)
            return
        except anyio.get_cancelled_exc_class():
            self.is_cancelled = True
            raise
        finally:
            self.is_over = True
        batch = self.batches()[-1]
        start = int(np.flatnonzero(_first_of(batch) == self.rows[0, 0])[0])
        found = self.stage.read(given[0])
        where = f"call {self.index} of {len(self.rows)} rows in batch {batch.index}"
        seen(Read(Source("output", batch.index), found.copy(), where, slice(start, start + len(self.rows))))

    def _check_failure(self, error: AsyncJitError) -> None:
        run = self.batches()[-1].run if self.batches() else None
        went_well = run is not None and run.state is State.DONE
        # An engine that is closed, or full, makes no more arrays for the rows.
        is_refusal = isinstance(error, EngineBusyError | EngineClosedError)
        assert is_refusal or not went_well, f"call {self.index}: {error!r}, which is not of its batch"

    def batches(self) -> list[Record]:
        """Those that it was part of, the last one last."""
        made = [record for record in list(self.stage.records.values()) if record.rows is not None]
        return [record for record in made if (_first_of(record) == self.rows[0, 0]).any()]


def _first_of(record: Record) -> np.ndarray:
    assert record.rows is not None
    return record.rows[:, 0]
