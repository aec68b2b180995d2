"""Fences and ports: completions wake whoever waits, once, on every kind of loop, and never a loop that is gone."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import threading
from collections.abc import Callable, Generator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.lowlevel
import trio.testing

from asyncjit.fences import Fence
from asyncjit.ports import AsyncioPort, TrioPort
from asyncjit.streams import INLINE_TURN_S, current_port, in_event_loop, pace, wait_fence

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop]
if importlib.util.find_spec("uvloop") is not None:
    import uvloop

    LOOPS.append(uvloop.new_event_loop)


class Waiting:
    """Awaitable: the fence has fired. Remembers what it was asked when it was cancelled."""

    def __init__(self, fence: Fence, let_go: bool = True) -> None:
        self.fence, self.let_go = fence, let_go
        self.asked: list[bool] = []

    def __await__(self) -> Generator[Any, Any, str]:
        yield from wait_fence(self.fence, self._on_cancel)
        return "fired"

    def _on_cancel(self, is_closing: bool) -> bool:
        self.asked.append(is_closing)
        return self.let_go


class CountingFence(Fence):
    added = 0

    def add_callback(self, callback: Callable[[], None]) -> bool:
        self.added += 1
        return super().add_callback(callback)


async def wait_for(waiting: Waiting) -> str:
    return await waiting


@pytest.mark.parametrize("new_loop", LOOPS)
def test_any_number_of_completions_is_one_wake_up_of_the_loop(new_loop: Callable[[], Any]) -> None:
    posts = []

    async def main() -> None:
        port = current_port()
        assert isinstance(port, AsyncioPort)
        loop = port.loop

        class Counting:
            """Passes wake-ups on to the loop, counted."""

            def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
                posts.append(callback)
                loop.call_soon_threadsafe(callback)

            def __getattr__(self, name: str) -> Any:
                return getattr(loop, name)

        port.loop = Counting()  # type: ignore[assignment]
        fences = [Fence() for _ in range(100)]
        tasks = [asyncio.create_task(wait_for(Waiting(fence))) for fence in fences]
        await asyncio.sleep(0)
        thread = threading.Thread(target=lambda: [fence.signal() for fence in fences])
        thread.start()
        thread.join()
        assert await asyncio.gather(*tasks) == ["fired"] * 100

    run_in(new_loop, main)
    assert len(posts) == 1


def run_in(new_loop: Callable[[], asyncio.AbstractEventLoop], main: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("new_loop", LOOPS)
def test_completions_after_the_loop_has_closed_are_dropped_quietly(new_loop: Callable[[], Any]) -> None:
    waitings = [Waiting(Fence()) for _ in range(2)]
    loop = new_loop()
    tasks = [loop.create_task(wait_for(waiting)) for waiting in waitings]
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    thread = threading.Thread(target=waitings[0].fence.signal)
    thread.start()
    thread.join()
    waitings[1].fence.signal()
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    del tasks, task
    gc.collect()
    assert waitings[0].asked == [True]


def test_each_loop_has_a_port_and_there_is_none_outside() -> None:
    ports = []

    async def main() -> None:
        ports.append(current_port())
        assert current_port() is ports[-1]
        assert in_event_loop()

    asyncio.run(main())
    asyncio.run(main())
    trio.run(main)
    assert [type(port) for port in ports] == [AsyncioPort, AsyncioPort, TrioPort]
    assert ports[0] is not ports[1]
    assert current_port() is None
    assert not in_event_loop()
    with pytest.raises(RuntimeError, match="awaited outside an event loop"):
        wait_fence(Fence(), lambda is_closing: True)


def test_in_a_trio_run_that_is_a_guest_the_task_that_runs_decides() -> None:
    found: list[type] = []

    async def guest() -> None:
        await trio.lowlevel.checkpoint()
        found.append(type(current_port()))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        trio.lowlevel.start_guest_run(
            guest,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=lambda outcome: done.set_result(outcome),
            host_uses_signal_set_wakeup_fd=True,
        )
        (await done).unwrap()
        found.append(type(current_port()))

    asyncio.run(main())
    assert found == [TrioPort, AsyncioPort]


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_cancelled_wait_goes_at_once_where_it_may(new_loop: Callable[[], Any]) -> None:
    waiting = Waiting(Fence())

    async def main() -> None:
        task = asyncio.create_task(wait_for(waiting))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not waiting.fence._callbacks

    run_in(new_loop, main)
    assert waiting.asked == [False]


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_shielded_wait_delivers_the_cancellation_when_the_fence_has_fired(new_loop: Callable[[], Any]) -> None:
    waiting = Waiting(Fence(), let_go=False)

    async def main() -> None:
        task = asyncio.create_task(wait_for(waiting))
        await asyncio.sleep(0)
        for message in ("first", "second"):
            task.cancel(message)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert not task.done()
        waiting.fence.signal()
        with pytest.raises(asyncio.CancelledError, match="first"):
            await task

    run_in(new_loop, main)
    assert waiting.asked == [False]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_shielded_wait_in_a_cancelled_anyio_scope_does_not_spin(backend: str) -> None:
    fence = CountingFence()
    waiting = Waiting(fence, let_go=False)
    ends: list[str] = []

    async def main() -> None:
        with anyio.CancelScope() as outer:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await anyio.lowlevel.checkpoint()
                outer.cancel()
                with anyio.CancelScope(shield=True):
                    for _ in range(20):
                        await anyio.lowlevel.checkpoint()
                ends.append("let go")
                fence.signal()

    async def wait() -> None:
        try:
            await waiting
        finally:
            ends.append("ended")

    anyio.run(main, backend=backend)
    assert ends == ["let go", "ended"]
    assert fence.added <= 2


def test_a_trio_wait_is_cancelled_at_once_or_when_the_fence_has_fired() -> None:
    async def main() -> None:
        quick = Waiting(Fence())
        with trio.move_on_after(0):
            await quick
        assert quick.asked == [False]
        slow = Waiting(Fence(), let_go=False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for, slow)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
                await trio.to_thread.run_sync(slow.fence.signal)
        assert slow.asked == [False]

    trio.run(main)


def test_a_waiter_that_is_taken_apart_says_so_and_is_not_woken() -> None:
    async def main() -> None:
        waiting = Waiting(Fence())
        coroutine = wait_for(waiting)
        coroutine.send(None)
        coroutine.close()
        assert waiting.asked == [True]
        assert not waiting.fence._callbacks
        thrown = Waiting(Fence())
        coroutine = wait_for(thrown)
        coroutine.send(None)
        with pytest.raises(ValueError, match="by hand"):
            coroutine.throw(ValueError("by hand"))
        assert thrown.asked == [False]

    asyncio.run(main())
    trio.run(close_in_trio)


async def close_in_trio() -> None:
    waiting = Waiting(Fence())
    coroutine = wait_for(waiting)
    coroutine.send(None)
    coroutine.close()
    waiting.fence.signal()
    assert waiting.asked == [True]
    await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_await_lets_the_loop_turn_when_the_budget_of_the_turn_is_used_up(backend: str) -> None:
    checkpoints = []

    class Pace:
        def __await__(self) -> Generator[Any, Any, None]:
            yield from pace()

    async def main() -> None:
        port = current_port()
        assert port is not None
        checkpoint = port.checkpoint

        def counted() -> Generator[Any, Any, None]:
            checkpoints.append(1)
            return checkpoint()

        port.checkpoint = counted  # type: ignore[method-assign]
        await Pace()
        port.charge_inline(INLINE_TURN_S)
        await Pace()
        assert checkpoints == []
        port.charge_inline(1e-6)
        await Pace()
        assert checkpoints == [1]
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        assert port.inline_spent_s == 0.0

    anyio.run(main, backend=backend)
