"""Random programs over two devices, each run twice: as a captured function, and on NumPy arrays in the caller's thread.

Law: one interpreter for both, so that only engine and devices differ. Integers only: results are equal bit by bit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["DEVICES", "SIZE", "Script", "random_script", "run_script"]

DEVICES = ("sim:0", "sim:1")
SIZE = 6


class Step(NamedTuple):
    what: str
    #: Positions among the values so far, and bounds of a slice of state.
    first: int
    second: int = 0
    bounds: tuple[int, int] = (0, SIZE)


class Script(NamedTuple):
    steps: tuple[Step, ...]
    #: Device of each value; the first is the argument.
    devices: tuple[str, ...]


def random_script(dice: random.Random, length: int = 12) -> Script:
    steps: list[Step] = []
    devices = [dice.choice(DEVICES)]
    while len(steps) < length:
        what = dice.choice(("scale", "mix", "move", "move", "read", "write"))
        first = dice.randrange(len(devices))
        device = devices[first]
        low = dice.randrange(SIZE)
        bounds = (low, dice.randint(low + 1, SIZE))
        if what == "mix":
            second = dice.choice([place for place, each in enumerate(devices) if each == device])
            steps.append(Step(what, first, second))
        else:
            steps.append(Step(what, first, 0, bounds))
        if what != "write":
            devices.append(DEVICES[1 - DEVICES.index(device)] if what == "move" else device)
    return Script(tuple(steps), tuple(devices))


def run_script(
    script: Script, given: Any, state: Mapping[str, Any], move: Callable[[Any, str], Any]
) -> tuple[Any, ...]:
    """The last three values; ``state`` is written in place."""
    values = [given]
    for step in script.steps:
        value, device = values[step.first], script.devices[step.first]
        low, high = step.bounds
        if step.what == "write":
            state[device][low:high] += value[low:high]
        elif step.what == "read":
            values.append(state[device] * 3)
        elif step.what == "scale":
            values.append(value * 5 + low)
        elif step.what == "mix":
            values.append(value - values[step.second] * 2)
        else:
            values.append(move(value, script.devices[len(values)]))
    return tuple(values[-3:])
