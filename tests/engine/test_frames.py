"""Frames: replays of one plan at the same time never share memory, and the check would see it if they did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from asyncjit.devices import _numpy_executor
from asyncjit.devices._numpy_memory import aligned_bytes
from asyncjit.devices.sim import SimDevice
from asyncjit.program import Group
from tests.engine.test_limits import with_an_intermediate
from tests.engine.world import World

SEEDS = range(8)


def wrong_results(make_world: Callable[..., World], seed: int) -> int:
    """Eight replays at once, each of which doubles an array of its own by way of its frame."""
    device = SimDevice(seed=seed, inline_s_max=0.0)
    world = make_world(device)
    group = Group("doubling", in_flight_max=8)
    program = with_an_intermediate(world)
    arrays = [world.array(float(value)) for value in range(1, 9)]
    for array in arrays:
        world.call(program, array, group=group)
    device.run_until_idle()
    return sum(world.read(array) != [2.0 * value] * 4 for value, array in enumerate(arrays, 1))


def test_replays_at_once_have_a_frame_each(make_world: Callable[..., World]) -> None:
    assert [wrong_results(make_world, seed) for seed in SEEDS] == [0] * len(SEEDS)


def test_frames_with_one_arena_between_them_are_caught(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    arenas: dict[int, Any] = {}
    monkeypatch.setattr(
        _numpy_executor,
        "aligned_bytes",
        lambda nbytes, device: arenas.setdefault(nbytes, aligned_bytes(nbytes, device)),
    )
    assert sum(wrong_results(make_world, seed) for seed in SEEDS) > 0
