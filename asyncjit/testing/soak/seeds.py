"""Soak runs by seed: one, or as many as there is time for, and what to do with one that failed.

Law: runs and reports; decides nothing.
"""

from __future__ import annotations

from collections import Counter

import anyio

from asyncjit.testing.soak.choices import Choices, SeededChoices
from asyncjit.testing.soak.generate import generate_program
from asyncjit.testing.soak.play import Play

__all__ = ["play_choices", "play_seed"]

#: Lines at the end of a trace that a failure shows.
TRACE_LINES = 60


def play_choices(
    choices: Choices, *, backend: str = "asyncio", verifies: bool = True, length_max: int = 14
) -> Counter[str]:
    """Make a program, play it and judge it; returns how many statements ended how.

    Raises:
        AssertionError, InternalError: something is not as in the serial run, or an invariant does not hold; a note to
            the error holds the program and what happened.
    """
    program = generate_program(choices, length_max=length_max)
    play = Play(program, choices, verifies=verifies)
    try:
        anyio.run(play.run, backend=backend)
        play.finish()
    except BaseException as error:
        error.add_note("\n".join([*describe(program), "what happened:", *map(str, play.lines[-TRACE_LINES:])]))
        raise
    return Counter(play.oracle.outcomes)


def describe(program: object) -> list[str]:
    """The program, a line for each part."""
    return [f"{name}: {value}" for name, value in vars(program).items()]


def play_seed(seed: int, *, backend: str = "asyncio", verifies: bool = True) -> Counter[str]:
    """One soak run, decided by ``seed``. See ``play_choices``; the note also says how to replay it alone."""
    choices = SeededChoices(seed)
    try:
        return play_choices(choices, backend=backend, verifies=verifies)
    except BaseException as error:
        error.add_note(f"choices: {choices.taken}")
        loop = "" if backend == "asyncio" else f" --backend {backend}"
        error.add_note(f"replay it alone: python -m asyncjit.testing soak --first {seed} --seeds 1{loop}")
        raise
