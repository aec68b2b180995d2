"""Random functions of soak programs.

Law: every question goes to ``choose``; whatever is asked, the answer 0 makes the plainer function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from asyncjit.testing.soak.program import SHAPES, VARIABLE, VIEWS, Body, Place, Shape, Step, shape_at
from asyncjit.testing.soak.themes import Theme

__all__ = ["FLOAT_OPERATIONS", "OPERATIONS", "Bodies"]

OPERATIONS = ("add", "subtract", "maximum", "minimum", "multiply", "matmul")

#: Of floats only operations whose result does not depend on how elements lie in memory, and stays finite.
FLOAT_OPERATIONS = OPERATIONS[:4]

#: Steps by what a function may do besides.
PLAIN = ("new", "write", "update", "new", "stir", "churn", "fold")
OVER_DEVICES = ("move", "spread", "meet", "share")


@dataclass
class _Registers:
    """Shapes and devices of the registers of a function that is being made."""

    shapes: list[Shape]
    devices: list[int]
    has_variable: bool = False
    written: set[int] = field(default_factory=set)

    def places(self, shape: Shape, device: int | None = None) -> list[Place]:
        """All places of a shape, on that device where one is given."""
        here = [i for i, other in enumerate(self.devices) if device in (None, other)]
        found = [Place(i) for i in here if self.shapes[i] == shape]
        for name, view in VIEWS.items():
            if name != "whole" and view.shape == shape and (self.has_variable or not view.is_symbolic):
                found += [Place(i, name) for i in here if self.shapes[i] == (4, 4)]
        return found

    def symbolic_places(self) -> list[Place]:
        """Views that follow from the variable, where there is one."""
        names = [name for name, view in VIEWS.items() if view.is_symbolic] if self.has_variable else []
        return [Place(i, name) for i, shape in enumerate(self.shapes) if shape == (4, 4) for name in names]

    def shape_of(self, place: Place) -> Shape:
        return self.shapes[place.register] if place.view == "whole" else VIEWS[place.view].shape

    def add(self, shape: Shape, device: int) -> None:
        self.shapes.append(shape)
        self.devices.append(device)


class Bodies:
    """Makes functions over ``bases`` and ``generators`` on ``devices``. ``threads``: kernels may sleep."""

    def __init__(
        self,
        choose: Callable[[int], int],
        theme: Theme,
        *,
        is_float: bool,
        devices: int,
        bases: int,
        generators: int,
        threads: int,
    ) -> None:
        self.choose = choose
        self.theme = theme
        self.operations = FLOAT_OPERATIONS if is_float else OPERATIONS
        self.folds = ("max", "min") if is_float else ("sum", "max")
        self.devices = devices
        self.bases = bases
        self.generators = generators
        self.threads = threads

    def bases_of(self, device: int) -> Sequence[int]:
        """Those on the device."""
        return range(device, self.bases, self.devices)

    def body(self, index: int, *, parameters: Sequence[tuple[Shape, int]] = ()) -> Body:
        """Any function; with ``parameters`` (shapes and devices) one that a pipeline may chain."""
        choose, theme = self.choose, self.theme
        device = choose(self.devices)
        spans = self.devices > 1 and self._has(theme.spans)
        has_variable = not parameters and self._has(theme.variable)
        prune = self._has(theme.pruned)
        drawing = list(range(device, self.generators, self.devices)) if self._has(theme.draws) else []
        if not parameters:
            chosen = [SHAPES[choose(len(SHAPES))] for _ in range(1 + choose(2))]
            parameters = [(shape, choose(self.devices) if spans else device) for shape in chosen]
        within = range(self.bases) if spans else self.bases_of(device)
        state = tuple(dict.fromkeys(within[choose(len(within))] for _ in range(choose(3) or theme.crowded)))
        registers = _Registers(
            [*(shape for shape, _ in parameters), *((4, 4) for _ in state)],
            [*(place for _, place in parameters), *(base % self.devices for base in state)],
            has_variable,
        )
        kinds = [*PLAIN, *(2 * OVER_DEVICES if spans else ()), *(("draw", "draw") if drawing else ())]
        steps = self._once(registers, len(parameters)) if prune else []
        first = [len(registers.shapes) - 1] if steps else []
        steps += [self.step(registers, kinds, drawing) for _ in range(1 + choose(2 if first else 5))]
        results = tuple(dict.fromkeys([*first, *(choose(len(registers.shapes)) for _ in range(choose(3)))]))
        draws = any(step.kind == "draw" for step in steps)
        if not results and not draws and not any(each < len(parameters) + len(state) for each in registers.written):
            results = (len(registers.shapes) - 1,)
        return Body(
            f"f{index}",
            device,
            tuple(shape for shape, _ in parameters),
            state,
            tuple(steps),
            results,
            tuple(registers.shapes),
            tuple(registers.devices),
            has_variable=has_variable,
            in_flight_max=1 + choose(3),
            on_cancel=("shield", "abandon")[choose(4) == 1],
            prune=prune,
        )

    def _has(self, quarters: int) -> bool:
        return self.choose(4) >= 4 - quarters

    def _once(self, registers: _Registers, parameters: int) -> list[Step]:
        """Steps that compute something of state alone, and then something of that and an argument."""
        device, shape = registers.devices[0], registers.shapes[0]
        places = [each for each in registers.places(shape, device) if parameters <= each.register]
        if not places:
            return []
        a, b = (places[self.choose(len(places))] for _ in range(2))
        registers.add(shape, device)
        made = Place(len(registers.shapes) - 1)
        registers.add(shape, device)
        return [Step("new", a, self._operation(4), b), Step("new", Place(0), self._operation(4), made)]

    def body_of_rows(self, index: int) -> Body:
        """A function that treats each row of its argument by itself, for ``batched``; it may count calls in state."""
        choose = self.choose
        # Rows are host data, which goes to the first device.
        device = 0
        mine = self.bases_of(device)
        state = (mine[choose(len(mine))],)
        row, steps = Place(1, "row 2"), [Step("new", Place(0), self._operation(4), Place(1, "row 0"))]
        if choose(2):
            steps.append(Step("check", Place(2), breaks=choose(2) == 1, delay_us=self._delay_us()))
        if choose(3) == 1:
            steps.append(Step("write", row, "add", 1, row))
        count = sum(step.kind != "write" for step in steps)
        rows: Shape = (VARIABLE, 4)
        shapes = (rows, (4, 4), *(rows for _ in range(count)))
        return Body(
            f"f{index}",
            device,
            (rows,),
            state,
            tuple(steps),
            (1 + count,),
            shapes,
            (device,) * len(shapes),
            of_rows=True,
            in_flight_max=1 + choose(3),
        )

    # Steps.

    def step(self, registers: _Registers, kinds: Sequence[str], drawing: Sequence[int] = ()) -> Step:
        """A step on registers, which are brought up to date."""
        choose = self.choose
        kind = kinds[choose(len(kinds))]
        register = choose(len(registers.shapes))
        shape = registers.shapes[register]
        places = registers.places(shape if choose(2) else SHAPES[choose(len(SHAPES))]) or registers.places(shape)
        if registers.has_variable and choose(2):
            places = registers.symbolic_places() or places
        a = places[choose(len(places))]
        device = registers.devices[a.register]
        if kind in ("spread", "meet", "share"):
            return self._over_devices(kind, registers) or self._plain("new", registers, a, device)
        if kind == "draw":
            drawn = shape_at(SHAPES[choose(len(SHAPES))], 0)
            generator = drawing[choose(len(drawing))]
            registers.add(drawn, generator % self.devices)
            return Step(kind, generator=generator, shape=drawn)
        if kind == "move":
            registers.add(registers.shape_of(a), 1 - device)
            return Step(kind, a, device=1 - device)
        return self._plain(kind, registers, a, device)

    def _plain(self, kind: str, registers: _Registers, a: Place, device: int) -> Step:
        choose, shape = self.choose, registers.shape_of(a)
        breaks = choose(3) == 1
        if kind == "fold" and len(shape) == 2:
            axis = choose(2)
            registers.add((shape[1 - axis],), device)
            return Step(kind, a, self.folds[choose(2)], axis=axis)
        if kind == "stir":
            registers.add(shape, device)
            return Step(kind, a, delay_us=self._delay_us(), breaks=breaks)
        if kind == "churn":
            registers.written.add(a.register)
            return Step(kind, a, target=a, delay_us=self._delay_us(), breaks=breaks)
        operation = self._operation(len(self.operations))
        if operation == "matmul" and (shape != (4, 4) or kind == "update"):
            operation = "add"
        same = registers.places(shape, device)
        b: Place | float | str = same[choose(len(same))] if operation == "matmul" or choose(3) else 2 + choose(5)
        if registers.has_variable and not isinstance(b, Place) and choose(2):
            b = VARIABLE
        if kind in ("new", "fold"):
            registers.add(shape, device)
            return Step("new", a, operation, b)
        symbolic = [each for each in same if each in registers.symbolic_places()]
        targets = symbolic if symbolic and choose(2) else same
        target = targets[choose(len(targets))]
        registers.written.add(target.register)
        return Step(kind, a, operation, b, target)

    def _over_devices(self, kind: str, registers: _Registers) -> Step | None:
        """A step in shards; None where there is no matrix."""
        choose = self.choose
        matrices = registers.places((4, 4))
        if not matrices:
            return None
        a, axis = matrices[choose(len(matrices))], choose(2)
        device = registers.devices[a.register]
        if kind == "meet":
            registers.add((4,), device)
            return Step(kind, a, self.folds[choose(2)], axis=axis)
        if kind == "spread":
            operation = self._operation(len(self.operations))
            b = matrices[choose(len(matrices))] if operation == "matmul" or choose(3) else 2 + choose(5)
            registers.add((4, 4), device)
            return Step(kind, a, operation, b, axis=axis)
        shard: Shape = (2, 4) if axis == 0 else (4, 2)
        first, second = registers.places(shard, 0), registers.places(shard, 1)
        if not first or not second:
            registers.add((4, 4), 1 - device)
            return Step("move", a, device=1 - device)
        target, other = first[choose(len(first))], second[choose(len(second))]
        registers.written |= {target.register, other.register}
        return Step(kind, a, self._operation(4), target=target, other=other, axis=axis)

    def _operation(self, count: int) -> str:
        return self.operations[self.choose(count)]

    def _delay_us(self) -> int:
        return self.choose(300) if self.threads and self.choose(2) else 0
