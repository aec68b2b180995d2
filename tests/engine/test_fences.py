"""Fences: completion, once, from any thread."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from asyncjit.fences import Fence
from asyncjit.streams import wait_blocking
from tests.engine.world import PATIENCE_S


def test_a_fence_calls_back_once_and_refuses_those_who_come_late() -> None:
    fence, called = Fence(), []
    assert fence.add_callback(lambda: called.append(1))
    fence.signal()
    fence.signal()
    assert called == [1]
    assert not fence.add_callback(lambda: called.append(2))
    assert called == [1]
    assert fence.done


def test_a_callback_that_was_taken_back_is_not_called() -> None:
    fence, called = Fence(), []

    def callback() -> None:
        called.append(1)

    assert not fence.discard_callback(callback)
    fence.add_callback(callback)
    assert fence.discard_callback(callback)
    fence.signal()
    assert called == []


def test_a_callback_that_raises_keeps_none_of_the_others_from_being_called() -> None:
    fence, called = Fence(), []

    def broken() -> None:
        raise ValueError("on purpose")

    for callback in (lambda: called.append(1), broken, lambda: called.append(2)):
        fence.add_callback(callback)
    with pytest.raises(ValueError, match="on purpose"):
        fence.signal()
    assert sorted(called) == [1, 2]


def test_each_callback_is_called_or_refused_whatever_the_race() -> None:
    for _ in range(300):
        fence, called, barrier = Fence(), [], threading.Barrier(2)

        def signal(fence: Fence = fence, barrier: threading.Barrier = barrier) -> None:
            barrier.wait(PATIENCE_S)
            fence.signal()

        thread = threading.Thread(target=signal)
        thread.start()
        barrier.wait(PATIENCE_S)
        accepted = sum(fence.add_callback(partial(called.append, 1)) for _ in range(5))
        thread.join()
        assert len(called) == accepted


def test_a_blocking_wait_ends_with_the_fence_or_with_the_time() -> None:
    fence = Fence()
    assert not wait_blocking(fence, 0.0)
    assert not fence._callbacks
    thread = threading.Thread(target=fence.signal)
    thread.start()
    assert wait_blocking(fence, PATIENCE_S)
    thread.join()
    assert wait_blocking(fence)
