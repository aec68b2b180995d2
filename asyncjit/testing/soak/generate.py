"""Random soak programs.

Law: every question goes to ``choices``; whatever is asked, the answer 0 makes the plainer program. Functions are made
in ``bodies``, statements in ``statements``.
"""

from __future__ import annotations

from asyncjit.testing.soak.bodies import Bodies
from asyncjit.testing.soak.choices import Choices
from asyncjit.testing.soak.program import DeviceOptions, Program
from asyncjit.testing.soak.statements import Statements
from asyncjit.testing.soak.themes import THEMES

__all__ = ["generate_program"]


def generate_program(choices: Choices, *, threads: int = 0, length_max: int = 14) -> Program:
    """A program of about ``length_max`` statements at most; with ``threads``, for so many threads on real devices."""
    choose = choices.choose
    theme = THEMES[choose(len(THEMES))]
    is_float = choose(4) == 1
    devices = 1 + (choose(4) >= 4 - theme.two_devices)
    bases = devices * (1 + choose(2 if theme.crowded else 3))
    generators = choose(3) if theme.draws < 4 else devices * (1 + choose(2))
    bodies = Bodies(
        choose, theme, is_float=is_float, devices=devices, bases=bases, generators=generators, threads=threads
    )
    is_disturbed = bool(choose(2))
    options = tuple(_device(choices, is_disturbed) for _ in range(devices))
    statements = Statements(bodies, [bodies.body(index) for index in range(1 + choose(3))])
    for _ in range(2 + choose(length_max - 1)):
        statements.add()
    tight = is_disturbed and choose(3) == 1
    return Program(
        "float64" if is_float else "int64",
        bases,
        options,
        tuple(statements.bodies),
        tuple(statements.made),
        generators,
        replays_queued_max=1 + choose(3) if tight else 10_000,
        memory_bytes_max=(4 + choose(20)) * 256 if is_disturbed and choose(6) == 1 else None,
        wait_max_s=0.0 if choose(2) else 1e9,
    )


def _device(choices: Choices, is_disturbed: bool) -> DeviceOptions:
    choose = choices.choose
    broken: tuple[tuple[int, int], ...] = ()
    if is_disturbed and choose(2):
        broken = tuple((choose(12), choose(4)) for _ in range(1 + choose(2)))
    return DeviceOptions(
        seed=choose(1 << 16),
        streams_max=1 + choose(3),
        workers=(None, 1, 2)[choose(3)],
        hop_s=(0.0, 0.5)[choose(2)],
        submits_ahead=choose(3) == 1,
        inline_s_max=1e9 if choose(4) == 1 else 0.0,
        slow_calls=1 + choose(4),
        broken_calls=broken,
        full_allocations=(5 + choose(30),) if is_disturbed and choose(8) == 1 else (),
        lost_at_s=float(choose(40)) if is_disturbed and choose(8) == 1 else None,
    )
