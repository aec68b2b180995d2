"""Signatures: what of a call decides which recording fits it.

Law: binds a call to the parameters of a function and makes one token of each value. Knows no recordings.

Keyword and positional spellings of one call give the same values, hence one key. ``static=`` and ``dynamic=`` are rules
for whole parameters, whatever is nested in them.
"""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from asyncjit.algebra import Symbol
from asyncjit.jit.tokens import HostArrays, Reader, Token, replaced
from asyncjit.jit.words import describe_token
from asyncjit.numpy import Array

__all__ = ["Parameters", "Values"]

#: The arguments of one call, one value a parameter; of functions that take ``*args``, one a position.
Values: TypeAlias = "tuple[Any, ...]"


class Parameters:
    """The parameters of one function and the rule for each: how calls become values, keys and arrays.

    Raises:
        ValueError: ``static`` or ``dynamic`` names what is no parameter, or one name stands in both.
    """

    def __init__(self, function: Callable[..., Any], static: Iterable[str], dynamic: Iterable[str]) -> None:
        self.function = getattr(function, "__qualname__", None) or repr(function)
        self.signature = _signature_of(function)
        parameters = list(self.signature.parameters.values())
        self.names = [parameter.name for parameter in parameters]
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.fixed = [parameter for parameter in parameters if parameter.kind in positional]
        kinds = [parameter.kind for parameter in parameters[len(self.fixed) :]]
        #: Only positions count: values are the arguments as they stand.
        self.is_simple = not kinds or kinds == [inspect.Parameter.VAR_POSITIONAL]
        self.takes_more = inspect.Parameter.VAR_POSITIONAL in kinds
        self.rules = self._rules(tuple(static), tuple(dynamic))
        self._position = {
            parameter.name: index
            for index, parameter in enumerate(self.fixed)
            if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        }
        #: How many positional arguments are a whole call: at least, and at most; none is where positions do not say it
        #: all.
        self.row = len(self.fixed)
        self.row_max = -1 if not self.is_simple else sys.maxsize if self.takes_more else self.row

    def _rules(self, static: tuple[str, ...], dynamic: tuple[str, ...]) -> dict[str, str]:
        for name in (*static, *dynamic):
            if name not in self.names:
                raise ValueError(
                    f"{name!r} is no parameter of {self.function!r}, which has {self.names}; name parameters in "
                    "static= and dynamic="
                )
        if both := set(static) & set(dynamic):
            raise ValueError(f"{sorted(both)} of {self.function!r} cannot be static and dynamic at once")
        return dict.fromkeys(static, "static") | dict.fromkeys(dynamic, "dynamic")

    # From a call to values, and back.

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Values:
        """One value a parameter, defaults filled in.

        Raises:
            TypeError: the call does not fit the function.
        """
        if self.is_simple:
            if not kwargs and self.row <= len(args) <= self.row_max:
                return args
            if (values := self._place(args, kwargs)) is not None:
                return values
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.function}() {error}") from None
        bound.apply_defaults()
        arguments = bound.arguments
        if self.is_simple:
            more = arguments[self.names[-1]] if self.takes_more else ()
            return (*(arguments[parameter.name] for parameter in self.fixed), *more)
        return tuple(
            dict(sorted(value.items())) if isinstance(value, dict) and self._kind(name) is _VAR_KEYWORD else value
            for name, value in arguments.items()
        )

    def _place(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Values | None:
        """``bind`` for the plain case in a tenth of the time; None leaves it, and the error message, to inspect."""
        missing = inspect.Parameter.empty
        if len(args) > self.row:
            return None
        values = [*args, *(parameter.default for parameter in self.fixed[len(args) :])]
        for name, value in kwargs.items():
            index = self._position.get(name, -1)
            if index < len(args):
                return None
            values[index] = value
        return None if any(value is missing for value in values) else tuple(values)

    def _kind(self, name: str) -> Any:
        return self.signature.parameters[name].kind

    def call(self, function: Callable[..., Any], values: Values) -> Any:
        """``function`` on values as ``bind`` gives them."""
        if self.is_simple:
            return function(*values)
        bound = inspect.BoundArguments(self.signature, OrderedDict(zip(self.names, values, strict=True)))
        return function(*bound.args, **bound.kwargs)

    def name_of(self, index: int) -> str:
        """What the ``index``-th value is called."""
        if self.is_simple and index >= len(self.fixed):
            return f"{self.names[-1]}[{index - len(self.fixed)}]"
        return self.names[index]

    def rule_of(self, index: int) -> str:
        if not self.rules:
            return "auto"
        name = self.names[-1] if self.is_simple and index >= len(self.fixed) else self.names[index]
        return self.rules.get(name, "auto")

    # From values to a key and arrays.

    def key_of(
        self, values: Values, arrays: list[Array], host: HostArrays
    ) -> tuple[tuple[Token, ...], dict[Symbol, int]]:
        """The key, and the values of variables; appends the arrays in it, in order. Values that become arrays get their
        memory from ``host``.

        Raises:
            CaptureError: an argument is neither array, number, nor anything else that can be told apart by value.
            ValueError: a variable has no value, or two.
        """
        reader = Reader(arrays, host)
        tokens = [reader.token(value, self.rule_of(index), self.name_of(index)) for index, value in enumerate(values)]
        return tuple(tokens), reader.values

    def rebuild(self, values: Values, stand_in: Callable[[Any, str], Any]) -> Values:
        """Values as the recorded function sees them: every array replaced, in order, by ``stand_in(leaf, name)``."""
        return tuple(
            replaced(value, self.rule_of(index), self.name_of(index), stand_in) for index, value in enumerate(values)
        )

    def describe(self, key: Sequence[Token]) -> str:
        """A key in words: ``x: float32[32, 784], n=3``."""
        return ", ".join(
            self.name_of(index)
            + ("=" if isinstance(token, tuple) and token[0] == "=" else ": ")
            + describe_token(token)
            for index, token in enumerate(key)
        )


_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD


def _signature_of(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        # Some callables written in C do not tell; whatever is passed then counts by position or name.
        parameter = inspect.Parameter
        more = [parameter("args", parameter.VAR_POSITIONAL), parameter("kwargs", parameter.VAR_KEYWORD)]
        return inspect.Signature(more)
