"""The one walk over a function's steps, which engine and oracle share.

Law: which operation on which registers, in which order; what an operation does is the algebra's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from asyncjit.testing.soak.program import VARIABLE, Place, Step, view_of

__all__ = ["Algebra", "run_steps"]

T = TypeVar("T")


class Algebra(Protocol[T]):
    """What steps are carried out with. Numbers may be symbolic where a variable is."""

    def combine(self, operation: str, a: T, b: T | float) -> T: ...

    def fold(self, operation: str, a: T, axis: int) -> T: ...

    def store(self, target: T, value: T) -> None: ...

    def update(self, operation: str, target: T, operand: T) -> None: ...

    def stir(self, source: T, amount: int, delay_us: int, breaks: bool) -> T: ...

    def churn(self, target: T, delay_us: int, breaks: bool) -> None: ...

    def check(self, source: T, breaks: bool) -> T: ...

    def draw(self, generator: int, shape: tuple[int, ...]) -> T: ...

    def move(self, a: T, device: int) -> T: ...

    def spread(self, operation: str, a: T, b: T | float, axis: int) -> T: ...

    def meet(self, operation: str, a: T, axis: int) -> T: ...

    def share(self, operation: str, shards: tuple[T, T], operand: T, axis: int) -> None: ...


def run_steps(steps: Sequence[Step], registers: list[T], algebra: Algebra[T], n: Any = 0) -> None:
    """Carry out steps on registers, appending what they make; ``n`` is the value of the variable."""

    def at(place: Place | None) -> T:
        assert place is not None
        found: T = view_of(registers[place.register], place.view, n)
        return found

    for step in steps:
        b: Any = n if step.b == VARIABLE else at(step.b) if isinstance(step.b, Place) else step.b
        match step.kind:
            case "new":
                registers.append(algebra.combine(step.operation, at(step.a), b))
            case "fold":
                registers.append(algebra.fold(step.operation, at(step.a), step.axis))
            case "stir":
                registers.append(algebra.stir(at(step.a), n + 1, step.delay_us, step.breaks))
            case "check":
                registers.append(algebra.check(at(step.a), step.breaks))
            case "draw":
                registers.append(algebra.draw(step.generator, step.shape))
            case "move":
                registers.append(algebra.move(at(step.a), step.device))
            case "spread":
                registers.append(algebra.spread(step.operation, at(step.a), b, step.axis))
            case "meet":
                registers.append(algebra.meet(step.operation, at(step.a), step.axis))
            case "write":
                algebra.store(at(step.target), algebra.combine(step.operation, at(step.a), b))
            case "update":
                algebra.update(step.operation, at(step.target), at(step.a))
            case "churn":
                algebra.churn(at(step.target), step.delay_us, step.breaks)
            case "share":
                algebra.share(step.operation, (at(step.target), at(step.other)), at(step.a), step.axis)
            case _:
                raise AssertionError(f"no rule for {step}")
