"""Handlers of operators by domain, name and version.

Law: registering and finding; no operator is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from asyncjit.errors import AsyncJitError

__all__ = ["ALL", "Operator", "Unsupported", "find", "names", "operator", "supports"]

Handler: TypeAlias = Callable[..., Any]
H = TypeVar("H", bound=Handler)

#: As ``host``: every input. How many elements there are in a result depends on values.
ALL: Final = "all"


class Unsupported(AsyncJitError):  # noqa: N818  # reads as what it says: raise Unsupported(reason)
    """Raised by a handler for a combination that it cannot do; users get an ``OnnxError`` that names the node."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One handler. See ``operator`` for what each field means."""

    domain: str
    name: str
    since: int
    function: Handler
    host: tuple[int, ...] = ()
    on_host: bool = False
    of_shapes: bool = False
    is_pure: bool = True
    whole: bool = False
    known: tuple[int, ...] = ()

    def needs(self, position: int) -> bool:
        """Whether the value at ``position`` must be known when the node is recorded."""
        return self.on_host or position in self.host


_operators: dict[tuple[str, str], list[Operator]] = {}


def operator(
    name: str,
    *,
    since: int | Iterable[int] = 1,
    domain: str = "",
    host: tuple[int, ...] | str = (),
    of_shapes: bool = False,
    is_pure: bool = True,
    whole: bool = False,
    known: tuple[int, ...] = (),
) -> Callable[[H], H]:
    """Make a function the handler of an operator from opset ``since`` on, until a later one takes over.

    It is called with the node and its inputs, arrays where nothing else is said, and gives one output or a tuple.

    Args:
        host: positions of inputs that must be known when the node is recorded; they come as NumPy arrays. ``ALL``: the
            node runs on the host, NumPy in and out, because values decide about shapes.
        of_shapes: the result depends on shapes and structure alone; inputs come as they are, the result is NumPy.
        is_pure: False where equal inputs may give unequal results, so that it is never folded.
        known: positions of inputs that come as NumPy arrays where they happen to be known, else as arrays.
        whole: inputs come as they are, host or device, and the interpreter comes before them: control flow, sequences.
    """
    positions = () if isinstance(host, str) else host

    def register(function: H) -> H:
        for each in (since,) if isinstance(since, int) else since:
            entry = Operator(domain, name, each, function, positions, host == ALL, of_shapes, is_pure, whole, known)
            others = _operators.setdefault((domain, name), [])
            assert all(other.since != each for other in others), (domain, name, each)
            others.append(entry)
            others.sort(key=lambda other: -other.since)
        return function

    return register


def find(domain: str, name: str, opset: int) -> Operator | None:
    """The handler for a node of this opset."""
    return next((each for each in _operators.get((domain, name), ()) if each.since <= opset), None)


def supports(domain: str, name: str, opset: int) -> bool:
    return find(domain, name, opset) is not None


def names() -> list[tuple[str, str, tuple[int, ...]]]:
    """Every operator that has a handler: domain, name, the opsets where handlers begin."""
    return sorted((*key, tuple(sorted(each.since for each in known))) for key, known in _operators.items())
