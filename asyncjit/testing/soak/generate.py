"""Random soak programs.

Law: every question goes to ``choices``; whatever is asked, the answer 0 makes the plainer program.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from asyncjit.testing.soak.choices import Choices
from asyncjit.testing.soak.program import (
    SHAPES,
    VIEWS,
    Body,
    DeviceOptions,
    Place,
    Program,
    Shape,
    Source,
    Statement,
    Step,
)

__all__ = ["generate_program"]

OPERATIONS = ("add", "subtract", "maximum", "minimum", "multiply", "matmul")

#: Of floats only operations whose result does not depend on how elements lie in memory, and stays finite.
FLOAT_OPERATIONS = OPERATIONS[:4]


def generate_program(choices: Choices, *, threads: int = 0, length_max: int = 14) -> Program:
    """A program of at most ``length_max`` statements; with ``threads``, for so many threads on real devices."""
    return _Generator(choices, threads).program(length_max)


@dataclass
class _Registers:
    """Shapes of the registers of a function that is being made."""

    shapes: list[Shape]
    written: set[int] = field(default_factory=set)

    def places(self, shape: Shape) -> list[Place]:
        """All places of a shape."""
        found = [Place(i) for i, mine in enumerate(self.shapes) if mine == shape]
        for name, (_, out) in VIEWS.items():
            if name != "whole" and out == shape:
                found += [Place(i, name) for i, mine in enumerate(self.shapes) if mine == (4, 4)]
        return found


class _Generator:
    def __init__(self, choices: Choices, threads: int) -> None:
        self.choose = choices.choose
        self.threads = threads
        self.is_float = bool(self.choose(4) == 1)
        self.device_count = 1 if threads else 1 + (self.choose(3) == 2)
        self.bases = self.device_count * (1 + self.choose(3))
        self.bodies: list[Body] = []
        self.statements: list[Statement] = []

    def program(self, length_max: int) -> Program:
        is_disturbed = bool(self.choose(3))
        devices = tuple(self.device(is_disturbed) for _ in range(self.device_count))
        self.bodies = [self.body(index) for index in range(1 + self.choose(3))]
        for _ in range(2 + self.choose(length_max - 1)):
            self.statement()
        tight = is_disturbed and self.choose(3) == 1
        return Program(
            "float64" if self.is_float else "int64",
            self.bases,
            devices,
            tuple(self.bodies),
            tuple(self.statements),
            replays_queued_max=1 + self.choose(3) if tight else 10_000,
            memory_bytes_max=(4 + self.choose(20)) * 256 if is_disturbed and self.choose(6) == 1 else None,
        )

    def device(self, is_disturbed: bool) -> DeviceOptions:
        choose = self.choose
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
            full_allocations=(3 + choose(30),) if is_disturbed and choose(8) == 1 else (),
            lost_at_s=float(choose(40)) if is_disturbed and choose(8) == 1 else None,
        )

    # Functions.

    def bases_of(self, device: int) -> range:
        return range(device, self.bases, self.device_count)

    def body(self, index: int) -> Body:
        choose = self.choose
        device = choose(self.device_count)
        mine = self.bases_of(device)
        parameters = tuple(SHAPES[choose(len(SHAPES))] for _ in range(1 + choose(2)))
        state = tuple(dict.fromkeys(mine[choose(len(mine))] for _ in range(choose(3))))
        registers = _Registers([*parameters, *((4, 4) for _ in state)])
        steps = tuple(self.step(registers) for _ in range(1 + choose(5)))
        results = tuple(dict.fromkeys(choose(len(registers.shapes)) for _ in range(choose(3))))
        if not results and not any(register < len(parameters) + len(state) for register in registers.written):
            results = (len(registers.shapes) - 1,)
        return Body(
            f"f{index}",
            device,
            parameters,
            state,
            steps,
            results,
            tuple(registers.shapes),
            in_flight_max=1 + choose(3),
            on_cancel=("shield", "abandon")[choose(4) == 1],
        )

    def step(self, registers: _Registers, *, eager: str | None = None) -> Step:
        """A step on registers, whose shapes are brought up to date."""
        choose = self.choose
        kind = eager or ("new", "write", "update", "new", "stir", "churn")[choose(6)]
        register = choose(len(registers.shapes))
        shape = registers.shapes[register]
        places = registers.places(shape if choose(2) else SHAPES[choose(len(SHAPES))]) or registers.places(shape)
        a = places[choose(len(places))]
        shape = registers.shapes[a.register] if a.view == "whole" else VIEWS[a.view][1]
        delay_us = choose(300) if self.threads and choose(2) else 0
        breaks = choose(3) == 1
        if kind == "stir":
            registers.shapes.append(shape)
            return Step(kind, a, delay_us=delay_us, breaks=breaks)
        if kind == "churn":
            registers.written.add(a.register)
            return Step(kind, a, target=a, delay_us=delay_us, breaks=breaks)
        operations = FLOAT_OPERATIONS if self.is_float else OPERATIONS
        operation = operations[choose(len(operations))]
        if operation == "matmul" and (shape != (4, 4) or kind == "update"):
            operation = "add"
        same = registers.places(shape)
        b: Place | float = same[choose(len(same))] if operation == "matmul" or choose(3) else 2 + choose(5)
        if kind == "new":
            registers.shapes.append(shape)
            return Step(kind, a, operation, b)
        target = same[choose(len(same))]
        registers.written.add(target.register)
        return Step(kind, a, operation, b, target)

    # Statements.

    def statement(self) -> None:
        choose = self.choose
        thread = choose(self.threads) if self.threads else 0
        kind = ("call", "call", "call", "call", "eager", "assign", "snapshot", "pipeline")[choose(8)]
        if kind == "call":
            self.call(choose(len(self.bodies)), thread)
        elif kind == "pipeline":
            stages = [choose(len(self.bodies)) for _ in range(2)]
            for _ in range(1 + choose(3)):
                for stage in stages:
                    self.call(stage, thread)
        else:
            device = choose(self.device_count)
            made = {"eager": self.eager, "assign": self.assign, "snapshot": self.snapshot}[kind](device, thread)
            self.statements.append(made)

    def call(self, index: int, thread: int) -> None:
        body = self.bodies[index]
        sources = tuple(
            self.source(body.device, shape, thread, is_written=position in body.written)
            for position, shape in enumerate(body.parameters)
        )
        shapes = tuple(body.shapes[register] for register in body.results)
        self.statements.append(Statement("call", sources, shapes, index, device=body.device, thread=thread))

    def source(self, device: int, shape: Shape, thread: int, *, is_written: bool, takes_host: bool = True) -> Source:
        """An array of that shape. Threads write into no output, so that what they read of one needs no ticket."""
        choose = self.choose
        views = [name for name, (_, out) in VIEWS.items() if out == shape]
        mine = self.bases_of(device)
        base = Source("base", mine[choose(len(mine))], 0, views[choose(len(views))])
        outputs = [
            Source("output", index, part, view)
            for index, statement in enumerate(self.statements[-4:], max(0, len(self.statements) - 4))
            if statement.device == device and statement.thread == thread
            for part, made in enumerate(statement.shapes)
            for view in (views if made == (4, 4) else ["whole"] if made == shape else [])
        ]
        how = choose(4)
        if how in (1, 2) and outputs and not (is_written and self.threads):
            return outputs[choose(len(outputs))]
        if how == 3 and takes_host and not is_written and choose(2):
            return Source("host", choose(100), 0, views[0])
        return base

    def eager(self, device: int, thread: int) -> Statement:
        choose = self.choose
        kind = ("new", "update", "write", "churn")[choose(4)]
        if self.threads and kind == "write":
            kind = "update"
        shape = SHAPES[choose(len(SHAPES))]
        sources = tuple(self.source(device, shape, thread, is_written=kind != "new") for _ in range(2))
        if self.threads and sources[0].index == sources[1].index:
            # In place between views that may overlap it takes two tickets.
            kind = "new"
        operations = FLOAT_OPERATIONS if self.is_float else OPERATIONS[:5]
        # Between threads each statement has to be one replay; in place only the first two are.
        operation = operations[choose(2 if self.threads else len(operations))]
        step = Step(kind, Place(1), operation, 2 + choose(5) if kind == "write" else Place(0), Place(0))
        shapes = (shape,) if kind == "new" else ()
        return Statement("eager", sources, shapes, step=step, device=device, thread=thread)

    def assign(self, device: int, thread: int) -> Statement:
        shapes = [SHAPES[self.choose(len(SHAPES))] for _ in range(1 + self.choose(2))]
        targets = [self.source(device, shape, thread, is_written=True) for shape in shapes]
        values = [self.source(device, shape, thread, is_written=False) for shape in shapes]
        # One target twice is one key of the dictionary, with the last of its values.
        pairs = dict(zip(targets, values, strict=True))
        return Statement("assign", (*pairs, *pairs.values()), device=device, thread=thread)

    def snapshot(self, device: int, thread: int) -> Statement:
        shapes = tuple(SHAPES[self.choose(len(SHAPES))] for _ in range(1 + self.choose(2)))
        sources = tuple(self.source(device, shape, thread, is_written=False, takes_host=False) for shape in shapes)
        return Statement("snapshot", sources, shapes, device=device, thread=thread)
