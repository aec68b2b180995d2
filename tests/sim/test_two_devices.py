"""Captured functions over two simulated devices: any order that the seeds draw equals the serial run."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.devices._faults import CallFault, LossFault
from asyncjit.errors import AsyncJitError, DependencyError, DeviceLostError, KernelError
from asyncjit.testing import VirtualTime
from tests.sim.scripts import DEVICES, SIZE, Script, random_script, run_script

SEEDS = range(50)
CALLS = 10


def fresh_state() -> dict[str, np.ndarray]:
    return {device: np.arange(SIZE) + index for index, device in enumerate(DEVICES)}


class Oracle:
    """The serial run."""

    def __init__(self) -> None:
        self.state = fresh_state()

    def call(self, script: Script, given: np.ndarray) -> tuple[np.ndarray, ...]:
        return run_script(script, given, self.state, lambda value, device: value.copy())


def function_of(script: Script, state: dict[str, Any], **options: Any) -> Any:
    def step(given: Any) -> Any:
        return run_script(script, given, state, lambda value, device: value.to_device(device))

    return aj.jit(step, **options)


def open_engine(time: VirtualTime, seed: int, **options: Any) -> aj.Engine:
    devices = [
        time.device(name, seed=seed + index, hop_s=0.25 * (seed % 3), **options.get(name, {}))
        for index, name in enumerate(DEVICES)
    ]
    return aj.Engine(devices, clock=time.clock)


async def compare(time: VirtualTime, seed: int) -> int:
    """Run the same calls both ways; returns how many replays were under way together, at most."""
    dice = random.Random(seed)
    oracle = Oracle()
    async with open_engine(time, seed) as engine:
        state = {device: anp.asarray(host, device=device) for device, host in fresh_state().items()}
        scripts = [random_script(dice) for _ in range(3)]
        functions = [function_of(script, state, in_flight_max=dice.choice((1, 2, 4))) for script in scripts]
        # Values that stand on a device, on either side.
        known: list[tuple[str, Any, np.ndarray]] = []
        for device in DEVICES:
            host = np.array([dice.randrange(100) for _ in range(SIZE)])
            known.append((device, anp.asarray(host, device=device), host))
        for _ in range(CALLS):
            script, function = dice.choice(list(zip(scripts, functions, strict=True)))
            _, array, host = dice.choice([each for each in known if each[0] == script.devices[0]])
            replay = function(array)
            expected = oracle.call(script, host)
            if dice.random() < 0.3:
                await replay
            known += [(result.device, result, value) for result, value in zip(replay.result, expected, strict=True)]
        for device, array, host in known:
            await array
            assert array.device == device
            assert np.array_equal(np.asarray(array), host), f"seed {seed}"
        for device, array in state.items():
            await array
            assert np.array_equal(np.asarray(array), oracle.state[device]), f"seed {seed}, state on {device}"
        peak = engine.statistics().in_flight_peak
    engine._scheduler.verify()
    return peak


def test_any_order_of_two_devices_equals_the_serial_run() -> None:
    peaks = []
    for seed in SEEDS:
        time = VirtualTime()
        peaks.append(time.run(compare(time, seed)))
    assert max(peaks) > 2, "nothing overlapped, so nothing was shown"


@pytest.mark.parametrize("seed", range(12))
def test_a_lost_device_takes_along_what_is_on_both_and_leaves_the_other_usable(seed: int) -> None:
    time = VirtualTime()

    async def main() -> None:
        dice = random.Random(seed)
        faults = {"sim:1": {"faults": [LossFault(at_s=2.0 + seed)]}}
        async with open_engine(time, seed, **faults):
            state = {device: anp.asarray(host, device=device) for device, host in fresh_state().items()}
            scripts = [random_script(dice) for _ in range(3)]
            given = {device: anp.asarray(np.arange(SIZE), device=device) for device in DEVICES}
            replays = [
                function_of(script, state)(given[script.devices[0]]) for script in dice.choices(scripts, k=CALLS)
            ]
            errors = []
            for replay in replays:
                try:
                    await replay
                except AsyncJitError as error:
                    errors.append(error)
            assert errors, "it was lost too late for this test"
            for error in errors:
                cause = error.__cause__ if isinstance(error, DependencyError) else error
                assert isinstance(cause, DeviceLostError)
            state["sim:0"][...] = 7
            await state["sim:0"]
            assert np.asarray(state["sim:0"]).tolist() == [7] * SIZE
            with pytest.raises((DeviceLostError, DependencyError)):
                await given["sim:0"].to_device("sim:1")

    time.run(main())


def test_a_call_that_fails_is_named_by_its_place_in_the_whole_and_what_follows_is_passed_over() -> None:
    time = VirtualTime()

    async def main() -> None:
        faults = {"sim:1": {"faults": [CallFault(0, 1, ZeroDivisionError("on purpose"))]}}
        async with open_engine(time, 1, **faults) as engine:

            @aj.jit
            def step(x: anp.Array) -> anp.Array:
                there = (x + 1).to_device("sim:1") * 2
                return there.to_device("sim:0") + 3

            with pytest.raises(KernelError) as failure:
                await step(anp.asarray(np.arange(4)))
            assert failure.value.call_index == 2
            assert failure.value.kernel == "multiply"
            assert engine.statistics().failed == 1
            device = engine.device("sim:0")
            kinds = [entry.kind for entry in device.trace]  # type: ignore[attr-defined]
            assert kinds.count("segment skipped") == 1

    time.run(main())
