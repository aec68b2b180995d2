"""After a fork: the child's finalisers do nothing, first use of the parent's engine raises, a new one works."""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncjit.engine import current_engine, default_engine
from asyncjit.errors import EngineClosedError
from asyncjit.tracing import trace
from tests.engine.world import BOTH, READ, Held, World, double, increment


def in_child(check: Callable[[], None]) -> None:
    """Run ``check`` in a forked child; fail with what it printed where it raises."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns that this process has threads. That is the point.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            check()
            os.write(writing, b"fine")
        except BaseException:
            os.write(writing, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    assert said == "fine"


def test_a_child_that_never_touches_the_engine_is_fine(world: World) -> None:
    storages = [world.array(1.0) for _ in range(10)]
    failed = world.pure(lambda *arrays: 1 / 0)
    with pytest.raises(Exception, match="division"):
        failed.wait()

    def check() -> None:
        nonlocal storages, failed
        del storages, failed
        gc.collect()

    in_child(check)
    assert world.read(storages[0]) == [1.0] * 4


@pytest.mark.parametrize("locked", [False, True])
def test_first_use_in_a_child_raises_and_blocks_nowhere(world: World, locked: bool) -> None:
    held = Held(increment)
    state, other = world.array(0.0), world.array(3.0)
    program = world.program(held, [BOTH])
    pending = world.call(program, state)
    finished = world.pure()
    (output,) = finished.wait()

    def check() -> None:
        for use in (
            lambda: world.call(program, state),
            lambda: world.array(1.0),
            lambda: world.engine.submit_first(world.group, 1, lambda: (program, [(state, 0)], list)),
            lambda: pending.wait(),
            lambda: world.read(state),
        ):
            with pytest.raises(EngineClosedError, match="forked from"):
                use()
        # What was there before the fork can still be read.
        assert world.read(output) == [2.0] * 4
        assert world.read(other) == [3.0] * 4
        finished.wait()
        world.engine.statistics()
        world.engine.close()

    if locked:
        # As another thread of the parent might.
        world.engine._lock.acquire()
    try:
        in_child(check)
    finally:
        if locked:
            world.engine._lock.release()
        held.let_go()
    pending.wait()
    assert world.read(state) == [1.0] * 4


def test_a_child_leaves_the_trace_of_its_parent_alone(world: World, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    with trace(path, engine=world.engine) as running:

        def check() -> None:
            running.stop()
            assert "running" in repr(running)

        in_child(check)
        world.pure().wait()
    assert [event["name"] for event in json.loads(path.read_text()) if event["ph"] == "e"] == ["user"]


def test_a_child_may_open_an_engine_of_its_own(world: World) -> None:
    world.pure().wait()

    def check() -> None:
        own = World()
        (output,) = own.call(own.program(double, [READ], outputs=1), own.array(2.0)).wait()
        assert own.read(output) == [4.0] * 4
        own.engine.close()

    in_child(check)


def test_the_default_engine_of_the_parent_is_refused_in_a_child() -> None:
    engine = default_engine()

    def check() -> None:
        assert current_engine() is engine
        with pytest.raises(EngineClosedError, match="open an Engine in the child"):
            current_engine().new_storage("cpu", (1,), "float64", 8)
        # As at the end of a child that leaves by sys.exit.
        sys.modules["asyncjit.engine"]._close_default()

    in_child(check)
