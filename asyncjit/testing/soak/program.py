"""Soak programs: functions over shared arrays with overlapping views, and the statements that call them.

Law: data; nothing is random here, nothing runs. How a function's steps are walked is in ``walk``.

All state begins as ``bases``: matrices of 4 by 4 elements of one dtype, and as random generators. A **place** is a view
of a register; a **body** is a function: parameters, then the bases that it closes over, then what its steps make. A
**source** is where a statement finds an array: a view of a base, an output of an earlier statement, or host data.

A body may take a **variable**: an integer from 1 to 3 that has a value in each call. Views and shapes follow from it;
its name stands for it in shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "EXTENT",
    "SHAPES",
    "VARIABLE",
    "VARIABLE_MAX",
    "VIEWS",
    "Body",
    "DeviceOptions",
    "Flow",
    "Place",
    "Program",
    "Shape",
    "Source",
    "Statement",
    "Step",
    "View",
    "shape_at",
    "view_of",
]

EXTENT = 4
VARIABLE, VARIABLE_MAX = "n", 3

#: Extents are numbers, "n", or "4-n".
Shape = tuple[int | str, ...]


@dataclass(frozen=True)
class View:
    """A view of a matrix: the key that makes it of the variable, the shape that comes out, and whether that follows
    from the variable."""

    key: Callable[[Any], Any]
    shape: Shape
    is_symbolic: bool = False


#: The transpose has no key.
TRANSPOSE = View(lambda n: None, (4, 4))

VIEWS: dict[str, View] = {
    "whole": View(lambda n: ..., (4, 4)),
    "transpose": TRANSPOSE,
    "flipped": View(lambda n: slice(None, None, -1), (4, 4)),
    "top": View(lambda n: slice(None, 2), (2, 4)),
    "bottom": View(lambda n: slice(2, None), (2, 4)),
    "middle": View(lambda n: slice(1, 3), (2, 4)),
    "even rows": View(lambda n: slice(None, None, 2), (2, 4)),
    "left": View(lambda n: (slice(None), slice(None, 2)), (4, 2)),
    "right": View(lambda n: (slice(None), slice(2, None)), (4, 2)),
    "odd columns": View(lambda n: (slice(None), slice(1, None, 2)), (4, 2)),
    "centre": View(lambda n: (slice(1, 3), slice(1, 3)), (2, 2)),
    "corners": View(lambda n: (slice(None, None, 3), slice(None, None, 3)), (2, 2)),
    "row 0": View(lambda n: 0, (4,)),
    "row 2": View(lambda n: 2, (4,)),
    "row 2 back": View(lambda n: (2, slice(None, None, -1)), (4,)),
    "column 1": View(lambda n: (slice(None), 1), (4,)),
    "column 2": View(lambda n: (slice(None), 2), (4,)),
    "row n": View(lambda n: n, (4,), True),
    "column n": View(lambda n: (slice(None), n), (4,), True),
    "rows around n": View(lambda n: slice(n - 1, n + 1), (2, 4), True),
    "rows before n": View(lambda n: slice(None, n), (VARIABLE, 4), True),
    "rows from n": View(lambda n: slice(n, None), (f"4-{VARIABLE}", 4), True),
    "columns before n": View(lambda n: (slice(None), slice(None, n)), (4, VARIABLE), True),
}

SHAPES: tuple[Shape, ...] = ((4, 4), (2, 4), (4, 2), (4,), (2, 2))


def shape_at(shape: Shape, n: int) -> tuple[int, ...]:
    """The shape where the variable is ``n``."""
    extents: dict[str, int] = {VARIABLE: n, f"4-{VARIABLE}": EXTENT - n}
    return tuple(extents[each] if isinstance(each, str) else each for each in shape)


def view_of(array: Any, view: str, n: Any = 0) -> Any:
    """The view of a matrix; of an array of another shape itself."""
    if view == "whole":
        return array
    return array.T if view == "transpose" else array[VIEWS[view].key(n)]


@dataclass(frozen=True)
class Place:
    """A view of a register."""

    register: int
    view: str = "whole"


@dataclass(frozen=True)
class Step:
    """One step of a function.

    ``kind``: "new" makes a register of ``operation`` on ``a`` and ``b``; "write" stores that in ``target``; "update"
    does the operation on ``target`` and ``a``, in place; "fold" reduces ``a`` along ``axis``; "stir" makes a register
    by a user's kernel that reads ``a``, "churn" has one change ``target``, "check" has one copy rows; "draw" takes
    numbers of ``shape`` from ``generator``; "move" copies ``a`` to ``device``. Over all devices, along ``axis``:
    "spread" does the operation in shards and gathers, "meet" is a fold in which shards meet, "share" does the operation
    in place on an array whose shards are ``target`` and ``other``.

    User's kernels sleep ``delay_us``, and where ``breaks`` fail on some values. ``b`` may be a number, or the variable.
    """

    kind: str
    a: Place = Place(0)
    operation: str = "add"
    b: Place | float | str = 1
    target: Place | None = None
    delay_us: int = 0
    breaks: bool = False
    axis: int = 0
    other: Place | None = None
    device: int = 0
    generator: int = 0
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Body:
    """A function to capture.

    ``state`` are bases that it closes over, ``results`` registers; ``shapes`` and ``devices`` are those of all
    registers. ``device`` is where host data of its calls goes. A function ``of_rows`` is for ``batched``: its
    variable is the number of rows, which follows from the argument.
    """

    name: str
    device: int
    parameters: tuple[Shape, ...]
    state: tuple[int, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    shapes: tuple[Shape, ...]
    devices: tuple[int, ...]
    has_variable: bool = False
    of_rows: bool = False
    in_flight_max: int = 2
    on_cancel: str = "shield"
    prune: bool = False

    @property
    def written(self) -> frozenset[int]:
        """Registers that a step writes in place."""
        targets = [place for step in self.steps for place in (step.target, step.other)]
        return frozenset(place.register for place in targets if place is not None)

    @property
    def is_pure(self) -> bool:
        """It writes outputs only."""
        outside = len(self.parameters) + len(self.state)
        return not any(register < outside for register in self.written) and not self.draws

    @property
    def draws(self) -> frozenset[int]:
        """Generators that it moves on."""
        return frozenset(step.generator for step in self.steps if step.kind == "draw")

    @property
    def reach(self) -> frozenset[int]:
        """Devices that a call may run on."""
        over_all = any(step.kind in ("spread", "meet", "share") for step in self.steps)
        return frozenset((*self.devices, self.device, *((0, 1) if over_all else ())))


@dataclass(frozen=True)
class Source:
    """An array of a statement.

    ``of`` is "base", "output" (of statement ``index``, number ``part``), "host" (by the number ``index``), "rows" (of
    statement ``index``), or "generator" (its state). Of bases and generators ``part`` counts how often all was loaded
    anew; it is 0 in a program, which speaks of what is there at the time.
    """

    of: str
    index: int
    part: int = 0
    view: str = "whole"


@dataclass(frozen=True)
class Flow:
    """How a statement has others made for it: items through ``bodies``, by "pipeline" or by "map" of one of them.

    With ``prefetched`` items come through a prefetch that reads so many ahead. The consumer leaves after
    ``leaves_after`` outputs. ``pauses``: behind each body of a pipeline stands an async function that lets the loop
    turn.
    """

    bodies: tuple[int, ...]
    items: int
    in_flight: int = 1
    prefetched: int = 0
    leaves_after: int | None = None
    returns_errors: bool = False
    pauses: bool = False


@dataclass(frozen=True)
class Statement:
    """What the program does next.

    ``kind``: "call" of ``body`` with ``sources``; "eager": one ``step`` on ``sources`` as registers; "assign" of the
    second half of ``sources`` to the first; "snapshot"; "seed" begins a generator anew; "settle" waits until nothing is
    under way; "flow" has those of the statements behind it made whose ``by`` is its place; "rows" calls a batched body
    with ``n`` rows; "reload" saves all and goes on with what is loaded; "close" closes the engine, with time for what
    was taken where ``n`` is 0.
    ``shapes`` and ``devices`` are those of its outputs.
    """

    kind: str
    sources: tuple[Source, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    devices: tuple[int, ...] = ()
    body: int = 0
    step: Step | None = None
    device: int = 0
    thread: int = 0
    n: int = 0
    by: int | None = None
    flow: Flow | None = None


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
    """A whole soak run, but for the order in which things happen.

    Base ``i`` is on device ``i % len(devices)``, and so is generator ``i``. ``wait_max_s`` is of batched functions.
    """

    dtype: str
    bases: int
    devices: tuple[DeviceOptions, ...]
    bodies: tuple[Body, ...]
    statements: tuple[Statement, ...]
    generators: int = 0
    replays_queued_max: int = 10_000
    memory_bytes_max: int | None = None
    wait_max_s: float = 1e9
