"""The decorator ``jit``.

Law: types and options only; what a jitted function does is in ``function``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from asyncjit.jit.function import JitFunction
from asyncjit.jit.options import Options

__all__ = ["jit"]

P = ParamSpec("P")
R = TypeVar("R")


class Decorator(Protocol):
    """``jit(...)`` with options, waiting for its function."""

    @overload
    def __call__(self, f: Callable[P, Coroutine[Any, Any, R]], /) -> JitFunction[P, R]: ...
    @overload
    def __call__(self, f: Callable[P, R], /) -> JitFunction[P, R]: ...


@overload
def jit(
    f: Callable[P, Coroutine[Any, Any, R]],
    /,
    *,
    static: str | Iterable[str] = ...,
    dynamic: str | Iterable[str] = ...,
    warm_up: int = ...,
    in_flight_max: int = ...,
    captures_max: int = ...,
    captures_bytes_max: int | None = ...,
    strict: bool = ...,
    prune: bool = ...,
    on_cancel: str = ...,
    executor: str | None = ...,
) -> JitFunction[P, R]: ...
@overload
def jit(
    f: Callable[P, R],
    /,
    *,
    static: str | Iterable[str] = ...,
    dynamic: str | Iterable[str] = ...,
    warm_up: int = ...,
    in_flight_max: int = ...,
    captures_max: int = ...,
    captures_bytes_max: int | None = ...,
    strict: bool = ...,
    prune: bool = ...,
    on_cancel: str = ...,
    executor: str | None = ...,
) -> JitFunction[P, R]: ...
@overload
def jit(
    f: None = None,
    /,
    *,
    static: str | Iterable[str] = ...,
    dynamic: str | Iterable[str] = ...,
    warm_up: int = ...,
    in_flight_max: int = ...,
    captures_max: int = ...,
    captures_bytes_max: int | None = ...,
    strict: bool = ...,
    prune: bool = ...,
    on_cancel: str = ...,
    executor: str | None = ...,
) -> Decorator: ...
def jit(
    f: Callable[..., Any] | None = None,
    /,
    *,
    static: str | Iterable[str] = (),
    dynamic: str | Iterable[str] = (),
    warm_up: int = 0,
    in_flight_max: int = 4,
    captures_max: int = 8,
    captures_bytes_max: int | None = None,
    strict: bool = False,
    prune: bool = False,
    on_cancel: str = "shield",
    executor: str | None = None,
) -> Any:
    """Make a function of arrays, ``def`` or ``async def``, one whose calls are captured once and replayed.

    The first call for a combination of layouts and values runs the Python code once to record what it does with arrays;
    every further call replays that, whatever the arrays hold. Python side effects therefore happen at the recording
    only, and Python values that the function met are fixed: arguments by (type, value), closure cells and globals by
    identity, attributes (``self.scale``) not at all. Arrays that the function reads from outside are state: their
    contents are read at each replay, and may be written with ``a[...] = v``.

    Args:
        static: parameters that count by value, numbers too; any hashable object is admitted.
        dynamic: parameters whose integers and booleans become arrays without axes, as floats always do.
        warm_up: 1 runs the function eagerly once, before the first capture.
        in_flight_max: replays of this function that may run at a time, over all its captures.
        captures_max: captures held; the least recently used one goes.
        captures_bytes_max: bytes of frames and constants that captures may need together, one frame each; the least
            recently used ones go, but never the latest.
        strict: refuse a second signature with ReplayMismatchError.
        prune: compute what depends on no argument and on nothing that the function itself writes once, and again only
            after the bytes of state that it reads were written. Results are the same as without.
        on_cancel: what a cancelled wait does to running work that writes state: "shield" finishes it first, "abandon"
            releases the waiter at once.
        executor: "numpy" or "native" pins what runs the kernels; None lets the device choose.

    Raises:
        TypeError: ``f`` is no function, or a generator.
        ValueError: an option is out of its range, or names what is no parameter.
    """
    options = Options(
        static=_names(static),
        dynamic=_names(dynamic),
        warm_up=warm_up,
        in_flight_max=in_flight_max,
        captures_max=captures_max,
        captures_bytes_max=captures_bytes_max,
        strict=strict,
        prune=prune,
        on_cancel=on_cancel,
        executor=executor,
    )
    if f is None:
        return lambda function: JitFunction(function, options)
    return JitFunction(f, options)


def _names(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
