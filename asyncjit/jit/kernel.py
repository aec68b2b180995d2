"""A user's own kernel: a NumPy callable that the engine orders by the access it declares.

Law: binds a call of the callable to operands; what happens inside it is opaque.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, ParamSpec

import numpy as np

from asyncjit import ir
from asyncjit.capture import bytes_of
from asyncjit.deps import overlap
from asyncjit.errors import AliasError, CaptureError, DeviceError
from asyncjit.jit.tokens import static_token
from asyncjit.numpy import Array, asarray
from asyncjit.numpy._dispatch import current_sink
from asyncjit.symbols import Expr, upper

__all__ = ["OPERAND", "BoundKernel", "UserKernel", "kernel"]

P = ParamSpec("P")

#: Bound calls kept by one kernel, so that equal calls give the identical implementation; dropped all at once beyond it.
_BOUND_MAX = 1024


class UserKernel(Generic[P]):
    """A kernel made by ``kernel``: call it with arrays, anywhere."""

    def __init__(self, function: Callable[P, object], writes: tuple[str, ...], reads_writes: tuple[str, ...]) -> None:
        functools.update_wrapper(self, function)
        self._function: Callable[..., object] = function
        self._name: str = getattr(function, "__qualname__", repr(function))
        self._signature = inspect.signature(function)
        self._bound: dict[Hashable, BoundKernel] = {}
        for name in (*writes, *reads_writes):
            parameter = self._signature.parameters.get(name)
            if parameter is None or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise ValueError(
                    f"kernel {self._name!r} has no parameter {name!r} of its own; writes= and reads_writes= name "
                    f"parameters among {list(self._signature.parameters)}"
                )
        if both := set(writes) & set(reads_writes):
            raise ValueError(f"{sorted(both)} of kernel {self._name!r} stand in writes= and in reads_writes=")
        self._access = dict.fromkeys(writes, ir.Access.WRITE) | dict.fromkeys(reads_writes, ir.Access.READ_WRITE)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Order one run of the callable: in a capture it is recorded, elsewhere it starts when its arrays are ready.

        Arrays become operands, NumPy arrays are copied to read-only operands, anything else counts by value and must be
        hashable. The callable sees NumPy views in their places, read-only where it did not declare to write.

        Raises:
            AliasError: a written operand shares bytes with another one.
            CaptureError: a declared operand is no array, or an argument cannot be hashed.
        """
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        operands: list[tuple[str, Array]] = []
        plan = [self._argument(name, value, operands) for name, value in self._arguments(bound)]
        self._refuse_overlap(operands)
        devices = sorted({array.device for _, array in operands})
        if len(devices) > 1:
            raise DeviceError(
                f"kernel {self._name!r} has operands on {' and '.join(devices)}; a kernel runs on one device: copy "
                "them over with to_device",
                given=tuple(devices),
            )
        access = tuple(self._access.get(name, ir.Access.READ) for name, _ in operands)
        implementation = self._implementation(bound, tuple(plan), access)
        nbytes = sum(upper(array._spec.nbytes) for _, array in operands)
        current_sink().emit(
            ir.Kernel(self._name, access, implementation.symbolic, implementation),
            [(array._storage, array._offset, array._spec) for _, array in operands],
            ir.Cost(0, nbytes),
        )

    def _arguments(self, bound: inspect.BoundArguments) -> Iterator[tuple[str, Any]]:
        """Every argument of a call by itself, with what it is called."""
        for name, value in bound.arguments.items():
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                yield from ((f"{name}[{index}]", each) for index, each in enumerate(value))
            elif kind is inspect.Parameter.VAR_KEYWORD:
                yield from value.items()
            else:
                yield name, value

    def _argument(self, name: str, value: Any, operands: list[tuple[str, Array]]) -> tuple[str, Any]:
        """Whether it is an operand; appends it when it is."""
        declared = name in self._access
        if isinstance(value, np.ndarray) and not declared:
            value = asarray(value)
        if isinstance(value, Array):
            operands.append((name, value))
            return name, OPERAND
        if declared:
            raise CaptureError(
                f"kernel {self._name!r} writes {name!r}, which must be an array (anp.empty, or state), got a "
                f"{type(value).__qualname__}",
                function=self._name,
                name=name,
                given=type(value),
            )
        if isinstance(value, Expr):
            # Each replay has its own value of it: it is a parameter of the kernel.
            return name, (("symbolic", value), value)
        return name, (static_token(value, name), value)

    def _refuse_overlap(self, operands: list[tuple[str, Array]]) -> None:
        for index, (name, array) in enumerate(operands):
            for other_name, other in operands[:index]:
                if array._storage is not other._storage or not (name in self._access or other_name in self._access):
                    continue
                if overlap(bytes_of(0, array._offset, array._spec), bytes_of(0, other._offset, other._spec)):
                    raise AliasError(
                        f"operands {other_name!r} and {name!r} of kernel {self._name!r} share memory, and one of them "
                        "is written; pass arrays that do not overlap, or declare one operand in reads_writes= for work "
                        "in place",
                        function=self._name,
                        names=(other_name, name),
                    )

    def _implementation(
        self, bound: inspect.BoundArguments, plan: tuple[tuple[str, Any], ...], access: tuple[ir.Access, ...]
    ) -> BoundKernel:
        """A callable over the operands' views, the same object for equal calls: it is part of the kernel's identity."""
        key = tuple((name, what if what is OPERAND else what[0]) for name, what in plan)
        known = self._bound.get(key)
        if known is None:
            if len(self._bound) >= _BOUND_MAX:
                self._bound.clear()
            arguments = tuple((name, what if what is OPERAND else what[1]) for name, what in plan)
            known = self._bound[key] = BoundKernel(self, arguments, len(bound.args), access)
        return known

    def rebind(
        self, arguments: tuple[tuple[str, Any], ...], positional: int, access: tuple[ir.Access, ...]
    ) -> BoundKernel:
        """What a call with these arguments, of which ``OPERAND`` stands for arrays, would run.

        Raises:
            ValueError: the kernel has other parameters or declares other access by now.
        """
        values = [value for _, value in arguments]
        named = dict(arguments[positional:])
        try:
            bound = self._signature.bind(*values[:positional], **named)
        except TypeError as error:
            raise ValueError(f"kernel {self._name!r} cannot be called as it was: {error}") from None
        bound.apply_defaults()
        declared = tuple(self._access.get(name, ir.Access.READ) for name, value in arguments if value is OPERAND)
        if [name for name, _ in self._arguments(bound)] != [name for name, _ in arguments] or declared != access:
            raise ValueError(f"kernel {self._name!r} has other parameters, or writes others, than it did")
        return BoundKernel(self, arguments, positional, access)

    def __repr__(self) -> str:
        return f"<kernel {self._name}>"


