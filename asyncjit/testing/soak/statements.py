"""Random statements of soak programs.

Law: every question goes to ``choose``; whatever is asked, the answer 0 makes the plainer program.
"""

from __future__ import annotations

from asyncjit.testing.soak.bodies import Bodies
from asyncjit.testing.soak.program import (
    SHAPES,
    VARIABLE_MAX,
    VIEWS,
    Body,
    Flow,
    Place,
    Source,
    Statement,
    Step,
    shape_at,
)

__all__ = ["Statements"]

Shape = tuple[int, ...]

#: How far back outputs are looked for.
BACK = 5

#: How much comes before an engine is closed at least.
CLOSED_FROM = 4


class Statements:
    """Makes statements, and functions where one needs its own. ``threads`` are those of the bodies."""

    def __init__(self, source: Bodies, bodies: list[Body]) -> None:
        self.choose = source.choose
        self.source_of_bodies = source
        self.threads = source.threads
        self.bodies = bodies
        self.made: list[Statement] = []
        self._is_closed = False

    def add(self) -> None:
        """One more, or a few that belong together."""
        choose = self.choose
        thread = choose(self.threads) if self.threads else 0
        device = choose(self.source_of_bodies.devices)
        kinds = self.source_of_bodies.theme.statements
        kind = kinds[choose(len(kinds))]
        match kind:
            case "chain":
                stages = [self._any_body() for _ in range(2)]
                for _ in range(1 + choose(3)):
                    for stage in stages:
                        self._call(stage, thread)
            case "sweep":
                self._sweep(thread)
            case "flow":
                self._flow(thread)
            case "rows":
                self._rows(thread)
            case "eager":
                self.made.append(self._eager(device, thread))
            case "assign":
                self.made.append(self._assign(thread))
            case "snapshot":
                self.made.append(self._snapshot(thread))
            case "seed" if self.source_of_bodies.generators:
                index = choose(self.source_of_bodies.generators)
                home = index % self.source_of_bodies.devices
                self.made.append(
                    Statement("seed", (Source("generator", index),), n=choose(100), device=home, thread=thread)
                )
            case "reload" if not self.threads:
                self.made.append(Statement("reload"))
            case "close" if not self._is_closed and len(self.made) > CLOSED_FROM:
                # What comes behind is refused.
                self._is_closed = True
                self.made.append(Statement("close", n=choose(2), thread=thread))
            case _:
                self._call(self._any_body(), thread)

    def _sweep(self, thread: int) -> None:
        index = self._any_body()
        for _ in range(3 + self.choose(3)):
            self._call(index, thread)
            between = self.choose(4)
            if between == 1:
                self.made.append(self._assign(thread))
            elif between > 1:
                self.made.append(Statement("settle", thread=thread))

    # Calls.

    def _any_body(self) -> int:
        """One that takes what statements may pass."""
        fit = [i for i, body in enumerate(self.bodies) if all(shape in SHAPES for shape in body.parameters)]
        return fit[self.choose(len(fit))]

    def _call(self, index: int, thread: int, *, sources: tuple[Source, ...] = (), by: int | None = None) -> None:
        """A call; ``sources`` are given where it is part of a flow."""
        body = self.bodies[index]
        n = 1 + self.choose(VARIABLE_MAX) if body.has_variable else 0
        sources = sources or self._sources(body, thread, knows_device=not self.threads and by is None)
        shapes = tuple(shape_at(body.shapes[register], n) for register in body.results)
        devices = tuple(body.devices[register] for register in body.results)
        self.made.append(
            Statement("call", sources, shapes, devices, index, device=body.device, thread=thread, n=n, by=by)
        )

    def _sources(self, body: Body, thread: int, *, knows_device: bool) -> tuple[Source, ...]:
        """Arrays for a call. Where others choose what the default device is, host data goes to the first one."""
        return tuple(
            self._source(
                body.devices[position],
                shape_at(shape, 0),
                thread,
                is_written=position in body.written,
                takes_host=body.devices[position] == (body.device if knows_device else 0),
            )
            for position, shape in enumerate(body.parameters)
        )

    def _source(self, device: int, shape: Shape, thread: int, *, is_written: bool, takes_host: bool = True) -> Source:
        """An array of that shape. Threads write into no output, so that what they read of one needs no ticket."""
        choose = self.choose
        views = [name for name, view in VIEWS.items() if view.shape == shape and not view.is_symbolic]
        mine = self.source_of_bodies.bases_of(device)
        base = Source("base", mine[choose(len(mine))], 0, views[choose(len(views))])
        how = choose(4)
        if how in (1, 2) and not (is_written and self.threads):
            outputs = self._outputs(device, shape, thread, views)
            if outputs:
                return outputs[choose(len(outputs))]
        if how == 3 and takes_host and not is_written and choose(2):
            return Source("host", choose(100), 0, views[0])
        return base

    def _outputs(self, device: int, shape: Shape, thread: int, views: list[str]) -> list[Source]:
        first = max(0, len(self.made) - BACK)
        return [
            Source("output", index, part, view)
            for index, statement in enumerate(self.made[first:], first)
            if statement.thread == thread
            for part, (made, where) in enumerate(zip(statement.shapes, statement.devices, strict=False))
            if where == device
            for view in (views if made == (4, 4) else ["whole"] if made == shape else [])
        ]

    def _flow(self, thread: int) -> None:
        """A pipeline or a map over new functions, each of which takes what the one before returns."""
        choose = self.choose
        first = self._new_body()
        stages = [first]
        is_map = choose(2) == 1
        while not is_map and len(stages) < 3 and choose(3) and self.bodies[stages[-1]].results:
            last = self.bodies[stages[-1]]
            returned = [(last.shapes[register], last.devices[register]) for register in last.results]
            stages.append(self._new_body(returned))
        items = 1 + choose(4)
        body = self.bodies[first]
        # Items come from one device, that of the functions.
        hosts = len(body.reach) == 1 and not (self.threads and body.device) and not body.written
        flow = Flow(
            tuple(stages),
            items,
            in_flight=1 + choose(4),
            prefetched=choose(3) if hosts else 0,
            leaves_after=1 + choose(items) if choose(4) == 1 else None,
            returns_errors=choose(2) == 1,
            pauses=not is_map and choose(2) == 1,
        )
        place = len(self.made)
        self.made.append(Statement("flow", device=body.device, thread=thread, flow=flow))
        for item in range(items):
            sources: tuple[Source, ...] = ()
            if flow.prefetched:
                whole = [_host_view(shape_at(shape, 0)) for shape in body.parameters]
                sources = tuple(Source("host", 10 * item + position, 0, view) for position, view in enumerate(whole))
            for stage in stages:
                self._call(stage, thread, sources=sources, by=place)
                sources = tuple(Source("output", len(self.made) - 1, part) for part in range(len(self.made[-1].shapes)))

    def _new_body(self, parameters: list[tuple[tuple[int | str, ...], int]] | None = None) -> int:
        """A function without a variable, whose arguments a flow may pass as one tuple."""
        chosen = parameters or [((4, 4), self.choose(self.source_of_bodies.devices))]
        self.bodies.append(self.source_of_bodies.body(len(self.bodies), parameters=chosen))
        return len(self.bodies) - 1

    def _rows(self, thread: int) -> None:
        """Calls of a function that shares its replays among them, by rows."""
        choose = self.choose
        known = [place for place, body in enumerate(self.bodies) if body.of_rows]
        if not known or choose(3) == 1:
            self.bodies.append(self.source_of_bodies.body_of_rows(len(self.bodies)))
            known.append(len(self.bodies) - 1)
        body = known[choose(len(known))]
        for _ in range(2 + choose(3)):
            self.made.append(
                Statement(
                    "rows",
                    (Source("rows", len(self.made)),),
                    body=body,
                    n=1 + choose(3),
                    device=self.bodies[body].device,
                    thread=choose(self.threads) if self.threads else thread,
                )
            )

    # Everything else.

    def _eager(self, device: int, thread: int) -> Statement:
        choose, made = self.choose, self.source_of_bodies
        kind = ("new", "update", "write", "churn", "draw", "move")[choose(6)]
        if self.threads and kind == "write":
            kind = "update"
        drawing = range(device, made.generators, made.devices)
        if (kind == "draw" and not drawing) or (kind == "move" and made.devices == 1):
            kind = "new"
        shape: Shape = shape_at(SHAPES[choose(len(SHAPES))], 0)
        if kind == "draw":
            step = Step(kind, generator=drawing[choose(len(drawing))], shape=shape)
            return Statement("eager", (), (shape,), (device,), step=step, device=device, thread=thread)
        is_written = kind not in ("new", "move")
        if kind == "move":
            source = self._source(device, shape, thread, is_written=False, takes_host=False)
            step = Step(kind, device=1 - device)
            return Statement("eager", (source,), (shape,), (1 - device,), step=step, device=device, thread=thread)
        sources = tuple(
            self._source(device, shape, thread, is_written=is_written, takes_host=not (self.threads and device))
            for _ in range(2)
        )
        if self.threads and sources[0].index == sources[1].index:
            # In place between views that may overlap it takes two tickets.
            kind = "new"
        operations = made.operations[:5]
        # Between threads each statement has to be one replay; in place only the first two are.
        operation = operations[choose(2 if self.threads else len(operations))]
        step = Step(kind, Place(1), operation, 2 + choose(5) if kind == "write" else Place(0), Place(0))
        shapes, devices = ((shape,), (device,)) if kind == "new" else ((), ())
        return Statement("eager", sources, shapes, devices, step=step, device=device, thread=thread)

    def _drawn_shapes(self) -> list[tuple[Shape, int]]:
        choose, devices = self.choose, self.source_of_bodies.devices
        first = choose(devices)
        count = 1 + choose(2)
        return [
            (shape_at(SHAPES[choose(len(SHAPES))], 0), first if choose(2) else choose(devices)) for _ in range(count)
        ]

    def _assign(self, thread: int) -> Statement:
        drawn = self._drawn_shapes()
        home = drawn[0][1]
        targets = [self._source(device, shape, thread, is_written=True) for shape, device in drawn]
        values = [
            self._source(device, shape, thread, is_written=False, takes_host=device == (0 if self.threads else home))
            for shape, device in drawn
        ]
        # One target twice is one key of the dictionary, with the last of its values.
        pairs = dict(zip(targets, values, strict=True))
        devices = tuple(device for _, device in drawn)
        return Statement("assign", (*pairs, *pairs.values()), device=home, devices=devices, thread=thread)

    def _snapshot(self, thread: int) -> Statement:
        drawn = self._drawn_shapes()
        sources = [self._source(device, shape, thread, is_written=False, takes_host=False) for shape, device in drawn]
        shapes, devices = tuple(shape for shape, _ in drawn), tuple(device for _, device in drawn)
        return Statement("snapshot", tuple(sources), shapes, devices, device=drawn[0][1], thread=thread)


def _host_view(shape: Shape) -> str:
    return next(name for name, view in VIEWS.items() if view.shape == shape and not view.is_symbolic)
