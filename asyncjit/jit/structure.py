"""Structures: what a function returns, taken apart at the recording and put together at every replay.

Law: knows containers and arrays; runs at the end of every replay that somebody looks at, so it does little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from asyncjit.errors import CaptureError
from asyncjit.jit.tokens import contents, refilled
from asyncjit.numpy import Array
from asyncjit.replay import Replay

__all__ = ["Structure", "bare", "take_apart"]

#: Puts a structure together from the arrays in it.
Structure = Callable[[Sequence[Array]], Any]


def take_apart(value: Any, function: str) -> tuple[list[tuple[str, Array]], Structure]:
    """The arrays in a returned value, each once, with their places in it (``[2]['n']``), and how to rebuild it.

    An array that stands in several places is one array afterwards too. None may stand anywhere.

    Raises:
        CaptureError: something else is in it; the message names the place.
    """
    leaves: dict[int, tuple[int, str, Array]] = {}
    if isinstance(value, Array):
        return [("", value)], bare
    build = _visit(value, "", leaves, function)
    return [(path, array) for _, path, array in leaves.values()], build


def bare(arrays: Sequence[Array]) -> Array:
    """What a function that returns one array returns."""
    return arrays[0]


def _visit(value: Any, path: str, leaves: dict[int, tuple[int, str, Array]], function: str) -> Structure:
    if isinstance(value, Array):
        index, _, _ = leaves.setdefault(id(value), (len(leaves), path, value))
        return lambda arrays: arrays[index]
    if value is None:
        return lambda arrays: None
    inside = contents(value)
    if inside is None:
        _refuse(value, path, function)
    builders = [_visit(each, f"{path}[{label!r}]", leaves, function) for label, each in inside]
    # The shell keeps types, keys and fields; the arrays of the recording must not live on in it.
    shell = refilled(value, [None] * len(builders))
    return lambda arrays: refilled(shell, [build(arrays) for build in builders])


def _refuse(value: object, path: str, function: str) -> NoReturn:
    kind = type(value)
    where = f"return value{path} of {function!r}"
    remedy = "return arrays (and None) only: the value would be that of the recording, for ever"
    if isinstance(value, Replay):
        remedy = "return its result"
    elif isinstance(value, bool | int | float | complex):
        remedy = f"make it an array with anp.asarray({value!r}), or keep it outside of the function"
    article = "an" if kind.__name__[0] in "aeiou" else "a"
    raise CaptureError(
        f"{where} is {article} {kind.__qualname__}; {remedy}",
        function=function,
        where=f"return value{path}",
        given=kind,
    )