class _Operand:
    def __repr__(self) -> str:
        return "operand"


#: Stands for an array among the arguments of a call.
OPERAND: Any = _Operand()


class BoundKernel:
    """A kernel with everything but its operands fixed; called with their NumPy views, in order; before them stands the
    tuple of the values of ``symbolic`` arguments, where there are any."""

    __slots__ = (
        "_function",
        "_late",
        "_names",
        "_places",
        "_read_only",
        "_values",
        "arguments",
        "kernel",
        "positional",
        "symbolic",
    )

    def __init__(
        self,
        kernel: UserKernel[Any],
        arguments: tuple[tuple[str, Any], ...],
        positional: int,
        access: tuple[ir.Access, ...],
    ) -> None:
        self.kernel = kernel
        #: Name and value of each argument, the first ``positional`` of which are passed by position.
        self.arguments = arguments
        self.positional = positional
        self._function = kernel._function
        self._values = [None if value is OPERAND else value for _, value in arguments]
        self._places = [index for index, (_, value) in enumerate(arguments) if value is OPERAND]
        self._names = [name for name, _ in arguments[positional:]]
        self._read_only = [not each.writes for each in access]
        self._late = [index for index, (_, value) in enumerate(arguments) if isinstance(value, Expr)]
        #: Arguments of which each replay has values of its own; they are parameters of the kernel.
        self.symbolic: tuple[Expr, ...] = tuple(value for _, value in arguments if isinstance(value, Expr))

    def __call__(self, *views: Any) -> None:
        arguments = list(self._values)
        if self._late:
            for place, value in zip(self._late, views[0], strict=True):
                arguments[place] = value
            views = views[1:]
        for place, view, protect in zip(self._places, views, self._read_only, strict=True):
            arguments[place] = _protected(view) if protect else view
        positional = self.positional
        self._function(*arguments[:positional], **dict(zip(self._names, arguments[positional:], strict=True)))


def _protected(view: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What the kernel only reads it cannot write: an undeclared write would be a race that nobody sees."""
    own = view.view()
    own.flags.writeable = False
    return own


def kernel(
    *, writes: str | Iterable[str] = (), reads_writes: str | Iterable[str] = ()
) -> Callable[[Callable[P, object]], UserKernel[P]]:
    """Make a function of NumPy arrays a kernel that the engine orders with everything else.

    ``writes`` names the parameters that it fills completely without reading them first, ``reads_writes`` those that it
    updates; all other arrays it reads. What it returns is ignored: results go into the arrays that it is given. It runs
    on a worker thread, maybe several times at once, so it must not depend on anything but its arguments.

        @aj.kernel(writes=("out",))
        def blur(out, src, radius): ...

        blur(out_array, src_array, 3)

    Raises:
        ValueError: a name is no parameter.
    """
    written = (writes,) if isinstance(writes, str) else tuple(writes)
    updated = (reads_writes,) if isinstance(reads_writes, str) else tuple(reads_writes)
    return lambda function: UserKernel(function, written, updated)
