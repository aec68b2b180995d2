"""Steps on the engine's arrays: recorded in a capture, eager outside of one.

Law: what a user would write for each operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asyncjit import numpy as anp
from asyncjit.numpy import Array
from asyncjit.numpy._sharded import _sharded
from asyncjit.random import Generator
from asyncjit.testing.soak.kernels import check, churn, stir

__all__ = ["Arrays"]


class Arrays:
    """An ``Algebra`` of arrays on ``devices``, with the generators that are there."""

    def __init__(self, devices: Sequence[str], generators: Sequence[Generator], dtype: str) -> None:
        self._devices = devices
        self._generators = generators
        self._dtype = dtype

    def combine(self, operation: str, a: Any, b: Any) -> Any:
        return getattr(anp, operation)(a, b)

    def fold(self, operation: str, a: Any, axis: int) -> Any:
        return getattr(a, operation)(axis)

    def store(self, target: Any, value: Any) -> None:
        target[...] = value

    def update(self, operation: str, target: Any, operand: Any) -> None:
        match operation:
            case "add":
                target += operand
            case "subtract":
                target -= operand
            case "multiply":
                target *= operand
            case _:
                target[...] = getattr(anp, operation)(target, operand)

    def stir(self, source: Any, amount: int, delay_us: int, breaks: bool) -> Any:
        out = anp.empty_like(source)
        stir(out, source, amount, delay_us, breaks)
        return out

    def churn(self, target: Any, delay_us: int, breaks: bool) -> None:
        churn(target, delay_us, breaks)

    def check(self, source: Any, breaks: bool) -> Any:
        out = anp.empty_like(source)
        check(out, source, breaks)
        return out

    def draw(self, generator: int, shape: tuple[int, ...]) -> Any:
        drawn = self._generators[generator]
        return drawn.integers(-9, 31, shape) if self._dtype == "int64" else drawn.random(shape)

    def move(self, a: Any, device: int) -> Any:
        return a.to_device(self._devices[device])

    def spread(self, operation: str, a: Any, b: Any, axis: int) -> Any:
        """What is elementwise stays on its shard, also where ``b`` is one array, which is cut to fit."""
        left = anp.shard(a, self._devices, axis)
        right = anp.shard(b, self._devices, axis) if isinstance(b, Array) and operation != "matmul" and axis else b
        return getattr(anp, operation)(left, right).gather(a.device)

    def meet(self, operation: str, a: Any, axis: int) -> Any:
        return getattr(anp.shard(a, self._devices, axis), operation)(axis).gather(a.device)

    def share(self, operation: str, shards: tuple[Any, Any], operand: Any, axis: int) -> None:
        self.update(operation, _sharded(shards, axis), operand)
