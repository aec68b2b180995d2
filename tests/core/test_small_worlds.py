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
    (Bound(3, 1, 2), 127, 5),
    (Bound(3, 1, 1, group=0), 13, 1),
    (Bound(3, 1, 1, group=1), 13, 2),
    (Bound(3, 2, 1, device=GPU), 31, 3),
    (Bound(2, 4, 1), 13, 7),
    (Bound(3, 4, 1), 397, 11),
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


def number_of(bound: Bound, *touched: int) -> int:
    """The number whose digits are from which segment on each replay reads and writes each byte; 0 is never."""
    return sum(digit * (bound.segments + 1) ** place for place, digit in enumerate(touched))


def test_of_programs_that_differ_in_names_only_one_counts() -> None:
    bound = Bound(2, 1, 2)
    both = [bound.program(number_of(bound, *touched)) for touched in ((0, 1, 0, 0) * 2, (0, 0, 0, 1) * 2)]
    assert sum(calls is not None for calls in both) == 1


def test_programs_whose_replays_do_not_meet_do_not_count() -> None:
    two_bytes, one_byte = Bound(2, 1, 2), Bound(2, 1, 1)
    assert two_bytes.program(number_of(two_bytes, 0, 1, 0, 0, 0, 0, 0, 1)) is None
    assert one_byte.program(0) is None
    assert one_byte.program(number_of(one_byte, 1, 0, 1, 0)) is None


def test_a_program_does_again_in_every_later_segment_what_it_does_in_the_first() -> None:
    bound = Bound(2, 3, 1)
    calls = bound.program(number_of(bound, 2, 3, 0, 1))
    assert calls is not None
    assert [(len(part.reads), len(part.writes)) for part in calls[0].parts] == [(0, 0), (1, 0), (1, 1)]
    assert [(len(part.reads), len(part.writes)) for part in calls[1].parts] == [(0, 1)] * 3
