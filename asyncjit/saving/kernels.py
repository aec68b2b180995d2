"""A user's kernels in a plan: stored by name with the values that a call fixed, and found again.

Law: a kernel is code and stays out of the file; what is found must declare the access that the plan was made for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asyncjit.data_reader import DataReader
from asyncjit.int_data import int_from_data, int_to_data
from asyncjit.ir import Access, Call, Copy
from asyncjit.jit.kernel import OPERAND, BoundKernel, UserKernel
from asyncjit.saving.names import Names, name_of
from asyncjit.saving.values import read_value, value_to_data
from asyncjit.symbols import Expr, same

__all__ = ["check_kernel", "find_kernel", "kernel_to_data"]


def kernel_to_data(implementation: object) -> dict[str, Any]:
    """A bound kernel as data.

    Raises:
        SaveError: it does not stand in a module under its name, or one of its values cannot be stored.
        ValueError: a symbolic argument is too long to be stored.
    """
    assert isinstance(implementation, BoundKernel)
    kernel = implementation.kernel
    what = f"kernel {kernel._name!r}: argument"
    return {
        "kernel": name_of(kernel, "kernel"),
        "positional": implementation.positional,
        "arguments": [
            [name, None if value is OPERAND else [_argument_to_data(value, f"{what} {name!r}")]]
            for name, value in implementation.arguments
        ],
    }


def _argument_to_data(value: object, what: str) -> object:
    return {"symbolic": int_to_data(value)} if isinstance(value, Expr) else value_to_data(value, what)


def _read_argument(it: DataReader, names: Names) -> Any:
    return int_from_data(it["symbolic"]) if "symbolic" in it else read_value(it, names)


def find_kernel(it: DataReader, name: str, access: Sequence[Access], names: Names) -> BoundKernel:
    """The bound kernel again.

    Raises:
        ValueError: there is no such kernel here, or it has changed.
    """
    kernel = names.find(it["kernel"], "kernel")
    if not isinstance(kernel, UserKernel) or kernel._name != name:
        it["kernel"].fail(f"the name of {name!r}, made by aj.kernel")
    arguments = it["arguments"].each(
        lambda each: (
            each[0].text(),
            OPERAND if each[1].data is None else _read_argument(each[1][0], names),
        )
    )
    return kernel.rebind(arguments, it["positional"].natural(), tuple(access))


def check_kernel(it: DataReader, call: Call | Copy) -> None:
    """The parameters of a user's kernel are the symbolic ones of its arguments.

    Raises:
        ValueError: they are not.
    """
    if isinstance(call, Copy) or not isinstance(call.kernel.implementation, BoundKernel):
        return
    given, wanted = call.kernel.params, call.kernel.implementation.symbolic
    if len(given) != len(wanted) or not all(
        isinstance(one, Expr) and same(one, other) for one, other in zip(given, wanted, strict=True)
    ):
        it["kernel"]["params"].fail("the symbolic arguments of the kernel")
