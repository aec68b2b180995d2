"""``prefetch``: what a user types, and the iterator that comes of it.

Law: checks what it is given, starts and ends the producers, delivers. An explicit ``async with`` owns the producers: an
async generator that owned them could be left suspended, and cancelled from the outside, with all of them alive.
"""

from __future__ import annotations

import contextvars
import enum
import functools
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import anyio
import anyio.abc
import anyio.lowlevel

from asyncjit.clock import MonotonicClock
from asyncjit.engine import current_engine
from asyncjit.jit import JitFunction
from asyncjit.prefetch.crew import Crew
from asyncjit.prefetch.items import Staging
from asyncjit.prefetch.processes import ProcessApply, pickled_transform
from asyncjit.prefetch.producers import AsyncSource, AsyncTransform, Line, Source, ThreadApply, Transform
from asyncjit.prefetch.window import Over, Window, try_waiting

__all__ = ["Prefetch", "PrefetchStatistics", "prefetch"]


@dataclass(frozen=True, slots=True)
class PrefetchStatistics:
    """A snapshot of one prefetch, over the time since its block was entered.

    ``items`` were delivered. ``produce_s``: spent reading, transforming and copying, added over all producers.
    ``wait_s``: the consumer was starved, from asking for an item until it was ready. ``blocked_s``: the source waited
    for room. ``hidden`` is the share (0 to 1) of ``produce_s`` during which no consumer waited; 0 before anything was
    produced.
    """

    items: int
    produce_s: float
    wait_s: float
    blocked_s: float
    hidden: float


class _State(enum.Enum):
    NEW = "was not entered"
    OPEN = "is open"
    LEFT = "was left"


