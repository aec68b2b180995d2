"""Tokens in words, for messages and lists of captures.

Law: text only; knows what tokens look like, not where they come from.
"""

from __future__ import annotations

from typing import Any

from asyncjit.algebra import Symbol
from asyncjit.numpy._handle import ArraySpec

__all__ = ["describe_token", "in_words"]


def describe_token(token: Any) -> str:
    """A token in words."""
    if isinstance(token, ArraySpec):
        return _describe_spec(token)
    if token[0] == "#":
        return _describe_spec(token[1])
    if token[0] == "$":
        return in_words(Symbol(*token[1:]))
    if token[0] == "=":
        _, kind, value = token
        if issubclass(kind, float):
            return repr(float.fromhex(value))
        if issubclass(kind, complex):
            return repr(complex(*map(float.fromhex, value)))
        if issubclass(kind, tuple):
            return "(" + ", ".join(map(describe_token, value)) + ")"
        return repr(value)
    _, kind, labels, *tokens = token
    words = list(map(describe_token, tokens))
    if labels:
        words = [f"{label!r}: {word}" for (_, _, label), word in zip(labels, words, strict=True)]
    return f"{kind.__name__}({', '.join(words)})"


def in_words(symbol: Symbol) -> str:
    """A variable with its range."""
    return f"{symbol.name} from {symbol.min} to {symbol.max}"


_WEAK_WORDS = {"i": "int", "f": "float", "c": "complex"}


def _describe_spec(spec: ArraySpec) -> str:
    if spec.weak and not spec.shape:
        return _WEAK_WORDS.get(spec.dtype.kind, spec.dtype.name)
    strides = "" if spec.is_contiguous else f" strides {list(spec.strides)}"
    device = "" if spec.device == "cpu" else f" on {spec.device}"
    return f"{spec.dtype.name}{list(spec.shape)}{strides}{device}"
