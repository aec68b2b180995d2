"""Small worlds, exhaustively: every order of all that can happen, with one cancellation or one fault.

Law: the smallest worlds, all of them or a slice; ``python -m asyncjit.testing worlds`` explores larger ones.
"""

from __future__ import annotations

import pytest

from asyncjit.testing.worlds.explore import Bound, explore
from asyncjit.testing.worlds.program import GPU

#: All programs of three replays over one byte; slices of those over two bytes, with little room, on a device that takes
#: work ahead, and of two or three replays of several segments. The first number is a prime, so that slices mix.
SLICES = [
    (Bound(3, 1, 1), 3, 0),
    (Bound(3, 1, 1), 3, 1),
    (Bound(3, 1, 1), 3, 2),
    (Bound(3, 1, 2), 23, 5),
    (Bound(3, 1, 1, group=0), 13, 1),
    (Bound(3, 1, 1, group=1), 13, 2),
    (Bound(3, 2, 1, device=GPU), 997, 3),
    (Bound(2, 4, 1), 9973, 7),
    (Bound(3, 4, 1), 6_999_997, 11),
]


@pytest.mark.parametrize(("bound", "every", "first"), SLICES)
def test_every_order_of_a_small_program_equals_the_serial_run(bound: Bound, every: int, first: int) -> None:
    programs = ends = 0
    for _, calls in bound.programs(every, first):
        programs += 1
        for world in explore(calls, 1):
            world.judge()
            ends += 1
    assert programs > 0
    assert ends > programs, "one end a program: nothing was ever cancelled, and nothing failed"


def test_of_programs_that_differ_in_names_only_one_counts() -> None:
    bound = Bound(2, 1, 2)
    writes_first, writes_second = 1, 2
    both = [bound.program(each + 9 * each) for each in (writes_first, writes_second)]
    assert sum(calls is not None for calls in both) == 1


def test_programs_whose_replays_do_not_meet_do_not_count() -> None:
    assert Bound(2, 1, 2).program(1 + 9 * 2) is None
    assert Bound(2, 1, 1).program(0) is None
