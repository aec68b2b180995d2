"""Results of a replay: arrays made of the storages of its outputs, in the structure that the function returned.

Law: putting together only; runs once a replay, when somebody looks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from asyncjit.algebra import Symbol
from asyncjit.capture import Result
from asyncjit.jit.structure import Structure, bare
from asyncjit.numpy import Array
from asyncjit.numpy._handle import array_spec, c_strides
from asyncjit.storage import Storage
from asyncjit.variables import compiled, symbols_in

__all__ = ["SymbolicResults", "assembler"]


class SymbolicResults:
    """The results of a capture with symbols."""

    def __init__(self, build: Structure, results: Sequence[Result]) -> None:
        self._build, self._results = build, results
        tree = tuple((offset, spec.shape, spec.strides) for _, offset, spec in results)
        self._symbols = tuple(symbols_in(tree))
        self._evaluate = compiled(tree, self._symbols)

    def assembler(self, values: Mapping[Symbol, int]) -> Callable[[list[Storage]], Any]:
        """What puts the results of a replay with these values together."""
        if not self._symbols:
            return assembler(self._build, self._results)
        layouts = self._evaluate(*[values[symbol] for symbol in self._symbols])
        known = []
        for (position, _, spec), (offset, shape, strides) in zip(self._results, layouts, strict=True):
            if 0 in shape:
                # The layout that any other empty array of this shape has; no element is anywhere.
                offset, strides = 0, c_strides(shape, spec.itemsize)
            known.append(Result(position, offset, array_spec(shape, strides, spec.dtype, spec.weak, spec.device)))
        return assembler(self._build, known)


def assembler(build: Structure, results: Sequence[Result]) -> Callable[[list[Storage]], Any]:
    """What makes the function's result of the storages of the outputs."""
    make = Array._of
    if len(results) == 1:
        ((position, offset, spec),) = results
        if build is bare:
            return lambda storages: make(storages[position], offset, spec)
        return lambda storages: build((make(storages[position], offset, spec),))
    return lambda storages: build([make(storages[position], offset, spec) for position, offset, spec in results])
