"""``f.map``: calls ahead of their results, without a task.

Law: an object and no generator, so that every step of it can be cancelled and closed. It decides when to call and when
to wait; everything else is the replay's.

Each step first fills up: it takes items and calls the function until ``in_flight`` calls are under way, which never
waits for the device; then it waits for the oldest. So while the consumer works on a result, the calls after it run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Any, Generic, NoReturn, TypeVar

from asyncjit.errors import CaptureError, EngineBusyError
from asyncjit.replay import Replay
from asyncjit.sources import Source, as_failure

__all__ = ["Mapped", "refuse_to_map"]

R_co = TypeVar("R_co", covariant=True)

_NOTHING: Any = object()


class Mapped(AsyncIterator[R_co], Generic[R_co]):
    """The results of a function for the items of a source, in their order; made by ``f.map``.

    An item is the one argument, as with the built-in ``map``: a jitted function takes tuples, so whether one is meant
    to be unpacked cannot be told by looking at it. ``star=True`` unpacks each, as ``itertools.starmap`` does.

    Each step calls the function until ``in_flight`` calls are under way, then waits for the oldest. A plain source is
    asked on the loop's thread. An async one is awaited while fewer than ``in_flight`` calls are under way, also when
    the oldest has ended: a result may stay behind the source by ``in_flight - 1`` items. Where items are rare and
    results urgent, ``in_flight=1`` waits for the source only with nothing under way. The source is asked for the next
    item when the memory of the last may be written again.

    An error, of a call or of the source, is raised in its item's place; then, when the wait is cancelled, and with
    ``aclose()``, the iteration is over: calls ahead that have not started are cancelled, and the source is closed.
    After a plain ``break`` the calls ahead run; ``contextlib.aclosing`` closes in that case too. When the engine is
    full, the next call waits for the oldest result; EngineBusyError is raised only with none under way.

    Thread: one task at a time asks for the next result.
    """

    def __init__(
        self,
        call: Callable[[Any], Replay[R_co]],
        source: Iterable[Any] | AsyncIterable[Any],
        in_flight: int,
        name: str,
    ) -> None:
        if in_flight < 1:
            raise ValueError(f"in_flight of {name}.map() must be at least 1, got {in_flight!r}")
        self._call = call
        self._name = name
        self._in_flight = in_flight
        self._source: Source[Any] = Source(source, f"{name}.map()")
        #: Calls under way, oldest first.
        self._ahead: deque[Replay[R_co]] = deque()
        #: The item that the engine had no room for.
        self._held: Any = _NOTHING
        #: What comes after the results that are under way: the end, or an error.
        self._ending: BaseException | None = None
        self._is_over = False
        self._is_asked = False

    def __aiter__(self) -> Mapped[R_co]:
        return self

    async def __anext__(self) -> R_co:
        """The next result.

        Cancellation: as of a replay for the oldest call; the iteration is over, as after ``aclose``.

        Raises:
            StopAsyncIteration: there are no more.
            RuntimeError: another task is waiting for a result.
            Exception: what the item's call or the source raised, in the item's place; the iteration is over.
        """
        if self._is_asked:
            raise RuntimeError(
                f"two tasks ask {self._name}.map() for a result at once; ask from one, or give each its own map"
            )
        if self._is_over:
            raise StopAsyncIteration
        self._is_asked = True
        try:
            return await self._next()
        except GeneratorExit:
            # This step is being taken apart and may wait for nothing: the source goes with its last reference.
            self._drop_ahead()
            raise
        except BaseException:
            await self._end()
            raise
        finally:
            self._is_asked = False

    async def aclose(self) -> None:
        """End the iteration: calls ahead that have not started are cancelled, and the source is closed.

        What runs is finished by the engine. May be called again, and not while a result is being waited for.
        """
        if self._is_asked:
            raise RuntimeError(f"{self._name}.map() is closed while a task waits for its next result; cancel that task")
        await self._end()

    async def _next(self) -> R_co:
        await self._fill()
        if not self._ahead:
            self._raise_ending()
        result = await self._ahead[0]
        self._ahead.popleft()
        return result

    def _raise_ending(self) -> NoReturn:
        ending = self._ending
        assert ending is not None
        try:
            raise ending
        finally:
            # It remembers this frame, and the frame should not remember it.
            del ending
            self._ending = None

    async def _fill(self) -> None:
        while len(self._ahead) < self._in_flight and self._ending is None:
            try:
                if self._held is _NOTHING:
                    self._held = await self._source.next()
            except Exception as error:
                self._ending = error
                return
            try:
                replay = self._call(self._held)
            except EngineBusyError as error:
                # The end of the oldest makes room. Where none of ours is under way, waiting would not help.
                self._ending = None if self._ahead else error
                return
            except Exception as error:
                self._ending = as_failure(error)
                return
            self._held = _NOTHING
            self._ahead.append(replay)
            if replay._staged:
                # The source may fill the same memory again for its next item.
                await replay.inputs_consumed

    async def _end(self) -> None:
        self._drop_ahead()
        await self._source.aclose()

    def _drop_ahead(self) -> None:
        self._is_over = True
        self._held = _NOTHING
        # From the last to the first, so that no call fails because one that it reads from is gone.
        while self._ahead:
            self._ahead.pop().cancel()


def refuse_to_map(name: str) -> NoReturn:
    raise CaptureError(
        f"{name}.map() inside a captured function would wait for results, and a recording has none; call {name} in a "
        "loop there",
        function=name,
    )
