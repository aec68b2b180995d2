"""Symbolic integers: what a shape, an offset or a number may be while a function is recorded.

Law: the class, its operators, and functions that take expressions and plain integers alike; the rules are in
``algebra``. Imports ``algebra``, ``user_code`` and ``errors`` only.

Operators compare as a user means it: a bool where the ranges decide, else an error. ``same`` compares structure, and
refuses nothing; it is what rules about shapes use, so what they leave open is an error of theirs, and never a value of
the first call that is kept.
"""

from __future__ import annotations

import numbers
from typing import Any, NoReturn, TypeAlias

from asyncjit.algebra import Atom, Symbol, Terms, bounds_of, constant, constant_of, extreme, key_of, ratio
from asyncjit.errors import HostReadError
from asyncjit.polynomials import Interval, multiplied, summed
from asyncjit.user_code import line_of, where_in_user_code

__all__ = ["Expr", "Int", "bounds", "combine", "lower", "refuse", "same", "upper"]


class Expr:
    """A symbolic integer that is not a constant. Immutable.

    ``+ - * // %`` with integers and other expressions give expressions, or an ``int`` where the variables drop out. A
    comparison gives a bool where the ranges decide it.

    Raises:
        HostReadError: the value itself is asked for (a comparison that depends on it, ``int``, ``range``, ``if``), or
            something is divided by what may be 0.
    """

    __slots__ = ("_bounds", "_hash", "key", "terms")

    # NumPy's scalars leave mixed expressions to us.
    __array_ufunc__ = None

    def __init__(self, terms: Terms) -> None:
        self.terms: Terms = dict(sorted(terms.items(), key=_order))
        self.key = key_of(terms)
        # Of the text: equal hashes of different expressions would have dictionaries compare them, which may refuse, and
        # the numbers -1 and -2 have the same hash.
        self._hash = hash(repr(self.key))
        self._bounds: Interval | None = None

    @property
    def bounds(self) -> Interval:
        """What the value is never below, and never above."""
        if self._bounds is None:
            self._bounds = bounds_of(self.terms)
        return self._bounds

    def at_least(self, limit: Int) -> Int:
        """The larger of this and ``limit``, which ``max`` says only where the ranges decide."""
        return combine("max", self, limit)

    def at_most(self, limit: Int) -> Int:
        """The smaller of this and ``limit``, which ``min`` says only where the ranges decide."""
        return combine("min", self, limit)

    def __add__(self, other: object) -> Any:
        return NotImplemented if (given := _integer(other)) is None else _from(summed(self.terms, _terms(given)))

    __radd__ = __add__

    def __sub__(self, other: object) -> Any:
        return NotImplemented if (given := _integer(other)) is None else _sum(self, given, -1)

    def __rsub__(self, other: object) -> Any:
        return NotImplemented if (given := _integer(other)) is None else _sum(given, self, -1)

    def __mul__(self, other: object) -> Any:
        return NotImplemented if (given := _integer(other)) is None else _product(self, given)

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> Any:
        return NotImplemented if (given := _integer(other)) is None else combine("//", self, given)

    def __rfloordiv__(self, other: object) -> Any:
        return NotImplemented if (given := _integer(other)) is None else combine("//", given, self)

    def __mod__(self, other: object) -> Any:
        return NotImplemented if (given := _integer(other)) is None else combine("%", self, given)

    def __rmod__(self, other: object) -> Any:
        return NotImplemented if (given := _integer(other)) is None else combine("%", given, self)

    def __neg__(self) -> Any:
        return _product(self, -1)

    def __pos__(self) -> Expr:
        return self

    def __eq__(self, other: object) -> Any:
        given = _integer(other)
        if given is None:
            return NotImplemented
        if same(self, given):
            return True
        low, high = bounds(_sum(self, given, -1))
        if low > 0 or high < 0:
            return False
        return low == high or refuse(f"{self} == {given}", self)

    def __ne__(self, other: object) -> Any:
        return NotImplemented if (equal := self.__eq__(other)) is NotImplemented else not equal

    def __lt__(self, other: object) -> Any:
        return (
            NotImplemented if (given := _integer(other)) is None else _is_below(self, given, f"{self} < {given}", self)
        )

    def __ge__(self, other: object) -> Any:
        if (given := _integer(other)) is None:
            return NotImplemented
        return not _is_below(self, given, f"{self} >= {given}", self)

    def __gt__(self, other: object) -> Any:
        return (
            NotImplemented if (given := _integer(other)) is None else _is_below(given, self, f"{self} > {given}", self)
        )

    def __le__(self, other: object) -> Any:
        if (given := _integer(other)) is None:
            return NotImplemented
        return not _is_below(given, self, f"{self} <= {given}", self)

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __index__(self) -> int:
        refuse("an integer", self)

    __int__ = __index__

    def __float__(self) -> float:
        refuse("a float", self)

    def __repr__(self) -> str:
        return _words(self.terms)


