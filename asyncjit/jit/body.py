"""Running a function's body once: to record it, to inline it, or to warm it up.

Law: the only place where the user's function is called. A body may be ``def`` or ``async def``; an ``async def`` body
is driven by hand and must not really suspend, since there is nothing to wait for while nothing is computed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from asyncjit.capture import Captured, Output, Recorder, finish
from asyncjit.engine import Engine
from asyncjit.errors import CaptureError
from asyncjit.jit.signature import Parameters, Values
from asyncjit.jit.structure import Structure, take_apart
from asyncjit.jit.tokens import is_number
from asyncjit.loading import recording as engine_recording
from asyncjit.numpy import Array
from asyncjit.numpy._dispatch import by_hand, recording
from asyncjit.numpy._handle import ArraySpec
from asyncjit.user_code import line_of
from asyncjit.variables import Bound, Variable

__all__ = ["Body", "Ready", "inlining", "is_inlining", "record", "run_body"]

R = TypeVar("R")


class Body:
    """A body that is running: jitted functions called in it are inlined, as long as it is ``active``."""

    __slots__ = ("active", "is_async")

    def __init__(self) -> None:
        self.active = True
        self.is_async = False


#: The innermost body that runs in this context; tasks that it starts inherit it, hence ``active``.
inlining: ContextVar[Body | None] = ContextVar("asyncjit.inlining", default=None)


def is_inlining() -> bool:
    """Whether a body runs here, so that jitted functions are part of it."""
    body = inlining.get()
    return body is not None and body.active


class Ready(Generic[R]):
    """What an inlined function gives in an ``async def`` body: awaitable like a Replay, and ready."""

    __slots__ = ("result",)

    def __init__(self, result: R) -> None:
        self.result = result

    def __await__(self) -> Generator[Any, Any, R]:
        return self.result
        yield


def run_body(function: Callable[..., Any], parameters: Parameters, values: Values, name: str) -> Any:
    """Call the function with jitted callees inlined; what it returns, awaited when it is a coroutine."""
    body = Body()
    token, outer = inlining.set(body), by_hand.set(body)
    try:
        result = parameters.call(function, values)
        if inspect.iscoroutine(result):
            body.is_async = True
            result = _drive(result, name)
        return result
    finally:
        body.active = False
        by_hand.reset(outer)
        inlining.reset(token)


def _drive(coroutine: Coroutine[Any, Any, Any], name: str) -> Any:
    """Run a coroutine that must not suspend."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    where, awaited = _place(coroutine)
    # Its cleanup may raise whatever it likes: what went wrong is told below.
    with suppress(Exception):
        coroutine.close()
    raise CaptureError(
        f"{name!r} awaits {awaited} at {where}{line_of(where)}, which really waits for something; a recorded function "
        "may await jitted functions and arrays only, so await the rest before the call and pass the outcome in",
        function=name,
        where=where,
        awaited=awaited,
    )


def _place(coroutine: Any) -> tuple[str, str]:
    """Where a suspended coroutine stands, and what it awaits."""
    frame, awaited = coroutine.cr_frame, coroutine.cr_await
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""
    label = getattr(awaited, "__qualname__", None) or f"a {type(awaited).__qualname__}"
    return where, label


@contextmanager
def _recording(recorder: Recorder) -> Generator[None, None, None]:
    token = recording.set(recorder)
    was_active, engine_recording.active = engine_recording.active, True
    try:
        yield
    finally:
        engine_recording.active = was_active
        recording.reset(token)
        recorder.close()


class Argument:
    """One array argument of a first call: its layout, and its storage where it has one."""

    __slots__ = ("offset", "spec", "storage")

    def __init__(self, spec: ArraySpec, storage: Any, offset: int) -> None:
        self.spec = spec
        self.storage = storage
        self.offset = offset


class Recorded:
    """What recording a function gives: the schedule, how to put its result together, and what its arguments are
    called."""

    __slots__ = ("build", "captured", "names")

    def __init__(self, captured: Captured, build: Structure, names: list[str]) -> None:
        self.captured = captured
        self.build = build
        self.names = names


def record(
    engine: Engine,
    function: Callable[..., Any],
    parameters: Parameters,
    values: Values,
    arguments: list[Argument],
    name: str,
) -> Recorded:
    """Run the function once, on stand-ins for ``arguments``, and make a schedule of what it does. Computes nothing.

    Raises:
        CaptureError: it cannot be recorded.
        BaseException: whatever the function raises.
    """
    recorder = Recorder(engine, name)
    with _recording(recorder):
        outputs, build = _run_on_stand_ins(recorder, function, parameters, values, arguments)
    return Recorded(finish(recorder, outputs), build, [each.name for each in recorder.inputs])


def _run_on_stand_ins(
    recorder: Recorder,
    function: Callable[..., Any],
    parameters: Parameters,
    values: Values,
    arguments: list[Argument],
) -> tuple[list[Output], Structure]:
    """A frame of its own: when it is gone, no array of the recording is alive unless the function kept it."""
    remaining = iter(arguments)

    def stand_in(leaf: object, path: str) -> Array | Variable:
        if isinstance(leaf, Bound):
            return leaf.variable
        argument = next(remaining)
        return recorder.placeholder(argument.spec, path, argument.storage, argument.offset, is_number(leaf))

    result = run_body(function, parameters, parameters.rebuild(values, stand_in), recorder.name)
    pieces, build = take_apart(result, recorder.name)
    outputs = [Output(recorder.buffer_of(array._storage), array._offset, array._spec, path) for path, array in pieces]
    return outputs, build
