"""Lines: where items wait between the stages of a pipeline.

Law: one loop, one reader; the pipe bounds what can be in a line.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import anyio

from asyncjit.pipeline.stages import JittedStage
from asyncjit.replay import Replay

__all__ = ["Item", "Line"]


class Item:
    """One item on its way: its value so far, or the error that stands in its place.

    ``replays``: the calls that ``value`` comes from and that nobody has waited for yet, each with its stage.
    """

    __slots__ = ("error", "index", "is_last", "replays", "value")

    def __init__(self, index: int, value: Any) -> None:
        self.index = index
        self.value = value
        self.error: BaseException | None = None
        self.replays: list[tuple[JittedStage, Replay[Any]]] = []
        #: It stands for an error of the source, after which there is nothing.
        self.is_last = False


class Line:
    """Items in order, between one that puts and one that takes."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._arrived: anyio.Event | None = None
        self._is_closed = False

    def put(self, item: Item) -> None:
        self._items.append(item)
        self._wake()

    def close(self) -> None:
        """Nothing more will come."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None:
            self._arrived.set()
            self._arrived = None

    async def head(self) -> Item | None:
        """The oldest item, which stays until ``take``; None after the last. Cancellation: nothing is lost."""
        while not self._items:
            if self._is_closed:
                return None
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._items[0]

    def take(self) -> None:
        """Take out the oldest item."""
        self._items.popleft()
