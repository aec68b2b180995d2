"""Producers: what reads the source and what transforms, on threads and as tasks.

Law: two shapes of each, one that blocks a thread and one that awaits; both obey the window, and neither lets an error
escape: it goes to the consumer, at the item's place.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import anyio

from asyncjit.clock import Clock
from asyncjit.numpy import Array
from asyncjit.prefetch.items import Staging
from asyncjit.prefetch.window import Over, Window, try_blocking, try_waiting
from asyncjit.streams import in_event_loop

__all__ = ["AsyncSource", "AsyncTransform", "Line", "Source", "ThreadApply", "Transform"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What the producers of one prefetch share. ``source`` and ``transform`` are names for messages."""

    window: Window
    staging: Staging
    clock: Clock
    source: str
    transform: str
    #: Whether items go on to a transform.
    transforms: bool
    close_timeout_s: float
    #: Errors of closing, which have no item.
    late: list[BaseException]

    def spent(self, since_s: float) -> float:
        """Note that producing went on since then; gives the time."""
        now_s = self.clock.now_s()
        self.window.note_produced(now_s - since_s)
        return now_s

    def failed(self, index: int, error: BaseException, what: str) -> None:
        """Item ``index`` ends in ``error``; or in what stands for it, where raising it there would mean something else:
        that the items have come to an end, or that the consumer was cancelled."""
        if isinstance(error, StopIteration | StopAsyncIteration) or _is_cancellation(error):
            told = RuntimeError(f"{type(error).__name__} came out of {what} at item {index}")
            told.__cause__, error = error, told
        self.window.fail(index, error, self.clock.now_s())

    def waited(self, since_s: float) -> None:
        """Note that the source waited for room since then."""
        self.window.note_blocked(self.clock.now_s() - since_s)


def _is_cancellation(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError) or (
        in_event_loop() and isinstance(error, anyio.get_cancelled_exc_class())
    )


def _ends_the_task(error: BaseException) -> bool:
    """Whether it was meant for the task, and not for whoever waits for the item."""
    return isinstance(error, GeneratorExit) or _is_cancellation(error)


class Source:
    """Reads an iterable on a thread; a generator is closed there too."""

    def __init__(self, iterable: Iterable[Any], line: Line) -> None:
        self.busy = False
        self._iterable = iterable
        self._iterator: Iterator[Any] | None = None
        self._line = line

    def run(self) -> None:
        line = self._line
        try:
            while True:
                began_s = line.clock.now_s()
                index = try_blocking(line.window.reserve)
                line.waited(began_s)
                if isinstance(index, Over) or not self._read(index):
                    return
        finally:
            self._close()

    def _read(self, index: int) -> bool:
        """Pass item ``index`` on; False at the end. A method of its own, so that no variable here keeps the item."""
        line, began_s = self._line, self._line.clock.now_s()
        self.busy = True
        try:
            if self._iterator is None:
                self._iterator = iter(self._iterable)
            try:
                item = next(self._iterator)
            except StopIteration:
                line.window.exhausted(index)
                return False
            if line.transforms:
                line.spent(began_s)
                line.window.put(index, item)
            else:
                staged = line.staging.staged(item)
                line.window.finish(index, staged, line.spent(began_s))
        except BaseException as error:
            line.failed(index, error, line.source)
            return False
        finally:
            self.busy = False
        return True

    def _close(self) -> None:
        if isinstance(self._iterator, Generator):
            self.busy = True
            try:
                self._iterator.close()
            except BaseException as error:
                self._line.late.append(error)
            finally:
                self.busy = False


class AsyncSource:
    """Reads an async iterable in a task; an async generator is closed there too."""

    def __init__(self, iterable: AsyncIterable[Any], line: Line) -> None:
        self._iterable = iterable
        self._iterator: AsyncIterator[Any] | None = None
        self._line = line

    async def run(self) -> None:
        line = self._line
        try:
            while True:
                began_s = line.clock.now_s()
                index = await try_waiting(line.window.reserve, line.window)
                line.waited(began_s)
                if isinstance(index, Over) or not await self._read(index):
                    return
        finally:
            await self._close()

    async def _read(self, index: int) -> bool:
        line, began_s = self._line, self._line.clock.now_s()
        try:
            if self._iterator is None:
                self._iterator = aiter(self._iterable)
            try:
                item = await anext(self._iterator)
            except StopAsyncIteration:
                line.window.exhausted(index)
                return False
            if line.transforms:
                line.spent(began_s)
                line.window.put(index, item)
            else:
                staged = await line.staging.settled(item)
                line.window.finish(index, staged, line.spent(began_s))
        except BaseException as error:
            line.failed(index, error, line.source)
            if _ends_the_task(error):
                raise
            return False
        return True

    async def _close(self) -> None:
        if isinstance(self._iterator, AsyncGenerator):
            try:
                with anyio.move_on_after(self._line.close_timeout_s, shield=True):
                    await self._iterator.aclose()
            except Exception as error:
                self._line.late.append(error)


class Apply(Protocol):
    """How a thread transforms one item and puts the result on the device."""

    def __call__(self, item: Any) -> Any: ...

    def close(self) -> None: ...


class ThreadApply:
    """On the thread itself."""

    def __init__(self, transform: Callable[[Any], Any], line: Line) -> None:
        self._transform = transform
        self._line = line

    def __call__(self, item: Any) -> Any:
        value = self._transform(item)
        if inspect.isawaitable(value) and not isinstance(value, Array):
            if inspect.iscoroutine(value):
                value.close()
            raise TypeError(
                f"{self._line.transform} gave an awaitable on a thread, where nobody awaits it; pass an `async def` "
                "function or a captured one itself, not a function that calls it"
            )
        return self._line.staging.staged(value)

    def close(self) -> None:
        """Nothing to close."""


class Transform:
    """Transforms items on a thread, one after another."""

    def __init__(self, apply: Apply, line: Line) -> None:
        self.busy = False
        self._apply = apply
        self._line = line

    def run(self) -> None:
        try:
            # Asked for in the call, so that no variable here keeps an item while the thread waits for the next.
            while self._one(self._next()):
                pass
        finally:
            self._apply.close()

    def _next(self) -> tuple[int, Any] | Over:
        return try_blocking(self._line.window.take)

    def _one(self, taken: tuple[int, Any] | Over) -> bool:
        if isinstance(taken, Over):
            return False
        self.busy = True
        line, began_s = self._line, self._line.clock.now_s()
        index, item = taken
        try:
            value = self._apply(item)
            line.window.finish(index, value, line.spent(began_s))
        except BaseException as error:
            line.failed(index, error, line.transform)
        finally:
            self.busy = False
        return True


class AsyncTransform:
    """Transforms items in a task, one after another."""

    def __init__(self, transform: Callable[[Any], Any], line: Line) -> None:
        self._transform = transform
        self._line = line

    async def run(self) -> None:
        while await self._one(await try_waiting(self._line.window.take, self._line.window)):
            pass

    async def _one(self, taken: tuple[int, Any] | Over) -> bool:
        if isinstance(taken, Over):
            return False
        line, began_s = self._line, self._line.clock.now_s()
        index, item = taken
        try:
            value = await line.staging.settled(await self._transform(item))
            line.window.finish(index, value, line.spent(began_s))
        except BaseException as error:
            line.failed(index, error, line.transform)
            if _ends_the_task(error):
                raise
        return True
