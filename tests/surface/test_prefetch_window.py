"""The window: order, bound and wake-ups of ``prefetch``, without a thread or a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncjit.fences import Fence
from asyncjit.prefetch.window import OVER, Outcome, Window


def is_waiting(got: object) -> bool:
    return isinstance(got, Fence) and not got.done


def fence_of(got: object) -> Fence:
    assert isinstance(got, Fence)
    return got


def test_no_more_is_reserved_than_may_be_ahead_until_something_is_delivered() -> None:
    window = Window(2, ordered=True)
    assert (window.reserve(), window.reserve()) == (0, 1)
    waiting = fence_of(window.reserve())
    window.finish(0, "a", 0.0)
    assert not waiting.done
    assert window.deliver() == Outcome("a", None, 0.0)
    assert waiting.done
    assert window.reserve() == 2


def test_only_the_head_is_delivered_where_the_order_is_kept() -> None:
    window = Window(3, ordered=True)
    for _ in range(3):
        window.reserve()
    window.finish(1, "b", 0.0)
    waiting = fence_of(window.deliver())
    window.finish(2, "c", 0.0)
    assert not waiting.done
    window.finish(0, "a", 0.0)
    assert waiting.done
    assert [window.deliver() for _ in range(3)] == [Outcome(value, None, 0.0) for value in "abc"]


def test_each_delivery_wakes_the_next_consumer_if_there_is_something_for_it() -> None:
    window = Window(3, ordered=True)
    for _ in range(2):
        window.reserve()
    first, second = fence_of(window.deliver()), fence_of(window.deliver())
    window.finish(1, "b", 0.0)
    window.finish(0, "a", 0.0)
    assert (first.done, second.done) == (True, False)
    window.deliver()
    assert second.done


def test_who_is_forgotten_is_woken_no_more_and_hands_its_wake_up_on() -> None:
    window = Window(3, ordered=True)
    window.reserve()
    first, second, third = (fence_of(window.deliver()) for _ in range(3))
    window.forget(first)
    window.finish(0, "a", 0.0)
    assert (first.done, second.done, third.done) == (False, True, False)
    window.forget(second)
    assert third.done


def test_the_end_reaches_workers_and_consumers() -> None:
    window = Window(3, ordered=True)
    window.reserve()
    window.reserve()
    window.put(0, "raw")
    assert window.take() == (0, "raw")
    worker, consumer = fence_of(window.take()), fence_of(window.deliver())
    window.exhausted(1)
    assert worker.done
    assert window.take() is window.reserve() is OVER
    window.finish(0, "a", 1.5)
    assert consumer.done
    assert window.deliver() == Outcome("a", None, 1.5)
    assert window.deliver() is window.deliver() is OVER


def test_after_a_failure_what_stands_before_it_goes_on_and_what_stands_behind_is_dropped() -> None:
    window, error = Window(5, ordered=True), ValueError()
    for index in range(4):
        window.reserve()
        window.put(index, index)
    assert [window.take() for _ in range(2)] == [(0, 0), (1, 1)]
    window.fail(1, error, 0.0)
    window.put(4, 4)
    assert window.take() is window.reserve() is OVER
    assert is_waiting(window.deliver())
    window.finish(0, "a", 0.0)
    assert window.deliver() == Outcome("a", None, 0.0)
    assert window.deliver() == Outcome(None, error, 0.0)
    window.finish(2, "late", 0.0)
    assert window.deliver() is OVER


def test_closing_lets_everybody_go() -> None:
    window = Window(1, ordered=False)
    window.reserve()
    waiting = [fence_of(got) for got in (window.reserve(), window.take(), window.deliver())]
    window.close()
    assert all(fence.done for fence in waiting)
    window.put(0, "raw")
    window.finish(0, "a", 0.0)
    window.fail(0, ValueError(), 0.0)
    assert window.reserve() is window.take() is window.deliver() is OVER


class Play:
    """A source of ``count`` items, workers and a consumer, each of which does one thing when told to."""

    def __init__(self, count: int, ahead_max: int, ordered: bool, choose: Callable[[int], int]) -> None:
        self.window = Window(ahead_max, ordered=ordered)
        self.count, self.choose = count, choose
        self.read = 0
        self.busy: list[int] = []
        self.ready: list[int] = []
        self.got: list[Any] = []

    def source(self) -> bool:
        index = self.window.reserve()
        if not isinstance(index, int):
            return False
        if index == self.count:
            self.window.exhausted(index)
        else:
            self.read += 1
            self.window.put(index, index)
        return True

    def begin(self) -> bool:
        taken = self.window.take()
        if isinstance(taken, tuple):
            self.busy.append(taken[0])
        return isinstance(taken, tuple)

    def end(self) -> bool:
        if not self.busy:
            return False
        index = self.busy.pop(self.choose(len(self.busy)))
        self.ready.append(index)
        self.window.finish(index, index, 0.0)
        return True

    def consume(self) -> bool:
        outcome = self.window.deliver()
        if isinstance(outcome, Outcome):
            self.got.append(outcome.value)
        return isinstance(outcome, Outcome)


@pytest.mark.parametrize("ordered", [True, False])
@given(data=st.data(), count=st.integers(0, 8), ahead_max=st.integers(1, 4))
def test_whatever_the_order_of_events_each_item_is_delivered_once_and_within_the_bound(
    ordered: bool, data: st.DataObject, count: int, ahead_max: int
) -> None:
    play = Play(count, ahead_max, ordered, lambda choices: data.draw(st.integers(0, choices - 1)))
    steps = [play.source, play.begin, play.end, play.consume]
    moved = True
    while moved:
        moved = False
        for step in data.draw(st.permutations(steps)):
            moved = step() or moved
            assert play.read - len(play.got) <= ahead_max
    assert play.got == (list(range(count)) if ordered else play.ready)
    assert play.window.deliver() is OVER
