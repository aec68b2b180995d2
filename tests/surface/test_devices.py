"""Arrays on several devices: copies as calls, eager and captured; what an operation makes of where its operands are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices.cpu import CpuDevice
from asyncjit.errors import DeviceError, DeviceUnavailableError
from tests.surface.loops import LOOPS, PATIENCE_S

HOST = np.arange(12.0).reshape(3, 4)


def run_in(loop: str, main: Callable[[aj.Engine], Any]) -> None:
    """Run ``main`` in a new loop with an engine of two devices."""

    async def inside() -> None:
        with anyio.fail_after(PATIENCE_S):
            async with aj.Engine([CpuDevice("cpu:0", workers=1), CpuDevice("cpu:1", workers=1)]) as engine:
                await main(engine)

    options = {"use_uvloop": True} if loop == "uvloop" else {}
    anyio.run(inside, backend="trio" if loop == "trio" else "asyncio", backend_options=options)


@pytest.fixture
def engine() -> Iterator[aj.Engine]:
    """In a script: no loop runs."""
    engine = aj.Engine([CpuDevice("cpu:0", workers=1), CpuDevice("cpu:1", workers=1)])
    with engine.use():
        yield engine
    engine.close(PATIENCE_S)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_captured_function_goes_from_device_to_device_and_back(loop: str) -> None:
    async def main(engine: aj.Engine) -> None:
        @aj.jit
        def step(x: anp.Array, scale: float) -> tuple[anp.Array, anp.Array]:
            here = x * 2 + 1
            there = anp.to_device(here, "cpu:1")
            there = anp.sin(there) * scale + there
            return there.to_device("cpu:0") + here, there.sum(axis=0)

        for scale in (0.5, 1.5, 2.5, 3.5):
            back, total = await step(anp.asarray(HOST), scale)
            here = HOST * 2 + 1
            there = np.sin(here) * scale + here
            assert (back.device, total.device) == ("cpu:0", "cpu:1")
            assert np.array_equal(np.asarray(back), there + here)
            assert np.array_equal(np.asarray(total), there.sum(axis=0))
        assert len(step.captures) == 1
        assert engine.statistics().failed == 0

    run_in(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_copies_are_ordered_with_writes_on_both_sides(loop: str) -> None:
    async def main(engine: aj.Engine) -> None:
        left, right = anp.zeros(1000, device="cpu:0"), anp.zeros(1000, device="cpu:1")

        @aj.jit
        def step(x: anp.Array) -> anp.Array:
            nonlocal_sum = left + x
            left[...] = nonlocal_sum
            right[...] = right * 2 + nonlocal_sum.to_device("cpu:1")
            return right.to_device("cpu:0")

        left_host, right_host = np.zeros(1000), np.zeros(1000)
        replays = []
        for number in range(8):
            replays.append(step(anp.full(1000, number)))
            # Eager work takes its turn between the replays.
            right[:10] += 1
            left_host = left_host + number
            right_host = right_host * 2 + left_host
            expected = right_host.copy()
            right_host[:10] += 1
            if number == 7:
                assert np.array_equal(np.asarray(await replays[-1]), expected)
        await left
        await right
        assert np.array_equal(np.asarray(left), left_host)
        assert np.array_equal(np.asarray(right), right_host)

    run_in(loop, main)


def test_a_copy_outside_of_a_capture_is_a_replay_of_one_call(engine: aj.Engine) -> None:
    x = anp.asarray(HOST)
    before = engine.statistics().tickets
    y = x[::2, ::-1].to_device("cpu:1")
    assert engine.statistics().tickets == before + 1
    assert (y.device, y.shape) == ("cpu:1", (2, 4))
    assert np.array_equal(np.asarray(y), HOST[::2, ::-1])
    assert x.to_device("cpu:0") is x
    assert anp.to_device(x, "cpu:0") is x
    y[...] = 0
    assert np.array_equal(np.asarray(x), HOST)


def test_new_arrays_are_made_where_they_are_asked_for_and_stay_where_their_operands_are(engine: aj.Engine) -> None:
    made = [
        anp.asarray(HOST, device="cpu:1"),
        anp.asarray([1, 2], device="cpu:1"),
        anp.asarray(anp.ones(2), "float32", device="cpu:1"),
        anp.asarray([anp.ones(2), anp.zeros(2)], device="cpu:1"),
        anp.zeros(3, device="cpu:1"),
        anp.full(3, [1, 2, 3], device="cpu:1"),
        anp.empty(3, device="cpu:1"),
        anp.arange(3, device="cpu:1"),
        anp.linspace(0, 1, 3, device="cpu:1"),
        anp.eye(3, device="cpu:1"),
    ]
    for array in made:
        assert array.device == "cpu:1"
        results = [
            array + 1,
            anp.zeros_like(array),
            anp.empty_like(array),
            array.sum(),
            array @ array.T,
            array[..., :1],
        ]
        assert {result.device for result in results} == {"cpu:1"}
    assert anp.zeros_like(made[0], device="cpu:0").device == "cpu:0"
    assert np.array_equal(np.asarray(made[2]), np.ones(2, "float32"))


def test_host_data_follows_the_array_it_meets(engine: aj.Engine) -> None:
    x = anp.asarray(HOST, device="cpu:1")
    assert np.array_equal(np.asarray(x + HOST), HOST * 2)
    assert np.array_equal(np.asarray(HOST @ x.T), HOST @ HOST.T)
    assert np.array_equal(np.asarray(x[[2, 0], 1]), HOST[[2, 0], 1])
    x[1] = [9, 8, 7, 6]
    x[[0, 2], 0] = [5, 4]
    x[x < 3] = HOST * 0 + 0.5
    expected = HOST.copy()
    expected[1] = [9, 8, 7, 6]
    expected[[0, 2], 0] = [5, 4]
    expected[expected < 3] = 0.5
    assert np.array_equal(np.asarray(x), expected)


def test_arrays_of_two_devices_do_not_mix_but_numbers_do(engine: aj.Engine) -> None:
    here, there = anp.ones(2), anp.ones(2, device="cpu:1")
    for mixed in (lambda: here + there, lambda: here @ there, lambda: anp.where(here > 0, there, 1)):
        with pytest.raises(DeviceError, match=r"operands on cpu:0 and cpu:1.*to_device"):
            mixed()

    @aj.kernel(writes=("out",))
    def blur(out: Any, src: Any) -> None:
        raise AssertionError("it must not run")

    with pytest.raises(DeviceError, match="operands on cpu:0 and cpu:1"):
        blur(here, there)

    @aj.jit
    def scaled(x: anp.Array, rate: float) -> anp.Array:
        x = x * rate
        x -= rate
        return x

    assert np.asarray(scaled.run(there, 0.5)).tolist() == [0, 0]
    assert scaled.run(there, 0.5).device == "cpu:1"


def test_a_device_that_the_engine_does_not_have_is_named(engine: aj.Engine) -> None:
    x = anp.ones(2)
    for there in (
        lambda: x.to_device("cpu:7"),
        lambda: anp.zeros(2, device="cpu:7"),
        lambda: anp.asarray(1, device="x"),
    ):
        with pytest.raises(DeviceUnavailableError, match=r"no device .*\['cpu:0', 'cpu:1'\]"):
            there()
    with pytest.raises(DeviceUnavailableError, match="no device 'cpu:7'"):
        aj.jit(lambda x: x.to_device("cpu:7")).run(x)
    with pytest.raises(ValueError, match="without a copy"):
        anp.asarray(x, device="cpu:1", copy=False)


def test_where_an_argument_stands_is_part_of_the_signature(engine: aj.Engine) -> None:
    double = aj.jit(lambda x: x * 2)
    here, there = anp.ones(2), anp.ones(2, device="cpu:1")
    assert (double.run(here).device, double.run(there).device) == ("cpu:0", "cpu:1")
    assert len(double.captures) == 2


def test_a_copy_of_nothing_but_state_and_constants_is_right_at_every_replay(engine: aj.Engine) -> None:
    weights = anp.asarray(HOST)
    table = np.arange(4.0)

    @aj.jit
    def step(x: anp.Array) -> anp.Array:
        return x + weights.to_device("cpu:1") * anp.asarray(table).to_device("cpu:1")

    x = anp.zeros((3, 4), device="cpu:1")
    for number in range(3):
        weights[...] = HOST * number
        assert np.array_equal(np.asarray(step.run(x)), HOST * number * table)


def test_state_of_two_devices_is_assigned_and_copied_under_one_ticket(engine: aj.Engine) -> None:
    left, right = anp.zeros(3), anp.zeros(3, device="cpu:1")
    aj.assign({left: anp.ones(3), right: anp.full(3, 2.0, device="cpu:1")})
    copies = aj.snapshot(left, right).result
    left[...] = 5
    values = [np.asarray(copy).tolist() for copy in copies]
    assert values == [[1, 1, 1], [2, 2, 2]]
    assert [copy.device for copy in copies] == ["cpu:0", "cpu:1"]


def test_prune_computes_a_copy_of_weights_once(engine: aj.Engine) -> None:
    weights = anp.asarray(HOST)

    @aj.jit(prune=True)
    def step(x: anp.Array) -> anp.Array:
        return x + (weights * 2).to_device("cpu:1")

    x = anp.ones((3, 4), device="cpu:1")
    for _ in range(3):
        assert np.array_equal(np.asarray(step.run(x)), HOST * 2 + 1)


def test_the_table_of_a_function_shows_copies_on_streams_of_their_own(engine: aj.Engine) -> None:
    @aj.jit
    def step(x: anp.Array) -> anp.Array:
        return (x + 1).to_device("cpu:1") * 2

    step.run(anp.ones(4))
    rows = [line.split() for line in step.explain().splitlines()]
    streams = {row[1]: row[2] for row in rows if row[:1] and row[0].isdigit() and row[1] in ("add", "copy", "multiply")}
    assert sorted(streams) == ["add", "copy", "multiply"]
    assert streams["copy"] != streams["add"]


def test_a_function_over_devices_is_saved_and_loaded(engine: aj.Engine, tmp_path: Path) -> None:
    weights = anp.asarray(HOST, device="cpu:1")

    @aj.jit
    def step(x: anp.Array) -> anp.Array:
        return ((x * 2).to_device("cpu:1") + weights).to_device("cpu:0") - 1

    step.run(anp.asarray(HOST))
    aj.save(tmp_path / "two.aj", step=step)
    loaded = aj.load(tmp_path / "two.aj")["step"]
    assert np.array_equal(np.asarray(loaded.run(anp.asarray(HOST))), HOST * 3 - 1)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_function_over_devices_is_checked_against_its_python_code(loop: str) -> None:
    async def main(engine: aj.Engine) -> None:
        total = anp.zeros(3, device="cpu:1")

        @aj.jit
        def step(x: anp.Array) -> anp.Array:
            total[...] = total + x.to_device("cpu:1")
            return total.to_device("cpu:0") * 2

        assert not (await step.check(anp.ones(3))).differences

    run_in(loop, main)
