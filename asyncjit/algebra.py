"""Atoms of symbolic integers, and the rules for quotients, remainders, extremes and bounds.

Law: functions on polynomials whose atoms are symbols, or what no rule could take apart; exact, and refuses nothing: who
calls has made sure that divisors are positive. Imports ``polynomials`` only.

Bounds come from interval arithmetic over the terms. Where a ``min``, ``max`` or a quotient by a constant is a term of
its own, its arguments are put into the sum in its place, since what they share with the rest cancels there:
``min(n, 8) - n`` is at most 0, which the intervals of its terms do not tell. Bounds always hold; they need not be
attained.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from asyncjit.polynomials import Interval, divided, interval_of, multiplied, split, summed

__all__ = ["Atom", "Combined", "Symbol", "Terms", "bounds_of", "constant", "constant_of", "extreme", "key_of", "ratio"]


#: Polynomials that one bound looks at: each of n atoms as it is, or as either of its sides, is 3**n of them, and a sum
#: may have any number of atoms. Beyond it atoms count by their intervals.
_UNFOLDED_MAX = 250


class Symbol(NamedTuple):
    """An integer between ``min`` and ``max``, both included, known by all three."""

    name: str
    min: int
    max: int

    @property
    def order(self) -> str:
        return repr(tuple(self))

    @property
    def interval(self) -> Interval:
        return self.min, self.max


class Combined:
    """``left kind right``, where ``kind`` is one of ``// % min max`` and divisors are positive. Equal by structure."""

    __slots__ = ("interval", "kind", "left", "order", "right")

    def __init__(self, kind: str, left: Terms, right: Terms) -> None:
        self.kind = kind
        self.left = left
        self.right = right
        self.order = f"({kind!r}, {_text(left)}, {_text(right)})"
        self.interval = _interval(kind, bounds_of(left), bounds_of(right))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Combined) and self.order == other.order

    def __hash__(self) -> int:
        return hash(self.order)


Atom: TypeAlias = Symbol | Combined
Product: TypeAlias = tuple[Atom, ...]
Terms: TypeAlias = Mapping[Product, int]


def key_of(terms: Terms) -> tuple[tuple[tuple[str, ...], int], ...]:
    """Equal for equal polynomials, and for these only."""
    return tuple(sorted((tuple(atom.order for atom in product), count) for product, count in terms.items()))


def _text(terms: Terms) -> str:
    """Different for different polynomials. Not ``repr`` of the key: quotes in quotes double at each level of atoms in
    atoms."""
    return " + ".join("*".join((*product, str(count))) for product, count in key_of(terms)) or "0"


def constant(value: int) -> Terms:
    return {(): value} if value else {}


def constant_of(terms: Terms) -> int | None:
    """The integer that the polynomial is, or None where it has symbols."""
    if not terms:
        return 0
    return terms.get(()) if len(terms) == 1 else None


def ratio(kind: str, left: Terms, right: Terms) -> Terms:
    """``left // right`` or ``left % right``, by ``kind``, for a divisor that is never below 1."""
    divisor = constant_of(right)
    whole: Terms = {}
    if divisor is not None:
        whole, left = split(left, divisor)
    elif (exact := divided(left, right)) is not None:
        whole, left = exact, {}
    low, high = bounds_of(left)
    settled = low >= 0 and bounds_of(summed(left, right, -1))[1] < 0
    if kind == "%":
        return left if settled else {(Combined("%", left, right),): 1}
    if settled:
        return whole
    if divisor is not None and low // divisor == high // divisor:
        return summed(whole, constant(low // divisor))
    return summed(whole, {(Combined("//", left, right),): 1})


def extreme(kind: str, left: Terms, right: Terms) -> Terms:
    """``min`` or ``max`` of the two, by ``kind``."""
    low, high = bounds_of(summed(left, right, -1))
    if low >= 0 or high <= 0:
        return left if (low >= 0) == (kind == "max") else right
    first, second = sorted((left, right), key=key_of)
    return {(Combined(kind, first, second),): 1}


def bounds_of(terms: Terms) -> Interval:
    """What the polynomial is never below, and never above."""
    return _bounds(terms, {})


def _bounds(terms: Terms, known: dict[frozenset[tuple[Product, int]], Interval]) -> Interval:
    """``known``: the polynomials looked at so far, which the same atoms lead to in any order of unfolding."""
    key = frozenset(terms.items())
    if key in known:
        return known[key]
    low, high = known[key] = interval_of(terms)
    if len(known) > _UNFOLDED_MAX:
        return low, high
    for product, count in terms.items():
        if len(product) == 1 and isinstance(atom := product[0], Combined) and _unfolds(atom):
            rest = {other: times for other, times in terms.items() if other != product}
            least, most = _bounds_unfolded(atom, count, rest, known)
            low, high = max(low, least), min(high, most)
    known[key] = low, high
    return low, high


def _unfolds(atom: Combined) -> bool:
    return atom.kind in ("min", "max") or (atom.kind == "//" and constant_of(atom.right) is not None)


def _bounds_unfolded(
    atom: Combined, count: int, rest: Terms, known: dict[frozenset[tuple[Product, int]], Interval]
) -> Interval:
    """Bounds of ``count * atom + rest``, with what the atom is made of put into the sum."""
    if atom.kind == "//":
        # divisor * (count * (left // divisor) + rest) = count * left + divisor * rest - count * (left % divisor)
        divisor = constant_of(atom.right)
        assert divisor is not None
        low, high = _bounds(summed(multiplied(rest, constant(divisor)), atom.left, count), known)
        slack = count * (divisor - 1)
        return -(-(low - max(slack, 0)) // divisor), (high - min(slack, 0)) // divisor
    first, second = (_bounds(summed(rest, side, count), known) for side in (atom.left, atom.right))
    pick = min if (atom.kind == "min") == (count > 0) else max
    return pick(first[0], second[0]), pick(first[1], second[1])


def _interval(kind: str, left: Interval, right: Interval) -> Interval:
    if kind == "%":
        return 0, right[1] - 1
    if kind == "//":
        ends = [end // divisor for end in left for divisor in right]
        return min(ends), max(ends)
    pick = min if kind == "min" else max
    return pick(left[0], right[0]), pick(left[1], right[1])
