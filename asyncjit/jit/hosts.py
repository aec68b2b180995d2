"""Where the host values of a call get their memory, and what a spec becomes.

Law: two answers, one for calls, one for ``prepare``.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from asyncjit.engine import Engine
from asyncjit.errors import CaptureError
from asyncjit.jit.tokens import ArgumentSpec, Stand
from asyncjit.numpy import Array
from asyncjit.numpy._handle import array_spec, c_strides
from asyncjit.variables import Variable

__all__ = ["CallHost", "PrepareHost"]


#: Numbers whose arrays are kept: a learning rate, a temperature. Dropped all at once beyond it.
_NUMBERS_MAX = 64

_DTYPES: tuple[tuple[type, np.dtype[Any]], ...] = (
    (bool, np.dtype(np.bool_)),
    (int, np.dtype(np.int64)),
    (float, np.dtype(np.float64)),
    (complex, np.dtype(np.complex128)),
)


class CallHost:
    """Host values of a call become arrays of the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._numbers: dict[tuple[int, type, object], Array] = {}

    def from_host(self, host: np.ndarray[Any, Any]) -> Array:
        storage = self._engine.constant(host)
        return Array(storage, 0, host.shape, c_strides(host.shape, host.itemsize), host.dtype)

    def from_number(self, value: complex, place: int) -> Array:
        # 0.0 == -0.0, so what may hide the sign of a zero is told apart by its text; a NaN equals nothing and is made
        # anew.
        # Each place has its own array: equal numbers would look like arguments that overlap, which takes longer to
        # match.
        key = (place, type(value), value if value and not isinstance(value, complex) else repr(value))
        array = self._numbers.get(key)
        if array is None:
            dtype = next(dtype for kind, dtype in _DTYPES if isinstance(value, kind))
            storage = self._engine.constant(np.array(value, dtype))
            array = Array(storage, 0, (), (), dtype, dtype.kind != "b")
            if len(self._numbers) >= _NUMBERS_MAX:
                self._numbers.clear()
            self._numbers[key] = array
        return array

    def stand(self, spec: ArgumentSpec, name: str) -> NoReturn:
        raise CaptureError(
            f"argument {name!r} is a spec, which has no values; specs are for prepare(), pass an array here", name=name
        )

    def unbound(self, variable: Variable, name: str) -> None:
        raise ValueError(
            f"argument {name!r} is the variable {variable.name!r} without a value; pass {variable.name}.bind(value), "
            f"from {variable.min} to {variable.max}"
        )


class PrepareHost(CallHost):
    """Where a spec will do for an array, and a variable needs no value."""

    def unbound(self, variable: Variable, name: str) -> None:
        """Fine: nothing is computed."""

    def stand(self, spec: ArgumentSpec, name: str) -> Stand:  # type: ignore[override]
        strides = c_strides(spec.shape, spec.dtype.itemsize)
        device = spec.device or self._engine.default_device
        return Stand(array_spec(spec.shape, strides, spec.dtype, False, device))
