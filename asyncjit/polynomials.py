"""Polynomials with integer coefficients: sums, products, exact quotients, intervals.

Law: arithmetic on mappings from products of atoms to coefficients; knows of atoms only that they sort by ``order`` and
have an ``interval``. Imports nothing of the project.

No coefficient is 0 and every product is sorted, so equal polynomials are equal mappings. The empty product stands for
1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias, TypeVar

__all__ = ["Atom", "Interval", "divided", "interval_of", "multiplied", "split", "summed"]

Interval: TypeAlias = tuple[int, int]


class Atom(Protocol):
    """What a polynomial is made of; hashable, and equal by structure."""

    @property
    def order(self) -> str:
        """Text that sorts atoms, different for different ones."""
        ...

    @property
    def interval(self) -> Interval:
        """What its values are never below, and never above."""
        ...


#: Short polynomials have long quotients: (n**k - 1) // (n - 1) has k terms, and with several variables the numbers
#: multiply.
QUOTIENT_TERMS_MAX = 100

A = TypeVar("A", bound=Atom)
Terms: TypeAlias = Mapping[tuple[A, ...], int]


def summed(left: Terms[A], right: Terms[A], scale: int = 1) -> dict[tuple[A, ...], int]:
    """``left + scale * right``."""
    result = dict(left)
    for product, count in right.items():
        result[product] = result.get(product, 0) + scale * count
    return {product: count for product, count in result.items() if count}


def multiplied(left: Terms[A], right: Terms[A]) -> dict[tuple[A, ...], int]:
    result: dict[tuple[A, ...], int] = {}
    for one, count in left.items():
        for other, times in right.items():
            product = tuple(sorted(one + other, key=_order))
            result[product] = result.get(product, 0) + count * times
    return {product: count for product, count in result.items() if count}


def divided(dividend: Terms[A], divisor: Terms[A]) -> dict[tuple[A, ...], int] | None:
    """The exact quotient, or None where there is a remainder, or more than ``QUOTIENT_TERMS_MAX`` terms. Long division
    by the leading term: degree first, then the order of the atoms, which products keep, so that each step takes the
    leading term away."""
    lead = max(divisor, key=_rank)
    rest: Terms[A] = dividend
    result: dict[tuple[A, ...], int] = {}
    while rest:
        top = max(rest, key=_rank)
        factor = _without(top, lead)
        if factor is None or rest[top] % divisor[lead] or len(result) == QUOTIENT_TERMS_MAX:
            return None
        result[factor] = rest[top] // divisor[lead]
        rest = summed(rest, multiplied(divisor, {factor: result[factor]}), -1)
    return result


def split(terms: Terms[A], divisor: int) -> tuple[dict[tuple[A, ...], int], dict[tuple[A, ...], int]]:
    """``(a, b)`` with ``terms == divisor * a + b`` and the coefficients of ``b`` from 0 to below ``divisor``."""
    whole = {product: count // divisor for product, count in terms.items() if count // divisor}
    return whole, {product: count % divisor for product, count in terms.items() if count % divisor}


def interval_of(terms: Terms[A]) -> Interval:
    """What the polynomial is never below, and never above, were all its products independent."""
    low = high = 0
    for product, count in terms.items():
        least = most = count
        for atom in product:
            ends = [end * limit for end in (least, most) for limit in atom.interval]
            least, most = min(ends), max(ends)
        low, high = low + least, high + most
    return low, high


def _order(atom: Atom) -> str:
    return atom.order


def _rank(product: tuple[A, ...]) -> tuple[int, list[str]]:
    return len(product), [atom.order for atom in product]


def _without(product: tuple[A, ...], divisor: tuple[A, ...]) -> tuple[A, ...] | None:
    rest = list(product)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)
