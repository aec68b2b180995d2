"""Stages: the three kinds of functions in a pipeline, and how one item goes through each.

Law: knows one stage and one item; order, bounds and failures are the pipe's.

Jitted stages need neither task nor thread: a call is a submission. Every other stage works on one item at a time, in
order, so that it need not be safe to be entered twice; the pipe gives it a task, and a plain function has a thread of
its own besides. Not the loop's pool: a stage is busy all the time, and would take that from everybody else.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import threading
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Generator
from queue import SimpleQueue
from typing import Any

from asyncjit.clock import Clock
from asyncjit.replay import Replay
from asyncjit.sources import as_failure
from asyncjit.streams import Fence, wait_fence

__all__ = ["AsyncStage", "Ended", "Fired", "JittedStage", "PlainStage", "Stage", "Worked", "make_stage", "name_of"]


def name_of(function: Any) -> str:
    """What messages call a stage."""
    if isinstance(function, functools.partial):
        return name_of(function.func)
    return getattr(function, "__name__", None) or type(function).__qualname__


class Stage:
    """A function at its place in a pipeline, with counts."""

    def __init__(self, index: int, function: Callable[[Any], Any]) -> None:
        self.index = index
        self.name = name_of(function)
        self.function = function
        self.items = 0
        self.busy_s = 0.0

    def note(self, error: BaseException, item: int) -> None:
        """Say in the error where it happened; once, and not in the error of anybody who shares its notes."""
        text = f"in stage {self.index} ({self.name!r}) of a pipeline, at item {item}"
        notes = list(getattr(error, "__notes__", ()))
        if text not in notes:
            error.__notes__ = [*notes, text]


class JittedStage(Stage):
    """Calls of a jitted function: submitted at once, chained on the device."""

    def count(self, replay: Replay[Any]) -> None:
        """Note a replay that has ended."""
        self.items += 1
        times = replay.times
        if times.started_s is not None and times.done_s is not None:
            self.busy_s += times.done_s - times.started_s


class Fired:
    """Awaitable: the fence has fired. A cancellation does not wait for that."""

    __slots__ = ("_fence",)

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def __await__(self) -> Generator[Any, Any, None]:
        if not self._fence.done:
            yield from wait_fence(self._fence, lambda is_closing: True)


class Ended:
    """Awaitable: the replay has ended, well or not. Waiting has no say in whether its work is wanted."""

    __slots__ = ("_replay",)

    def __init__(self, replay: Replay[Any]) -> None:
        self._replay = replay

    def __await__(self) -> Generator[Any, Any, None]:
        return self._replay.until_done()


class Worked(Stage):
    """A stage that is given one item after the other, and waited for."""

    async def work(self, value: Any, clock: Clock) -> Any:
        """What the function makes of the value.

        Raises:
            BaseException: whatever the function raised.
        """
        start_s = clock.now_s()
        try:
            return await self._work(value)
        finally:
            self.items += 1
            self.busy_s += clock.now_s() - start_s

    @abstractmethod
    async def _work(self, value: Any) -> Any: ...

    def stop(self) -> None:
        """Take no more items."""

    async def wait_until_stopped(self) -> None:
        """Wait for what it was at when it was told to stop. Cancellation: at once, and ``is_stopped`` tells."""

    @property
    def is_stopped(self) -> bool:
        return True


class AsyncStage(Worked):
    """A coroutine function, on the loop of the pipeline."""

    async def _work(self, value: Any) -> Any:
        return await self.function(value)


class _Job:
    """One item for the thread, in the context of the pipeline, and what came of it."""

    __slots__ = ("_call", "done", "error", "result")

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call: Callable[[], Any] | None = functools.partial(contextvars.copy_context().run, call)
        self.done = Fence()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        call, self._call = self._call, None
        assert call is not None
        try:
            self.result = call()
        except BaseException as error:
            self.error = error
        # From here on this thread holds nothing of the item, however late it goes on.
        del call
        self.done.signal()


class PlainStage(Worked):
    """Any other callable, on a thread of its own, which starts with the first item.

    A coroutine that it returns, a Replay among them, is awaited on the loop: ``lambda x: classify(x, weights)``.
    """

    def __init__(self, index: int, function: Callable[[Any], Any]) -> None:
        super().__init__(index, function)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._ended = Fence()
        self._thread: threading.Thread | None = None

    async def _work(self, value: Any) -> Any:
        if self._thread is None:
            # A daemon: one that never ends must not keep the process from ending.
            name = f"asyncjit-pipeline-{self.index}-{self.name}"
            self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self._thread.start()
        job = _Job(functools.partial(self.function, value))
        self._jobs.put(job)
        await Fired(job.done)
        if job.error is not None:
            try:
                raise as_failure(job.error)
            finally:
                del job
        result, job.result = job.result, None
        return await result if isinstance(result, Coroutine) else result

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            # Hold nothing while idle.
            del job
        self._ended.signal()

    def stop(self) -> None:
        self._jobs.put(None)

    async def wait_until_stopped(self) -> None:
        if self._thread is not None:
            await Fired(self._ended)
            # It has nothing left to do but to end.
            self._thread.join()

    @property
    def is_stopped(self) -> bool:
        return self._thread is None or self._ended.done


def make_stage(index: int, function: Any) -> Stage:
    """The stage for a function, by its kind. ``functools.partial`` of a function is of the function's kind.

    Raises:
        TypeError: it is no function.
    """
    if not callable(function):
        raise TypeError(
            f"stage {index} of a pipeline must be a jitted, an async or a plain function, got {function!r}; "
            "the source is passed to what pipeline() returns: pipeline(f, g)(source)"
        )
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if getattr(inner, "gives_replays", False):
        return JittedStage(index, function)
    if inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(inner.__call__):
        return AsyncStage(index, function)
    return PlainStage(index, function)
