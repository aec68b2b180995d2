"""What a user may choose about one jitted function, and what it tells about itself.

Law: frozen data; checked once, where it is made.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Options", "Statistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """See ``jit`` for what each means.

    Raises:
        ValueError: a value outside of its range.
    """

    static: tuple[str, ...] = ()
    dynamic: tuple[str, ...] = ()
    warm_up: int = 0
    in_flight_max: int = 4
    captures_max: int = 8
    captures_bytes_max: int | None = None
    strict: bool = False
    prune: bool = False
    on_cancel: str = "shield"
    executor: str | None = None
    #: A call whose arguments overlap in a new way records anew instead of raising.
    admits_aliases: bool = False
    #: Does not count towards the engine's queue limit.
    exempt: bool = False

    def __post_init__(self) -> None:
        def check(condition: bool, name: str, expected: str) -> None:
            if not condition:
                raise ValueError(f"{name} must be {expected}, got {getattr(self, name)!r}")

        check(self.warm_up in (0, 1), "warm_up", "0 or 1")
        check(self.in_flight_max >= 1, "in_flight_max", "at least 1")
        check(self.captures_max >= 1, "captures_max", "at least 1")
        check(
            self.captures_bytes_max is None or self.captures_bytes_max >= 1, "captures_bytes_max", "None or at least 1"
        )
        check(self.on_cancel in ("shield", "abandon"), "on_cancel", "'shield' or 'abandon'")
        check(self.executor in (None, "numpy", "native"), "executor", "None, 'numpy' or 'native'")


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of one jitted function since it was made or ``reset``, over all engines.

    ``captures`` are held now, ``captures_made`` were ever made, ``captures_dropped`` went because of ``captures_max``
    or because a name that the function reads was bound anew. ``replays`` counts calls that fitted a capture or made
    one.
    """

    captures: int
    captures_made: int
    captures_dropped: int
    replays: int
