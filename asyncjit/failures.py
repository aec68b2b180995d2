"""What a failed call means to the user.

Law: messages only.
"""

from __future__ import annotations

from asyncjit.errors import AsyncJitError, KernelError
from asyncjit.program import Program

__all__ = ["kernel_error"]


def kernel_error(program: Program, error: BaseException, call_index: int | None) -> BaseException:
    """Which call of which function failed, with the cause chained."""
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
