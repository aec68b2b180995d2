"""Themes: what a soak program is mostly about, so that what is rare meets what it can go wrong with.

Law: weights. The first theme is the plainest.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["THEMES", "Theme"]


@dataclass(frozen=True)
class Theme:
    """How often there is what, in quarters: functions with a variable, pruned ones, ones that draw random numbers, ones
    over several devices, programs on two devices. ``statements`` has an entry a chance, what is dullest first;
    where it is ``crowded`` there are few bases, so that statements meet."""

    name: str
    statements: tuple[str, ...]
    variable: int = 0
    pruned: int = 0
    draws: int = 0
    spans: int = 2
    two_devices: int = 1
    crowded: bool = False


#: "sweep" calls one function several times, and waits or writes in between; "chain" calls two in turn; the others are
#: kinds of statements.
THEMES: tuple[Theme, ...] = (
    Theme("plain", ("call", "call", "call", "call", "eager", "assign", "snapshot", "chain")),
    Theme("variables", ("sweep", "chain", "chain", "call", "assign", "snapshot"), variable=3, crowded=True),
    Theme("pruning", ("sweep", "sweep", "sweep", "call", "assign"), pruned=4, crowded=True),
    Theme("devices", ("call", "call", "sweep", "chain", "eager", "assign", "snapshot"), spans=4, two_devices=4),
    Theme("random", ("call", "sweep", "eager", "eager", "seed"), draws=4),
    Theme("saving", ("call", "sweep", "assign", "eager", "reload", "reload"), variable=1, pruned=1, draws=1),
    Theme("flows", ("call", "assign", "flow", "flow", "flow"), pruned=1, draws=1),
    Theme("rows", ("call", "assign", "rows", "rows", "rows")),
    Theme("closing", ("call", "sweep", "eager", "assign", "snapshot", "flow", "rows", "close", "close"), draws=1),
    Theme(
        "all",
        ("call", "call", "sweep", "eager", "assign", "snapshot", "chain", "seed", "flow", "rows", "reload", "close"),
        variable=1,
        pruned=1,
        draws=1,
        two_devices=2,
    ),
)
