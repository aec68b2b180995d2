"""Room between functions: chains that wait for each other's frames end, and a flood of one starves no other.

Law: counts of completions, never times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from asyncjit.devices.cpu import CpuDevice
from asyncjit.devices.sim import SimDevice
from asyncjit.engine import Group
from asyncjit.replay import Replay
from asyncjit.storage import Storage
from tests.engine.world import PATIENCE_S, READ, Held, World, double

FLOOD = 1000

#: Of the flooding function, from the moment of the other's call until its end.
FURTHER_MAX = 10


class Counted:
    """A kernel that counts its runs, and notes the count when it is asked to."""

    def __init__(self, held_at: int) -> None:
        self.runs = 0
        self.reached, self.go_on = threading.Event(), threading.Event()
        self._held_at = held_at
        self._lock = threading.Lock()

    def __call__(self, *arrays: np.ndarray) -> None:
        with self._lock:
            self.runs += 1
            is_held = self.runs == self._held_at
        if is_held:
            self.reached.set()
            assert self.go_on.wait(PATIENCE_S)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("eager", [False, True])
def test_a_flood_of_one_function_does_not_starve_another(
    make_world: Callable[..., World], workers: int, eager: bool
) -> None:
    """The flood is of a function with the usual limit, or of operations outside of any, which have none."""
    world = make_world(CpuDevice(workers=workers))
    flood = world.engine.eager_group if eager else Group("flood")
    counted = Counted(held_at=10)
    program, source = world.program(counted, [READ]), world.array(1.0)
    seen: list[int] = []
    other = world.program(lambda *arrays: seen.append(counted.runs), [READ])
    replays = [world.call(program, source, group=flood) for _ in range(FLOOD)]
    assert counted.reached.wait(PATIENCE_S)
    before = counted.runs
    called = world.call(other, source, group=Group("other"))
    counted.go_on.set()
    called.wait()
    assert seen[0] - before <= FURTHER_MAX
    for replay in replays:
        replay.wait()
    assert counted.runs == FLOOD


def test_two_floods_share_one_worker(make_world: Callable[..., World]) -> None:
    """Of two functions that both have many calls queued, none gets far ahead of the other."""
    world = make_world(CpuDevice(workers=1))
    order: list[str] = []
    hold, source = Held(), world.array(1.0)
    blocker = world.call(world.program(hold, [READ]), source)
    hold.wait_until_entered()
    programs = {name: world.program(lambda *arrays, n=name: order.append(n), [READ]) for name in ("a", "b")}
    groups = {name: Group(name) for name in programs}
    replays = [world.call(programs[name], source, group=groups[name]) for name in ("a", "b") for _ in range(100)]
    hold.let_go()
    for replay in (blocker, *replays):
        replay.wait()
    ahead = [order[:length].count("a") - order[:length].count("b") for length in range(180)]
    assert max(map(abs, ahead)) <= FURTHER_MAX


@pytest.mark.parametrize("ends", ["real threads", "any order"])
def test_chains_of_functions_that_wait_for_each_others_frames_come_to_an_end(
    make_world: Callable[..., World], ends: str
) -> None:
    """f runs; then f(x), g of its result and f of that are queued, each function with room for one."""
    for seed in range(1 if ends == "real threads" else 30):
        device = CpuDevice(workers=2) if ends == "real threads" else SimDevice(seed=seed)
        world = make_world(device)
        f, g = Group("f", in_flight_max=1), Group("g", in_flight_max=1)
        programs = {group: world.program(double, [READ], outputs=1) for group in (f, g)}
        source = world.array(1.0)
        held = Held(double)
        slow = world.program(held if ends == "real threads" else double, [READ], outputs=1)
        first = world.call(slow, source, group=f)
        chains = []
        for groups in ((f, g, f), (g, f, g), (f, f, g, g, f)):
            value: Storage = source
            chain: list[Replay[list[Storage]]] = []
            for group in groups:
                chain.append(world.call(programs[group], value, group=group))
                value = chain[-1].result[0]
            chains.append(chain)
        if isinstance(device, SimDevice):
            device.run_until_idle()
        else:
            held.wait_until_entered()
            held.let_go()
        first.wait()
        assert [world.read(chain[-1].wait()[0])[0] for chain in chains] == [8.0, 8.0, 32.0]
