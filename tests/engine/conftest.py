"""Fixtures of the engine's tests: each world is closed, checked and found without threads at its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from asyncjit.devices.base import Device
from tests.engine.world import Queue, World, engine_threads

#: Where processes do not fork there is nothing to test about it.
collect_ignore = [] if hasattr(os, "fork") else ["test_fork.py"]


@pytest.fixture
def make_world() -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def make(*devices: Device | str, **options: Any) -> World:
        worlds.append(World(*devices, **options))
        return worlds[-1]

    yield make
    for world in worlds:
        world.engine.close(10.0)
        world.engine._scheduler.verify()
    assert engine_threads() == []


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()


@pytest.fixture
def queue(world: World) -> Queue:
    return Queue(world)
