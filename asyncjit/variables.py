"""Variables: what a user makes, binds and passes, and the values of one call.

Law: the two classes of the surface, and how expressions are evaluated. Imports ``symbols`` and below.

Expressions are evaluated at every replay, so a tree of them becomes one Python function: each distinct expression is
computed once, into a local name, and the tree is built of these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from asyncjit.algebra import Combined, Symbol, Terms, key_of
from asyncjit.symbols import Expr, Int

__all__ = ["Bound", "Evaluate", "Variable", "compiled", "evaluate", "has_symbols", "symbols_in"]

#: A function of the values of some symbols, one after the other.
Evaluate = Callable[..., Any]


class Variable(Expr):
    """An integer named ``name`` from ``min`` to ``max``, both included, that a captured function takes as an argument.

    ``f(x, n.bind(17))`` calls with the value 17. While ``f`` is recorded the argument is symbolic, so that one capture
    serves every value. Variables are equal when name and range are.

    Raises:
        ValueError: ``min`` is above ``max``, or the name is empty.
    """

    __slots__ = ("symbol",)

    def __init__(self, name: str, min: int, max: int) -> None:
        if not name or not min <= max:
            raise ValueError(f"a variable needs a name and a range min <= max, got {name!r}, {min} and {max}")
        self.symbol = Symbol(str(name), int(min), int(max))
        super().__init__({(self.symbol,): 1})

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.symbol.name

    @property
    def min(self) -> int:
        """The least value."""
        return self.symbol.min

    @property
    def max(self) -> int:
        """The greatest value."""
        return self.symbol.max

    def bind(self, value: int) -> Bound:
        """This variable with a value, to be passed to a captured function; anywhere else an ordinary ``int``.

        Raises:
            ValueError: outside the range.
        """
        number = int(value)
        if not self.min <= number <= self.max:
            raise ValueError(
                f"{self.name} takes values from {self.min} to {self.max}, got {number}; bind another value, or make "
                "the variable with a larger range"
            )
        bound = Bound(number)
        bound.variable = self
        return bound

    def __reduce__(self) -> tuple[Any, ...]:
        return Variable, tuple(self.symbol)


class Bound(int):
    """The value of a variable in one call: an ``int`` that knows its ``variable``."""

    variable: Variable

    def __reduce__(self) -> tuple[Any, ...]:
        return Variable.bind, (self.variable, int(self))


# Evaluation.


def symbols_in(tree: Hashable) -> dict[Symbol, None]:
    """The symbols in expressions and tuples of them, nested at will, in the order in which they are met."""
    found: dict[Symbol, None] = {}
    for expr in _expressions(tree):
        _collect(expr.terms, found)
    return found


def _collect(terms: Terms, found: dict[Symbol, None]) -> None:
    for product in terms:
        for atom in product:
            if isinstance(atom, Symbol):
                found[atom] = None
            else:
                _collect(atom.left, found)
                _collect(atom.right, found)


def has_symbols(tree: Hashable) -> bool:
    """Whether an expression stands anywhere in it."""
    return next(_expressions(tree), None) is not None


def _expressions(tree: Hashable) -> Iterator[Expr]:
    if isinstance(tree, Expr):
        yield tree
    elif isinstance(tree, tuple):
        for each in tree:
            yield from _expressions(each)


def evaluate(value: Int, values: Mapping[Symbol, int]) -> int:
    """The integer that ``value`` is for these values of its symbols."""
    symbols = tuple(symbols_in(value))
    result: int = compiled(value, symbols)(*(values[symbol] for symbol in symbols))
    return result


def compiled(tree: Hashable, symbols: Sequence[Symbol]) -> Evaluate:
    """A function of the values of ``symbols``, in their order, that gives ``tree`` with each expression evaluated.

    What is neither expression nor tuple stays as it is. All symbols of the tree are among ``symbols``.
    """
    writer = _Writer(symbols)
    result = writer.tree(tree)
    lines = [f"def evaluate({', '.join(writer.names.values())}):", *writer.lines, f"    return {result}"]
    scope: dict[str, Any] = {"__builtins__": {}, "min": min, "max": max, "fixed": tuple(writer.fixed)}
    # The text is made of digits, operators and names that are numbered here; nothing of a user's stands in it.
    exec("\n".join(lines), scope)
    function: Evaluate = scope["evaluate"]
    return function


class _Writer:
    """Writes expressions as lines of Python, each once."""

    def __init__(self, symbols: Sequence[Symbol]) -> None:
        self.names: dict[Hashable, str] = {symbol: f"v{index}" for index, symbol in enumerate(symbols)}
        self.lines: list[str] = []
        self.fixed: list[object] = []
        self._locals: dict[object, str] = {}

    def tree(self, tree: Hashable) -> str:
        if isinstance(tree, tuple):
            return "(" + "".join(f"{self.tree(each)}, " for each in tree) + ")"
        if isinstance(tree, Expr):
            return self.polynomial(tree.terms)
        if type(tree) is int:
            return str(tree)
        self.fixed.append(tree)
        return f"fixed[{len(self.fixed) - 1}]"

    def polynomial(self, terms: Terms) -> str:
        products = [self._product(product, count) for product, count in terms.items()]
        return self._local(key_of(terms), " + ".join(products) or "0")

    def _product(self, product: Sequence[Symbol | Combined], count: int) -> str:
        factors = [self._atom(atom) for atom in product]
        return " * ".join(factors if count == 1 and factors else [*factors, f"({count})"])

    def _atom(self, atom: Symbol | Combined) -> str:
        if isinstance(atom, Symbol):
            return self.names[atom]
        left, right = self.polynomial(atom.left), self.polynomial(atom.right)
        text = f"{atom.kind}({left}, {right})" if atom.kind in ("min", "max") else f"({left}) {atom.kind} ({right})"
        return self._local(atom.order, text)

    def _local(self, key: object, text: str) -> str:
        name = self._locals.get(key)
        if name is None:
            name = self._locals[key] = f"x{len(self._locals)}"
            self.lines.append(f"    {name} = {text}")
        return name
