"""Programs against the scheduler: whatever the order of events, all is as in the serial run in ticket order.

Law: worlds only (see ``asyncjit.testing.worlds``); rules one by one are in ``test_flow`` and ``test_scheduler``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncjit.deps import DepsTracker, Hazards, Region
from asyncjit.errors import InternalError
from asyncjit.flow import Flow
from asyncjit.ledger import Ledger
from asyncjit.plan import Plan
from asyncjit.records import Run, State
from asyncjit.runs import TRANSITIONS, Command
from asyncjit.stains import Stains
from asyncjit.testing.worlds.explore import explore, new_groups
from asyncjit.testing.worlds.program import CPU, GPU, Call, Choose, Part, Span, output_of, random_program
from asyncjit.testing.worlds.world import World

#: Programs after which a fault counts as not found.
FAULT_SEEDS = 2_000


def play(world: World, choose: Choose, *, calm: int = 150) -> None:
    """Let things happen until nothing can. One step in eight is disturbed; after one in ``calm`` the world changes."""
    while actions := world.actions():
        disturbances = world.disturbances() if not choose(8) else []
        action = disturbances[choose(len(disturbances))] if disturbances else actions[choose(len(actions))]
        if action[0] == "capture" and not choose(4):
            action = ("capture fails", action[1], 0)
        if not choose(12):
            world.do(("rejoin", choose(len(world.runs) + 1), 0))
        world.do(action)
        if not choose(calm):
            world.do((("lose", "close", "deadline")[choose(3)], choose(2), 0))
    world.judge()


def play_seeds(count: int, *, first: int = 0, verifies: bool = True) -> None:
    for seed in range(first, first + count):
        choose = random.Random(seed).randrange
        world = World(random_program(choose, 4 + choose(9)), new_groups(), disturbances=choose(4))
        world.verifies = verifies
        try:
            play(world, choose)
        except (AssertionError, InternalError) as error:
            error.add_note(f"seed {seed}: {world.calls}")
            raise


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_every_order_of_events_equals_the_serial_run_in_ticket_order(first: int) -> None:
    play_seeds(20, first=first)


def test_programs_make_every_move_of_the_table() -> None:
    made: set[tuple[State, str]] = set()
    for seed in range(400):
        choose = random.Random(seed).randrange
        world = World(random_program(choose, 4 + choose(9)), new_groups(), disturbances=choose(4))
        world.verifies = False
        play(world, choose, calm=20)
        before: dict[int, State] = {}
        for ticket, stimulus, after in world.scheduler.story():
            if ticket in before:
                made.add((before[ticket], stimulus))
            before[ticket] = after
    table = {(state, stimulus.__name__) for state, row in TRANSITIONS.items() for stimulus in row}
    assert table - made == set()


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(2, 6))
def test_small_programs_equal_the_serial_run_and_shrink_when_they_do_not(data: st.DataObject, length: int) -> None:
    def choose(count: int) -> int:
        return data.draw(st.integers(0, count - 1)) if count > 1 else 0

    play(World(random_program(choose, length), new_groups(), disturbances=2), choose)


# Small worlds, exhaustively.

READ, WRITE, UPDATE, LATE_WRITE, CHAIN = "read", "write", "update", "write late", "read the output before"

KINDS = (READ, WRITE, UPDATE, LATE_WRITE, CHAIN)


def small_call(kind: str, index: int, device: str) -> Call:
    """One byte of state, so that every two calls meet."""
    byte = Span(1, 0, 1)
    reads = (byte,) if kind in (READ, UPDATE) else (output_of(index - 1),) if kind == CHAIN and index else ()
    part = Part(reads, (byte,) if kind in (WRITE, UPDATE, LATE_WRITE) else ())
    parts = (Part(), part) if kind == LATE_WRITE else (part,)
    return Call(parts, group=2, device=device, has_output=True)


SMALL = [
    *((CPU, *kinds) for kinds in product((READ, UPDATE), (WRITE, UPDATE, LATE_WRITE), (READ, WRITE, CHAIN))),
    *((GPU, *kinds) for kinds in product((READ, LATE_WRITE), (UPDATE,), (READ, WRITE))),
]


@pytest.mark.parametrize("small", SMALL, ids=", ".join)
def test_three_calls_in_every_order_with_one_failure_or_cancellation(small: tuple[str, ...]) -> None:
    device, *kinds = small
    for world in explore([small_call(kind, index, device) for index, kind in enumerate(kinds)], 1):
        world.judge()


# Faults put in on purpose: each must show in what programs compute, with the invariants not looked at.


def without_war(self: DepsTracker[Run], reads: list[Region], writes: list[Region]) -> Hazards[Run]:
    hazards = tracker_hazards(self, reads, writes)
    hazards.war.clear()
    return hazards


def without_ticket_order(self: Ledger, run: Run) -> Run | None:
    source = ledger_look(self, run)
    self.unlink(run)
    return source


def without_relink(self: Ledger, run: Run) -> None:
    ledger_withdraw(self, run)
    self.is_stale = False


def released_when_started(self: Flow, run: Run, commands: list[Command]) -> None:
    flow_start(self, run, commands)
    self._release_successors(run, started=True)


def healed_by_whoever_is_done(self: Stains, run: Run, regions: list[Region]) -> None:
    ticket, run.ticket = run.ticket, 1 << 62
    stains_heal(self, run, regions)
    run.ticket = ticket


def seen_whoever_covers_it(self: Stains, run: Run, regions: list[Region]) -> Run | None:
    needs, run.needs = run.needs, set()
    source = stains_source(self, run, regions)
    run.needs = needs
    return source


def gated_at_the_first_touch_only(plan: Plan, segments: Iterable[int]) -> dict[int, tuple[int, ...]]:
    return {}


tracker_hazards = DepsTracker.hazards
ledger_look, ledger_withdraw = Ledger.look, Ledger.withdraw
flow_start = Flow._start
stains_heal, stains_source = Stains.heal, Stains.source


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("asyncjit.deps.DepsTracker.hazards", without_war),
        ("asyncjit.ledger.Ledger.look", without_ticket_order),
        ("asyncjit.ledger.Ledger.stain", lambda self, run, regions: None),
        ("asyncjit.ledger.Ledger.withdraw", without_relink),
        ("asyncjit.flow.Flow._start", released_when_started),
        ("asyncjit.stains.Stains.heal", healed_by_whoever_is_done),
        ("asyncjit.stains.Stains.source", seen_whoever_covers_it),
        ("asyncjit.testing.worlds.program.gate_fronts", gated_at_the_first_touch_only),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_fault_is_found_by_what_programs_compute(target: str, fault: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, fault)
    with pytest.raises(AssertionError):
        play_seeds(FAULT_SEEDS, verifies=False)