#: An integer that is known, or one of which each replay has a value of its own.
Int: TypeAlias = int | Expr


def _order(term: tuple[tuple[Atom, ...], int]) -> tuple[int, list[str]]:
    return len(term[0]), [atom.order for atom in term[0]]


def _words(terms: Terms) -> str:
    """Highest degree first, as one writes it."""
    return " + ".join(map(_word, sorted(terms.items(), key=_order, reverse=True))).replace("+ -", "- ") or "0"


def _word(term: tuple[tuple[Atom, ...], int]) -> str:
    product, count = term
    factors = [_atom_word(atom) for atom in product]
    if count == -1 and factors:
        factors[0] = f"-{factors[0]}"
    elif count != 1 or not factors:
        factors.insert(0, str(count))
    return "*".join(factors)


def _atom_word(atom: Atom) -> str:
    if isinstance(atom, Symbol):
        return atom.name
    left, right = _words(atom.left), _words(atom.right)
    return f"{atom.kind}({left}, {right})" if atom.kind in ("min", "max") else f"(({left}) {atom.kind} ({right}))"


def refuse(what: str, given: Expr) -> NoReturn:
    """The value is asked for, and there is none.

    Raises:
        HostReadError: always; names the line of the user's code.
    """
    where = where_in_user_code()
    low, high = given.bounds
    raise HostReadError(
        f"{what} at {where}{line_of(where)} asks for the value of {given}, which each replay has its own of (from "
        f"{low} to {high}); compute with it (shapes, slices, + - * // %, at_least, at_most, anp.where), make its range "
        "one that decides, or pass a plain int, which is captured for each value apart",
        where=where,
        given=str(given),
    )


def same(left: Int, right: Int) -> bool:
    """Whether they are equal by structure: what is true of one value and not of another is False here."""
    if isinstance(left, Expr):
        return isinstance(right, Expr) and left.key == right.key
    return not isinstance(right, Expr) and left == right


def bounds(value: Int) -> Interval:
    """What ``value`` is never below, and never above."""
    return value.bounds if isinstance(value, Expr) else (value, value)


def lower(value: Int) -> int:
    """What ``value`` is never below."""
    return value.bounds[0] if isinstance(value, Expr) else value


def upper(value: Int) -> int:
    """What ``value`` is never above."""
    return value.bounds[1] if isinstance(value, Expr) else value


def combine(kind: str, left: Int, right: Int) -> Int:
    """``left kind right``, where ``kind`` is one of ``// % min max``, as simple as the rules make it.

    Raises:
        ZeroDivisionError: division by 0. HostReadError: the divisor may be 0, or change its sign.
    """
    if kind in ("min", "max"):
        return _from(extreme(kind, _terms(left), _terms(right)))
    low, high = bounds(right)
    if low <= 0 <= high:
        if isinstance(right, Expr):
            refuse(f"a division by {right}", right)
        raise ZeroDivisionError(f"{left} {kind} 0")
    if high < 0:
        result = combine(kind, _product(left, -1), _product(right, -1))
        return result if kind == "//" else _product(result, -1)
    return _from(ratio(kind, _terms(left), _terms(right)))


def _sum(left: Int, right: Int, scale: int = 1) -> Int:
    return _from(summed(_terms(left), _terms(right), scale))


def _product(left: Int, right: Int) -> Int:
    return _from(multiplied(_terms(left), _terms(right)))


def _is_below(left: Int, right: Int, what: str, culprit: Expr) -> bool:
    low, high = bounds(_sum(left, right, -1))
    if high < 0 or low >= 0:
        return high < 0
    refuse(what, culprit)


def _integer(value: object) -> Int | None:
    """An expression or integer as an ``Int``, anything else as None."""
    if isinstance(value, Expr):
        return value
    # Not operator.index: an array without axes has one too, and adding it is the array's to do.
    return int(value) if isinstance(value, numbers.Integral) else None


def _terms(value: Int) -> Terms:
    return value.terms if isinstance(value, Expr) else constant(value)


def _from(terms: Terms) -> Int:
    value = constant_of(terms)
    return Expr(terms) if value is None else value
