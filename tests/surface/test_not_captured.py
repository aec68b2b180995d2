"""``not_captured``: what happens in the block happens at the recording only, and touches nothing that is recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.prefetching import Run

PATIENCE_S = 20.0


def test_the_block_runs_once_and_what_it_makes_is_state(run: Run) -> None:
    async def main() -> None:
        counter, runs = anp.zeros(()), []

        @aj.jit
        def f(x: anp.Array) -> anp.Array:
            with aj.not_captured():
                counter[...] = counter + 1
                table = anp.arange(5, dtype="float64") * 10
                runs.append(1)
            return x + table[2]

        for value in (1.0, 2.0, 3.0):
            assert float(await f(anp.asarray(value))) == value + 20
        assert float(await counter) == 1.0
        assert len(runs) == 1
        assert f.explain().count("add") == 1
        assert "multiply" not in f.explain()

    run(main)


def test_in_a_script_values_may_be_read_in_the_block() -> None:
    state = anp.arange(3, dtype="float64")
    met: list[float] = []

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        with aj.not_captured():
            largest = float((state * 2).max())
            met.append(largest)
        return x * largest

    assert float(f.run(2.0)) == 8.0
    state[0] = 100.0
    assert float(f.run(3.0)) == 12.0
    assert met == [4.0]


async def test_outside_of_a_recording_it_changes_nothing_and_an_error_leaves_it() -> None:
    with aj.not_captured():
        x = anp.ones(2) + 1
    assert np.asarray(await x).tolist() == [2.0, 2.0]

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        try:
            with aj.not_captured():
                raise KeyError
        except KeyError:
            pass
        return x + 1

    for _ in range(2):
        assert np.asarray(await f(x)).tolist() == [3.0, 3.0]
    assert f.explain().count("add") == 1


async def test_jitted_functions_in_the_block_are_calls_of_their_own() -> None:
    total = anp.zeros(())

    @aj.jit
    def bump(by: Any) -> anp.Array:
        total[...] = total + by
        return total

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        with aj.not_captured():
            made = bump(5.0).result
        bump(1.0)
        return x + made

    assert [float(await f(anp.zeros(()))) for _ in range(3)] == [5.0, 5.0, 5.0]
    assert float(await total) == 8.0
    assert bump.statistics().replays == 1


USES: dict[str, Callable[[anp.Array], object]] = {
    "operator": lambda x: x + 1,
    "function": anp.sum,
    "write": lambda x: x.__setitem__(..., 1),
    "assign": lambda x: aj.assign({x: 1.0}),
    "call": lambda x: identity(x),
    "read": np.asarray,
    "branch": bool,
}


@aj.jit
def identity(x: anp.Array) -> anp.Array:
    return x.copy()


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("makes", [lambda x: x, lambda x: x * 2], ids=["argument", "result"])
async def test_an_array_that_is_being_recorded_is_refused_in_the_block(use: Any, makes: Any) -> None:
    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        made = makes(x)
        with aj.not_captured():
            use(made)
        return made + 1

    with pytest.raises(aj.CaptureError, match="f' is record|f', which is being recorded|f' is recorded") as caught:
        f(anp.ones(()))
    assert isinstance(caught.value, aj.HostReadError) is (use in (np.asarray, bool))
    assert f.captures == []


def test_a_value_that_comes_after_the_recording_is_refused_and_nothing_hangs() -> None:
    entered, arrived = threading.Event(), threading.Event()

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        entered.set()
        assert arrived.wait(PATIENCE_S)
        with aj.not_captured():
            offset = float(anp.ones(()) + 1)
        return x + offset

    caught: list[BaseException] = []

    def lead() -> None:
        try:
            f(anp.zeros(3))
        except aj.CaptureError as error:
            caught.append(error)

    thread = threading.Thread(target=lead, daemon=True)
    thread.start()
    assert entered.wait(PATIENCE_S)
    second = f(anp.zeros(3))
    arrived.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    with pytest.raises(aj.CaptureError, match=r"waits for a value that comes after it.*await .*f\.prepare"):
        second.wait()
    assert len(caught) == 1
    # Nobody meets it any more.
    assert np.asarray(f.run(anp.zeros(3))).tolist() == [2.0] * 3


def test_a_call_of_the_function_itself_in_its_recording_is_refused() -> None:
    calls: list[int] = []

    @aj.jit
    def f(x: anp.Array) -> anp.Array:
        calls.append(1)
        with aj.not_captured():
            f(x0)
        return x + 1

    x0 = anp.ones(2)
    with pytest.raises(aj.CaptureError, match="f' calls itself"):
        f(x0)
    assert len(calls) == 1
