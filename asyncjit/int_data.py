"""Symbolic integers as plain data, and back.

Law: one function each way. Imports ``data_reader``, ``variables`` and below.

An expression is written as its terms, ``{"sum": [[coefficient, atom, …], …]}``, an atom as ``[name, min, max]`` or
``[kind, left, right]``. It is read by doing the arithmetic again, so that what results is as simple as ever. A short
text may ask for much arithmetic, so sums and products have a length that they may not pass, read or written.
"""

from __future__ import annotations

from typing import Any

from asyncjit.algebra import Atom, Symbol, Terms
from asyncjit.data_reader import DataReader
from asyncjit.symbols import Expr, Int, combine, lower
from asyncjit.variables import Variable

__all__ = ["LENGTH_MAX", "int_from_data", "int_to_data"]

#: Terms of a sum, and atoms of a product. Shapes of real functions have a handful.
LENGTH_MAX = 64
#: Bits of a coefficient.
_BITS_MAX = 256


def int_to_data(value: Int) -> object:
    """The integer itself, or the terms of the expression.

    Raises:
        ValueError: it has more than ``LENGTH_MAX`` terms, or a term so many atoms.
    """
    return {"sum": _terms_to_data(value.terms)} if isinstance(value, Expr) else value


def _terms_to_data(terms: Terms) -> list[Any]:
    if not _is_short(terms):
        raise ValueError(f"a symbolic integer, {Expr(terms)!r:.80}, has more than {LENGTH_MAX} terms or factors")
    return [[count, *map(_atom_to_data, product)] for product, count in terms.items()]


def _is_short(terms: Terms) -> bool:
    return (
        len(terms) <= LENGTH_MAX
        and all(len(product) <= LENGTH_MAX for product in terms)
        and all(count.bit_length() <= _BITS_MAX for count in terms.values())
    )


def _atom_to_data(atom: Atom) -> list[Any]:
    if isinstance(atom, Symbol):
        return list(atom)
    return [atom.kind, _terms_to_data(atom.left), _terms_to_data(atom.right)]


def int_from_data(it: DataReader) -> Int:
    """What ``int_to_data`` wrote.

    Raises:
        ValueError: anything else; the message names the place.
    """
    return _read_sum(it["sum"]) if isinstance(it.data, dict) else it.integer()


def _read_sum(it: DataReader) -> Int:
    total: Int = 0
    for count, *atoms in it.each(lambda term: term.each(lambda piece: piece) or term.fail("a term")):
        product: Int = _short(it, count.integer())
        for atom in atoms:
            factor = _short(atom, _read_atom(atom))
            # What was written as an atom may have become a sum.
            if _size(product) * _size(factor) > LENGTH_MAX:
                it.fail(f"of products of at most {LENGTH_MAX} terms")
            product = _short(it, product * factor)
        total = _short(it, total + product)
    return total


def _short(it: DataReader, value: Int) -> Int:
    if not _is_short(value.terms if isinstance(value, Expr) else {(): value}):
        it.fail(f"of at most {LENGTH_MAX} terms or factors")
    return value


def _size(value: Int) -> int:
    return len(value.terms) if isinstance(value, Expr) else 1


def _read_atom(it: DataReader) -> Int:
    if isinstance(it[1].data, list):
        kind, left, right = it[0].text(), _read_sum(it[1]), _read_sum(it[2])
        if kind not in ("//", "%", "min", "max") or (kind in ("//", "%") and lower(right) < 1):
            it.fail("a quotient, remainder, minimum or maximum that exists")
        return combine(kind, left, right)
    name, least, most = it[0].text(), it[1].integer(), it[2].integer()
    if not name or least > most:
        it.fail("a variable with a name and a range")
    return Variable(name, least, most)
