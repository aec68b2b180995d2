"""The rules of gathering, step by step and in random order: no loop, no clock, no engine."""

from __future__ import annotations

import random

import pytest

from asyncjit.fences import Fence
from asyncjit.jit.batching.gathering import Batch, Gathering, Request
from asyncjit.jit.batching.rows import bucket_of, buckets_of


class World:
    """Requests that do what the gathering tells them, when the test lets them."""

    def __init__(self, rows_max: int = 8, wait_max_s: float = 1.0) -> None:
        self.gathering = Gathering(rows_max, wait_max_s)
        self.waiting: list[Request] = []
        self.in_flight: list[Batch] = []
        self.launched: list[list[Request]] = []

    def arrive(self, rows: int = 1, port: object = "loop") -> Request:
        request = Request((), (), rows, port, 0.0)
        self.waiting.append(request)
        self.gathering.tell(self.gathering.arrive, request)
        return request

    def wake(self, request: Request, is_late: bool = False) -> None:
        """The request's task runs until it waits again."""
        request.woken = Fence()
        self.launch(request)
        if request.leads:
            self.gathering.tell(self.gathering.look, request, is_late)
            self.launch(request)
        if request.batch is not None and request.batch.is_over and request in self.waiting:
            self.waiting.remove(request)

    def launch(self, request: Request) -> None:
        while request.to_launch:
            batch = request.to_launch.pop(0)
            live = batch.assemble(lambda rows: bucket_of(rows, buckets_of(self.gathering.rows_max, None)))
            self.launched.append(list(live))
            self.in_flight.append(batch)
            self.gathering.tell(self.gathering.launched, batch, 0.0)

    def end(self, batch: Batch) -> None:
        self.in_flight.remove(batch)
        batch.is_over = True
        self.gathering.tell(self.gathering.ended, batch)

    def leave(self, request: Request) -> None:
        self.waiting.remove(request)
        self.gathering.tell(self.gathering.leave, request)

    def check(self) -> None:
        gathered = [request for request in self.waiting if request.batch is None]
        leaders = [request for request in gathered if request.leads]
        first = {request.port: request for request in reversed(gathered)}
        assert {request.port for request in leaders} == set(first)
        assert len(leaders) == len(first)
        assert self.gathering.is_due or sum(request.rows for request in gathered) <= self.gathering.rows_max
        ordered = [batch for request in self.waiting for batch in request.to_launch]
        if gathered and not self.in_flight and not ordered:
            assert self.gathering.is_due
        for requests in self.launched:
            assert len(requests) == 1 or sum(request.rows for request in requests) <= self.gathering.rows_max


def test_orders_of_a_call_that_leaves_go_to_another() -> None:
    world = World(rows_max=4)
    first = world.arrive()
    world.wake(first)
    a, b = world.arrive(2), world.arrive(1)
    # The batch is full, and who should start it leaves before it does.
    last = world.arrive(1)
    assert len(last.to_launch) == 1
    world.leave(last)
    assert (a.batch, b.batch, a.leads) == (None, None, True)
    world.wake(a)
    assert world.launched[-1] == [a, b]


def test_each_loop_has_a_leader_and_any_of_them_starts_the_batch() -> None:
    world = World()
    first = world.arrive()
    world.wake(first)
    a, b, c = world.arrive(port="one"), world.arrive(port="two"), world.arrive(port="one")
    assert (a.leads, b.leads, c.leads) == (True, True, False)
    a.woken, b.woken = Fence(), Fence()
    world.end(first.batch)  # type: ignore[arg-type]
    assert (a.woken.done, b.woken.done) == (True, True)
    world.wake(b)
    assert world.launched[-1] == [a, b, c]
    world.wake(a, is_late=True)
    assert len(world.launched) == 2


def test_what_is_left_behind_by_a_full_batch_has_a_leader() -> None:
    world = World(rows_max=4)
    world.wake(world.arrive())
    a, b = world.arrive(3), world.arrive(3)
    assert (a.leads, b.leads) == (False, True)
    world.wake(b)
    assert world.launched[-1] == [a]
    world.wake(b, is_late=True)
    assert world.launched[-1] == [b]


@pytest.mark.parametrize("seed", range(200))
def test_every_call_runs_once_or_leaves_whatever_happens_in_between(seed: int) -> None:
    dice = random.Random(seed)
    world = World(rows_max=dice.choice([1, 3, 8]), wait_max_s=dice.choice([0.0, 1.0, 1.0]))
    arrived, left = [], []
    for _ in range(60):
        what = dice.random()
        if what < 0.4:
            arrived.append(world.arrive(dice.randint(1, 5), dice.choice(["one", "two"])))
            if dice.random() < 0.8:
                world.wake(arrived[-1])
        elif what < 0.6 and world.waiting:
            world.wake(dice.choice(world.waiting), is_late=dice.random() < 0.2)
        elif what < 0.8 and world.in_flight:
            world.end(dice.choice(world.in_flight))
        elif world.waiting:
            left.append(dice.choice(world.waiting))
            world.leave(left[-1])
        world.check()
    while world.waiting:
        for request in list(world.waiting):
            world.wake(request)
        for batch in list(world.in_flight):
            world.end(batch)
        world.check()
    while world.in_flight:
        world.end(world.in_flight[0])
    ran = [request for requests in world.launched for request in requests]
    assert len(ran) == len(set(ran))
    assert set(arrived) == set(ran) | set(left)
    assert world.gathering.is_idle
    assert world.gathering.tally.calls == len(arrived)
    assert world.gathering.tally.cancelled == len(left)


@pytest.mark.parametrize(
    ("rows_max", "buckets", "expected"),
    [
        (1, None, (1,)),
        (2, None, (1, 2)),
        (32, None, (1, 2, 4, 8, 16, 32)),
        (20, None, (1, 2, 4, 8, 16, 20)),
        (16, (4, 1), (1, 4, 16)),
    ],
)
def test_buckets_are_powers_of_two_unless_given_and_always_the_largest(
    rows_max: int, buckets: tuple[int, ...] | None, expected: tuple[int, ...]
) -> None:
    sizes = buckets_of(rows_max, buckets)
    assert sizes == expected
    assert [bucket_of(rows, sizes) for rows in (1, rows_max, rows_max + 1)] == [sizes[0], rows_max, 2 * rows_max]
