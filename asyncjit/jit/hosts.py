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

__all__ = ["CallHost", "PrepareHost"]


class CallHost:
    """Host values of a call become arrays of the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def from_host(self, host: np.ndarray[Any, Any], weak: bool) -> Array:
        storage = self._engine.constant(host)
        return Array(storage, 0, host.shape, c_strides(host.shape, host.itemsize), host.dtype, weak)

    def stand(self, spec: ArgumentSpec, name: str) -> NoReturn:
        raise CaptureError(
            f"argument {name!r} is a spec, which has no values; specs are for prepare(), pass an array here", name=name
        )


class PrepareHost(CallHost):
    """Where a spec will do for an array."""

    def stand(self, spec: ArgumentSpec, name: str) -> Stand:  # type: ignore[override]
        strides = c_strides(spec.shape, spec.dtype.itemsize)
        device = spec.device or self._engine.default_device
        return Stand(array_spec(spec.shape, strides, spec.dtype, False, device))
