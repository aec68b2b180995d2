"""A generation: all arrays, generators and functions of a soak program, as they were made or as they were loaded.

Law: makes them, saves them and loads them; when that happens is for others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncjit as aj
from asyncjit import numpy as anp
from asyncjit.engine import Engine
from asyncjit.errors import ReplayMismatchError
from asyncjit.jit import JitFunction, jit
from asyncjit.numpy import Array
from asyncjit.random import Generator
from asyncjit.testing.soak.arrays import Arrays
from asyncjit.testing.soak.kernels import base_values, generator_state
from asyncjit.testing.soak.program import VARIABLE, VARIABLE_MAX, Body, Program
from asyncjit.testing.soak.walk import run_steps
from asyncjit.variables import Variable

__all__ = ["Generation"]

ROWS_MAX = 6


class Generation:
    """See above. Functions that were not captured when all was saved are recorded anew, over the loaded arrays."""

    def __init__(
        self,
        program: Program,
        devices: Sequence[str],
        bases: Sequence[Array],
        generators: Sequence[Generator],
        loaded: Mapping[str, JitFunction[..., Any]],
    ) -> None:
        self.program = program
        self.devices = devices
        self.bases = bases
        self.generators = generators
        self.algebra = Arrays(devices, generators, program.dtype)
        self.functions = [self._function(body) for body in program.bodies]
        self.loaded = loaded
        self.batched = {
            index: self.functions[index].batched(ROWS_MAX, program.wait_max_s)
            for index, body in enumerate(program.bodies)
            if body.of_rows
        }

    @classmethod
    def first(cls, program: Program, engine: Engine, devices: Sequence[str]) -> Generation:
        """As a program begins. In a block in which ``engine`` is current."""
        bases, generators = [], []
        for index in range(program.bases):
            bases.append(anp.asarray(base_values(program, index), device=devices[index % len(devices)]))
        for index in range(program.generators):
            engine.default_device = devices[index % len(devices)]
            generators.append(Generator(int(generator_state(index)[0])))
        engine.default_device = devices[0]
        return cls(program, devices, bases, generators, {})

    def arrays(self) -> list[Array]:
        """All state."""
        return [*self.bases, *(generator.state for generator in self.generators)]

    def call(self, index: int, arrays: Sequence[Any], n: int) -> Any:
        """Call a function; by what was loaded, where that holds a capture that fits."""
        body = self.program.bodies[index]
        bound = [Variable(VARIABLE, 1, VARIABLE_MAX).bind(n)] if body.has_variable else []
        loaded = self.loaded.get(body.name)
        if loaded is not None:
            try:
                return loaded(*arrays, *bound)
            except ReplayMismatchError:
                # It was captured for other arguments.
                pass
        return self.functions[index](*arrays, *bound)

    def _function(self, body: Body) -> JitFunction[..., Any]:
        state, algebra = [self.bases[index] for index in body.state], self.algebra

        def function(*arguments: Any) -> Any:
            n: Any = 0
            if body.has_variable:
                arguments, n = arguments[:-1], arguments[-1]
            elif len(arguments) == 1 and isinstance(arguments[0], tuple):
                arguments = arguments[0]
            registers = [*arguments, *state]
            run_steps(body.steps, registers, algebra, n)
            return tuple(registers[register] for register in body.results) or None

        function.__name__ = function.__qualname__ = body.name
        return jit(function, in_flight_max=body.in_flight_max, on_cancel=body.on_cancel, prune=body.prune)

    def reloaded(self) -> Generation:
        """The next generation: all of it saved to a file, and loaded from there. Blocks.

        Raises:
            AsyncJitError: an array holds nothing, the engine is full, a device is gone; nothing has changed then.
        """
        things: dict[str, Any] = {f"base {index}": base for index, base in enumerate(self.bases)}
        things |= {f"state {index}": each.state for index, each in enumerate(self.generators)}
        for index, body in enumerate(self.program.bodies):
            function = self.loaded.get(body.name, self.functions[index])
            # Captures that take a variable are not stored, and those of batches are not the function's.
            if function.captures and not body.has_variable and not body.of_rows:
                things[body.name] = function
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "all.aj"
            aj.save(path, **things)
            found = aj.load(path)
        bases = [found.pop(f"base {index}") for index in range(len(self.bases))]
        states = [found.pop(f"state {index}") for index in range(len(self.generators))]
        return Generation(self.program, self.devices, bases, [_generator(state) for state in states], found)


def _generator(state: Array) -> Generator:
    made = object.__new__(Generator)
    object.__setattr__(made, "state", state)
    return made