class Prefetch(AsyncIterator[Any]):
    """What ``prefetch`` gives: an async context manager, and inside of it an async iterator."""

    def __init__(
        self,
        source: Iterable[Any] | AsyncIterable[Any],
        transform: Callable[[Any], Any] | None,
        *,
        concurrency: int,
        buffer: int,
        ordered: bool,
        device: str | None,
        transform_pickled: bytes | None,
        close_timeout_s: float,
    ) -> None:
        self._source = source
        self._transform = transform
        self._concurrency = concurrency
        self._device = device
        self._transform_pickled = transform_pickled
        self._close_timeout_s = close_timeout_s
        self._clock = MonotonicClock()
        self._window = Window(concurrency + buffer, ordered=ordered)
        self._crew = Crew()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._late: list[BaseException] = []
        self._state = _State.NEW

    def __repr__(self) -> str:
        return f"<{self._what}: {self._state.value}>"

    @property
    def _what(self) -> str:
        return f"prefetch of {_name(self._source)}"

    # The block.

    async def __aenter__(self) -> Self:
        """Start the producers, in the context of this task.

        Raises:
            RuntimeError: entered before. DeviceUnavailableError: the engine has no such device.
        """
        if self._state is not _State.NEW:
            raise RuntimeError(f"the {self._what} was entered before; a prefetch is for one block, make a new one")
        engine = current_engine()
        device = self._device or engine.default_device
        engine.device(device)
        line = Line(
            window=self._window,
            staging=Staging(engine, device),
            clock=self._clock,
            source=f"source {_name(self._source)}",
            transform=f"transform {_name(self._transform)}",
            transforms=self._transform is not None,
            close_timeout_s=self._close_timeout_s,
            late=self._late,
        )
        self._state = _State.OPEN
        try:
            await self._start(line)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def _start(self, line: Line) -> None:
        jobs: list[Callable[[], Any]] = []
        if isinstance(self._source, AsyncIterable):
            jobs.append(AsyncSource(self._source, line).run)
        else:
            self._crew.start(Source(self._source, line), contextvars.copy_context(), line.source)
        for _ in range(self._concurrency if self._transform is not None else 0):
            assert self._transform is not None
            if self._transform_pickled is not None:
                apply = ProcessApply(self._transform_pickled, line.transform, line.staging)
                self._crew.start(Transform(apply, line), contextvars.copy_context(), line.transform, apply.kill)
            elif _is_async(self._transform):
                jobs.append(AsyncTransform(self._transform, line).run)
            else:
                on_thread = Transform(ThreadApply(self._transform, line), line)
                self._crew.start(on_thread, contextvars.copy_context(), line.transform)
        if jobs:
            tasks = anyio.create_task_group()
            await tasks.__aenter__()
            self._tasks = tasks
            for job in jobs:
                tasks.start_soon(job, name=f"asyncjit.{self._what}")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the producers: tasks are cancelled; threads finish their current item, for ``close_timeout_s`` at most.

        Cancellation: the threads are waited for first, within that time.

        Raises:
            whatever closing the source raises, unless the block itself ends with an error.
        """
        self._state = _State.LEFT
        self._window.close()
        if kind is GeneratorExit:
            # The task is being taken apart and nothing may be awaited; the threads end by themselves.
            return
        try:
            if self._tasks is not None:
                self._tasks.cancel_scope.cancel()
                await self._tasks.__aexit__(None, None, None)
        finally:
            await self._crew.end(self._close_timeout_s)
        for late in self._late:
            if error is None:
                raise late
            error.add_note(f"closing the {self._what} failed as well: {late!r}")

    # The iterator.

    def __aiter__(self) -> Self:
        self._check_open()
        return self

    async def __anext__(self) -> Any:
        """The next item. Several tasks may ask: each item goes to exactly one of them. Lets the loop turn each time.

        Cancellation: nothing is lost; the item goes to the next who asks.

        Raises:
            RuntimeError: outside the block. And, at the item's place, what the source or the transform raised.
        """
        self._check_open()
        wanted_s = self._clock.now_s()
        if self._window.is_ready:
            await anyio.lowlevel.checkpoint()
        outcome = await try_waiting(self._window.deliver, self._window)
        if isinstance(outcome, Over):
            self._check_open()
            raise StopAsyncIteration
        self._window.note_waited(max(0.0, outcome.ready_s - wanted_s))
        if outcome.error is None:
            return outcome.value
        try:
            raise outcome.error
        finally:
            # An error whose traceback leads to a frame that holds the error is kept alive by itself.
            del outcome

    def _check_open(self) -> None:
        if self._state is not _State.OPEN:
            raise RuntimeError(
                f"the {self._what} {self._state.value}; iterate inside of its block: "
                "`async with aj.prefetch(…) as batches: async for batch in batches: …`"
            )

    def statistics(self) -> PrefetchStatistics:
        """What it has done so far; immutable. Any thread, any time."""
        items, produce_s, wait_s, blocked_s = self._window.figures()
        hidden = max(0.0, 1 - wait_s / produce_s) if produce_s else 0.0
        return PrefetchStatistics(items, produce_s, wait_s, blocked_s, hidden)


def prefetch(
    source: Iterable[Any] | AsyncIterable[Any],
    transform: Callable[[Any], Any] | None = None,
    concurrency: int = 1,
    buffer: int = 2,
    ordered: bool = True,
    device: str | None = None,
    executor: Literal["thread", "process"] = "thread",
    close_timeout_s: float = 5.0,
) -> Prefetch:
    """Read ``source`` ahead of whoever consumes it, transform the items, and put their arrays on a device.

    Use it as ``async with aj.prefetch(…) as batches: async for batch in batches: …``. A sync source is read on one
    thread, and sync transforms run on ``concurrency`` others, or in as many processes (``executor="process"``, for
    decoders that hold the interpreter lock: transform, items and results have to pickle, but for the arrays in results,
    which come back through shared memory). An async source, an async transform or a captured function runs in tasks of
    the consumer's loop.

    Host arrays in what comes out, however nested in tuples, lists, dicts and dataclasses, are copied to ``device`` (the
    engine's default one) of the engine that is current where the block is entered; a source may use its memory again.
    Everything else passes as it is; arrays that a transform computes on the device may be pending still.

    Order and bound: items come in the order of the source, or as they are ready with ``ordered=False``. At most
    ``buffer + concurrency`` are read ahead of the consumer, the ones under way included.

    Errors of the source or the transform are raised at the consuming ``async for``, at the item's place, after the
    items before it where the order is kept; the iteration is over then. Leaving the block cancels what is async, and
    waits for the current items on threads, at most ``close_timeout_s``; then it leaves the thread behind, or kills the
    process, with a RuntimeWarning. Generators are closed, on the thread or in the task that ran them.

    Raises:
        TypeError, ValueError: an argument is of no use, with the reason.
    """
    if not isinstance(source, Iterable | AsyncIterable) and not hasattr(source, "__getitem__"):
        hint = "; call it: the source is what it returns" if callable(source) else ""
        raise TypeError(f"source has to be an iterable or an async iterable, not {_name(source)}{hint}")
    if transform is not None and not callable(transform):
        raise TypeError(f"transform has to be a function of one item, not {_name(transform)}")
    if concurrency < 1 or buffer < 0:
        raise ValueError(f"concurrency is at least 1 and buffer at least 0, but got {concurrency=} and {buffer=}")
    if not close_timeout_s >= 0:
        raise ValueError(f"close_timeout_s is at least 0, but got {close_timeout_s}")
    if executor not in ("thread", "process"):
        raise ValueError(f"executor is 'thread' or 'process', not {executor!r}")
    transform_pickled = None
    if executor == "process":
        if transform is None or _is_async(transform):
            raise ValueError(
                "executor='process' is for a sync transform: a source stays on a thread, async functions on the loop"
            )
        transform_pickled = pickled_transform(transform, f"transform {_name(transform)}")
    return Prefetch(
        source,
        transform,
        concurrency=concurrency,
        buffer=buffer,
        ordered=ordered,
        device=device,
        transform_pickled=transform_pickled,
        close_timeout_s=close_timeout_s,
    )


def _is_async(transform: Callable[[Any], Any]) -> bool:
    """Whether calling it gives an awaitable."""
    while isinstance(transform, functools.partial):
        transform = transform.func
    return (
        isinstance(transform, JitFunction)
        or inspect.iscoroutinefunction(transform)
        or inspect.iscoroutinefunction(getattr(type(transform), "__call__", None))  # noqa: B004
    )


def _name(value: object) -> str:
    """What to call it in a message."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else f"a {type(value).__qualname__}"
