"""Random numbers that captured functions may draw: generators whose state is an array.

Law: names only; see ``_generator``.

A draw reads the generator's state and moves it on, as any operation writes state: draws from one generator happen in
ticket order, whatever runs at the same time, and each replay of a captured function draws new numbers. The same seed
and the same draws in the same order give the same numbers, captured or not. Draws from different generators do not wait
for each other.
"""

from __future__ import annotations

from asyncjit.random._generator import (
    Generator,
    bernoulli,
    default_generator,
    integers,
    normal,
    permutation,
    seed,
    uniform,
)

__all__ = [
    "Generator",
    "bernoulli",
    "default_generator",
    "integers",
    "normal",
    "permutation",
    "seed",
    "uniform",
]
