"""Soak programs: functions over shared arrays with overlapping views, and the statements that call them.

Law: data, and the one walk over a function's steps that engine and oracle share. Nothing is random here, nothing runs.

All arrays begin as ``bases``: matrices of 4 by 4 elements of one dtype. A **place** is a view of a register; a **body**
is a function: parameters, then the bases that it closes over, then what its steps make. A **source** is where a
statement finds an array: a view of a base, an output of an earlier statement, or host data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

__all__ = [
    "SHAPES",
    "VIEWS",
    "Algebra",
    "Body",
    "DeviceOptions",
    "Place",
    "Program",
    "Source",
    "Statement",
    "Step",
    "run_steps",
    "view_of",
]

EXTENT = 4
Shape = tuple[int, ...]

#: Views of a matrix by name: the key, None for the transpose; and the shape that comes out.
VIEWS: dict[str, tuple[Any, Shape]] = {
    "whole": (..., (4, 4)),
    "transpose": (None, (4, 4)),
    "flipped": (slice(None, None, -1), (4, 4)),
    "top": (slice(None, 2), (2, 4)),
    "bottom": (slice(2, None), (2, 4)),
    "middle": (slice(1, 3), (2, 4)),
    "even rows": (slice(None, None, 2), (2, 4)),
    "left": ((slice(None), slice(None, 2)), (4, 2)),
    "right": ((slice(None), slice(2, None)), (4, 2)),
    "odd columns": ((slice(None), slice(1, None, 2)), (4, 2)),
    "centre": ((slice(1, 3), slice(1, 3)), (2, 2)),
    "corners": ((slice(None, None, 3), slice(None, None, 3)), (2, 2)),
    "row 0": (0, (4,)),
    "row 2": (2, (4,)),
    "row 2 back": ((2, slice(None, None, -1)), (4,)),
    "column 1": ((slice(None), 1), (4,)),
    "column 2": ((slice(None), 2), (4,)),
}

SHAPES: tuple[Shape, ...] = ((4, 4), (2, 4), (4, 2), (4,), (2, 2))

T = TypeVar("T")


def view_of(array: Any, view: str) -> Any:
    """The view of a matrix; of an array of another shape itself."""
    if view == "whole":
        return array
    key = VIEWS[view][0]
    return array.T if key is None else array[key]


@dataclass(frozen=True)
class Place:
    """A view of a register."""

    register: int
    view: str = "whole"


@dataclass(frozen=True)
class Step:
    """One step of a function.

    ``kind``: "new" makes a register of ``operation`` on ``a`` and ``b``; "write" stores that in ``target``; "update"
    does the operation on ``target`` and ``a``, in place; "stir" makes a register by a user's kernel that reads ``a``;
    "churn" has one change ``target``. User's kernels sleep ``delay_us``, and where ``breaks`` fail on some values.
    """

    kind: str
    a: Place
    operation: str = "add"
    b: Place | float = 1
    target: Place | None = None
    delay_us: int = 0
    breaks: bool = False


@dataclass(frozen=True)
class Body:
    """A function to capture. ``state`` are bases that it closes over, ``results`` registers; ``written`` parameters."""

    name: str
    device: int
    parameters: tuple[Shape, ...]
    state: tuple[int, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    shapes: tuple[Shape, ...]
    in_flight_max: int = 2
    on_cancel: str = "shield"

    @property
    def written(self) -> frozenset[int]:
        """Registers that a step writes in place."""
        return frozenset(step.target.register for step in self.steps if step.target is not None)

    @property
    def is_pure(self) -> bool:
        """It writes outputs only."""
        return not any(register < len(self.parameters) + len(self.state) for register in self.written)


@dataclass(frozen=True)
class Source:
    """An array of a statement: ``of`` is "base", "output" (of statement ``index``, number ``part``) or "host"."""

    of: str
    index: int
    part: int = 0
    view: str = "whole"


@dataclass(frozen=True)
class Statement:
    """What the program does next.

    ``kind``: "call" of ``body`` with ``sources``; "eager": one ``step`` on ``sources`` as registers; "assign" of the
    second half of ``sources`` to the first; "snapshot". ``shapes`` are those of its outputs.
    """

    kind: str
    sources: tuple[Source, ...]
    shapes: tuple[Shape, ...] = ()
    body: int = 0
    step: Step | None = None
    device: int = 0
    thread: int = 0


@dataclass(frozen=True)
class DeviceOptions:
    """How one simulated device behaves."""

    seed: int = 0
    streams_max: int = 2
    workers: int | None = None
    hop_s: float = 0.0
    submits_ahead: bool = False
    inline_s_max: float = 0.0
    slow_calls: int = 1
    #: (submission, call) that fail, allocations that find no memory, and when it is lost.
    broken_calls: tuple[tuple[int, int], ...] = ()
    full_allocations: tuple[int, ...] = ()
    lost_at_s: float | None = None


@dataclass(frozen=True)
class Program:
    """A whole soak run, but for the order in which things happen. Base ``i`` is on device ``i % len(devices)``."""

    dtype: str
    bases: int
    devices: tuple[DeviceOptions, ...]
    bodies: tuple[Body, ...]
    statements: tuple[Statement, ...]
    replays_queued_max: int = 10_000
    memory_bytes_max: int | None = None


class Algebra(Protocol[T]):
    """What steps are carried out with."""

    def combine(self, operation: str, a: T, b: T | float) -> T: ...

    def store(self, target: T, value: T) -> None: ...

    def update(self, operation: str, target: T, operand: T) -> None: ...

    def stir(self, source: T, delay_us: int, breaks: bool) -> T: ...

    def churn(self, target: T, delay_us: int, breaks: bool) -> None: ...


def run_steps(steps: Sequence[Step], registers: list[T], algebra: Algebra[T]) -> None:
    """Carry out steps on registers, appending what they make."""

    def at(place: Place) -> T:
        found: T = view_of(registers[place.register], place.view)
        return found

    for step in steps:
        b = at(step.b) if isinstance(step.b, Place) else step.b
        if step.kind == "new":
            registers.append(algebra.combine(step.operation, at(step.a), b))
        elif step.kind == "stir":
            registers.append(algebra.stir(at(step.a), step.delay_us, step.breaks))
        else:
            assert step.target is not None
            if step.kind == "write":
                algebra.store(at(step.target), algebra.combine(step.operation, at(step.a), b))
            elif step.kind == "update":
                algebra.update(step.operation, at(step.target), at(step.a))
            else:
                algebra.churn(at(step.target), step.delay_us, step.breaks)
