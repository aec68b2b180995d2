"""The coroutine protocol for an object that several tasks may await.

Law: one generator a driving task, made by ``__await__``; nothing is decided here.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from asyncjit.streams import current_port

__all__ = ["Driven"]

T_co = TypeVar("T_co", covariant=True)


class Driven(Coroutine[Any, Any, T_co], Generic[T_co]):
    """A coroutine object by its ``__await__``, for ``create_task``, ``gather`` and whatever else drives coroutines."""

    __slots__ = ("_driven",)

    _driven: dict[object, Generator[Any, Any, T_co]] | None

    @abstractmethod
    def __await__(self) -> Generator[Any, Any, T_co]: ...

    @abstractmethod
    def done(self) -> bool:
        """Whether there is nothing left to wait for."""

    def _dropped(self) -> None:
        """A task was told to wait no more."""

    cr_running = False
    cr_frame = None

    @property
    def cr_suspended(self) -> bool:
        """Whether some task is waiting in it. anyio asks, before it cancels that task."""
        return bool(self._driven)

    def send(self, value: Any) -> Any:
        driven = self._driven
        if driven is None:
            driven = self._driven = {}
        task = _current_task()
        generator = driven.get(task)
        if generator is None:
            generator = driven[task] = self.__await__()
        return self._drive(task, generator.send, value)

    def throw(self, *error: Any) -> Any:
        """As of a coroutine. Thrown in before the first ``send``, a cancellation counts as one of a wait."""
        task = _current_task()
        if self._driven is None or task not in self._driven:
            thrown = error[0] if len(error) == 1 else error[1] or error[0]
            if not isinstance(thrown, asyncio.CancelledError) or self.done():
                raise thrown
            try:
                self.send(None)
            except StopIteration:
                raise thrown from None
        assert self._driven is not None
        return self._drive(task, self._driven[task].throw, *error)

    def _drive(self, task: object, step: Callable[..., Any], *argument: Any) -> Any:
        try:
            return step(*argument)
        except BaseException:
            if self._driven is not None:
                self._driven.pop(task, None)
            raise

    def close(self) -> None:
        """The task that drives it waits no more; as if that wait were cancelled. Without a wait nothing happens:
        dropping a replay does not cancel it."""
        generator = self._driven.pop(_current_task(), None) if self._driven else None
        if generator is not None:
            generator.close()
            self._dropped()


def _current_task() -> object:
    port = current_port()
    return None if port is None else port.current_task()
