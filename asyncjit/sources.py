"""Sources: what ``map`` and pipelines take their items from, plain or async, asked in one way.

Law: knows iterators and nothing else of the project; starts no task and no thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, Generic, TypeVar

__all__ = ["Source", "as_failure"]

T = TypeVar("T")

_END: Any = object()


class Source(Generic[T]):
    """An iterator over any iterable or async iterable, which is closed with it.

    A plain iterable is asked on the thread of the event loop, so one that blocks stops the loop meanwhile; give such a
    one to ``prefetch``.

    Raises:
        TypeError: ``items`` is neither; the message says for whom it was meant.
    """

    def __init__(self, items: Iterable[T] | AsyncIterable[T], whose: str) -> None:
        self._plain: Iterator[T] | None = None
        self._async: AsyncIterator[T] | None = None
        if hasattr(type(items), "__aiter__"):
            self._async = aiter(items)  # type: ignore[arg-type]
        elif hasattr(type(items), "__iter__") or hasattr(type(items), "__getitem__"):
            self._plain = iter(items)  # type: ignore[arg-type]
        else:
            raise TypeError(
                f"{whose} takes its items from an iterable or an async iterable, got {type(items).__qualname__}; "
                "a single item goes into a list"
            )

    async def next(self) -> T:
        """The next item.

        Raises:
            StopAsyncIteration: there is none.
            Exception: whatever the iterator raised; it may not be asked again.
        """
        if self._async is not None:
            return await anext(self._async)
        assert self._plain is not None
        try:
            item = next(self._plain, _END)
        except StopAsyncIteration as error:
            raise as_failure(error) from error
        if item is _END:
            raise StopAsyncIteration
        return item

    async def aclose(self) -> None:
        """Close the iterator if it can be closed, as generators can; again changes nothing."""
        for name in ("aclose", "close"):
            close = getattr(self._plain if self._async is None else self._async, name, None)
            if close is not None:
                closing = close()
                if name == "aclose":
                    await closing
                return


def as_failure(error: BaseException) -> BaseException:
    """The error itself, or, where raising it would pass for the end of an iteration, an error that says so."""
    if isinstance(error, StopIteration | StopAsyncIteration):
        failure = RuntimeError(f"{type(error).__name__} was raised where an item was being worked on")
        failure.__cause__ = error
        return failure
    return error
