"""Order: tickets, and values equal to those of a serial run, whatever completes when."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncjit.devices.sim import SimDevice
from asyncjit.ir import Call, Kernel, Schedule, Slot, SlotKind, new_buffer, operand_of
from asyncjit.replay import Replay
from asyncjit.storage import Storage
from tests.engine.world import BOTH, READ, WRITE, World, double, increment


async def test_tickets_are_taken_at_the_call_and_results_are_those_of_a_serial_run(world: World) -> None:
    state = world.array(1.0)
    add = world.program(increment, [BOTH])
    scale = world.program(lambda array: np.multiply(array, 3.0, out=array), [BOTH])
    read = world.program(double, [READ], outputs=1)
    expected, value, replays = [], 1.0, []
    rolls = random.Random(4)
    for _ in range(200):
        kind = rolls.randrange(3)
        program = (add, scale, read)[kind]
        value = (value + 1.0, value * 3.0 % 1e300, value)[kind]
        replays.append(world.call(program, state))
        if kind == 2:
            expected.append(2.0 * value)
    assert [replay.ticket for replay in replays] == list(range(1, 201))
    results = await asyncio.gather(*rolls.sample(replays, 200))
    assert len(results) == 200
    found = [world.read(replay.outputs[0])[0] for replay in replays if replay.outputs]
    assert found == expected


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ahead", [False, True])
async def test_whatever_the_order_of_completions_values_are_those_of_a_serial_run(
    make_world: Callable[..., World], seed: int, ahead: bool
) -> None:
    loop = asyncio.get_running_loop()
    world = make_world(SimDevice(seed=seed, defer=loop.call_soon, submits_ahead=ahead))
    rolls = random.Random(seed)
    arrays = [world.array(float(index)) for index in range(3)]
    model = [[float(index)] * world.size for index in range(3)]

    def add(source: np.ndarray, target: np.ndarray) -> None:
        target += source

    awaited: list[tuple[Replay[Any], list[float]]] = []
    for _ in range(60):
        first, last = sorted(rolls.sample(range(world.size + 1), 2))
        source, target = rolls.sample(range(3), 2)
        if rolls.random() < 0.5:
            program = world.program(add, [READ, BOTH], parts={0: (first, last), 1: (first, last)})
            world.call(program, arrays[source], arrays[target])
            for index in range(first, last):
                model[target][index] += model[source][index]
        else:
            program = world.program(double, [READ], outputs=1)
            awaited.append((world.call(program, arrays[source]), [2.0 * value for value in model[source]]))
    for replay, expected in awaited:
        (output,) = await replay
        assert world.read(output) == expected
    for array, values in zip(arrays, model, strict=True):
        await array
        assert world.read(array) == values


def mix(first: np.ndarray, second: np.ndarray, target: np.ndarray) -> None:
    np.add(first, second, out=target)
    np.remainder(target, 97.0, out=target)


class Mixture:
    """A random program over ``arrays`` input slots and as many intermediates, and the same in plain lists."""

    def __init__(self, rolls: random.Random, world: World, arrays: int) -> None:
        device = world.engine.default_device
        buffers = [new_buffer(device, 8 * world.size) for _ in range(2 * arrays)]
        self._world, self._steps, calls = world, [], []
        known = list(range(arrays))
        for _ in range(rolls.randint(2, 7)):
            first, second, target = rolls.choice(known), rolls.choice(known), rolls.randrange(2 * arrays)
            if target not in known:
                known.append(target)
            self._steps.append((first, second, target))
            operands = [operand_of(buffers[i], (world.size,), (8,), "float64", 8) for i in (first, second, target)]
            calls.append(Call(Kernel("mix", (READ, READ, WRITE), (), mix), tuple(operands)))
        used = {index for step in self._steps for index in step}
        self._slots = [index for index in range(arrays) if index in used]
        slots = tuple(Slot(SlotKind.INPUT, buffers[index]) for index in self._slots)
        self.program = world.engine.load(Schedule(tuple(calls), slots, "mixture"), {}, {}, lowering=False)
        self.program.lowered = False
        world.engine.lower(self.program)

    def call(self, arrays: list[Storage], model: list[float]) -> None:
        self._world.call(self.program, *(arrays[index] for index in self._slots))
        values = model + [0.0] * len(model)
        for first, second, target in self._steps:
            values[target] = (values[first] + values[second]) % 97.0
        model[:] = values[: len(model)]


@pytest.mark.parametrize("seed", range(30))
async def test_plans_of_several_streams_keep_the_order_of_calls_across_replays(
    make_world: Callable[..., World], seed: int
) -> None:
    loop, rolls = asyncio.get_running_loop(), random.Random(seed)
    durations = random.Random(seed + 1)
    device = SimDevice(
        seed=seed,
        streams_max=3,
        defer=loop.call_soon,
        submits_ahead=bool(seed % 2),
        duration=lambda call: durations.choice((0.1, 1.0, 5.0)),
    )
    world = make_world(device)
    model = [float(rolls.randrange(97)) for _ in range(4)]
    arrays = [world.array(value) for value in model]
    mixtures = [Mixture(rolls, world, 4) for _ in range(4)]
    for _ in range(25):
        rolls.choice(mixtures).call(arrays, model)
    for array, value in zip(arrays, model, strict=True):
        await array
        assert world.read(array) == [value] * world.size
