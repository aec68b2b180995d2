"""What a failed call means to the user, and how an error is kept without keeping what it saw.

Law: errors in, errors out.
"""

from __future__ import annotations

import traceback

from asyncjit.errors import AsyncJitError, KernelError
from asyncjit.program import Program

__all__ = ["kept", "kernel_error", "let_out_interrupt"]


def kernel_error(program: Program, error: BaseException, call_index: int | None) -> BaseException:
    """Which call of which function failed, with the cause chained."""
    kept(error)
    if call_index is None or isinstance(error, AsyncJitError):
        return error
    call = program.schedule.calls[call_index]
    shapes = [f"{operand.dtype}{list(operand.shape)}" for operand in call.operands]
    where = f" (recorded at {call.source})" if call.source else ""
    failure = KernelError(
        f"call {call_index} of {program.name!r}, kernel {call.name!r} on {', '.join(shapes)}{where}, failed: "
        f"{type(error).__name__}: {error}; what this replay writes is invalid until it is overwritten",
        kernel=call.name,
        call_index=call_index,
        shapes=shapes,
        function=program.name,
    )
    failure.__cause__ = error
    return failure


def kept(error: BaseException) -> BaseException:
    """The error with its traceback, and those of what caused it, as text in a note.

    The scheduler keeps the error of a failed replay until what it left is overwritten. A traceback holds frames, each
    frame the one that called it, down to the worker's, and those the arrays of the replay.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        found = pending.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        pending += [found.__cause__, found.__context__]
        lines = traceback.format_tb(found.__traceback__)
        found.__traceback__ = None
        if lines:
            found.add_note("It was raised at (most recent call last):\n" + "".join(lines).rstrip())
    return error


def let_out_interrupt(error: BaseException) -> None:
    """Ctrl-C during an inline run failed the replay; it is the caller's all the same."""
    for found in (error, error.__cause__):
        if found is not None and not isinstance(found, Exception):
            raise found
