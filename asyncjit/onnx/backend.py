"""The interface that ONNX's own conformance tests call: ``prepare``, ``run_model``, ``supports_device``.

Law: an adapter; it decides nothing. What it cannot do raises ``OnnxError``, never onnx's exception for "not meant to be
implemented", which the runner counts as a success.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep

from asyncjit.numpy import Array
from asyncjit.onnx import Model, load

__all__ = ["AsyncJitBackend", "AsyncJitRep", "prepare", "run_model", "supports_device"]


class AsyncJitRep(BackendRep):
    """A loaded model; ``run`` takes inputs in the model's order and gives outputs in its order."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs as NumPy arrays, lists of them for sequences. Blocks; for scripts."""
        given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        outputs = self.model.run(*map(_given, given))
        return tuple(_host(outputs[each.name]) for each in self.model.outputs)


def _given(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, np.generic) else value


def _host(value: Any) -> Any:
    if isinstance(value, Array):
        return np.asarray(value)
    return [_host(each) for each in value] if isinstance(value, Sequence) else value


class AsyncJitBackend(Backend):
    """For ``onnx.backend.test.BackendTest``."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> AsyncJitRep:
        """Load ``model``."""
        return AsyncJitRep(load(model))

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Load ``model`` and run it once."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


prepare = AsyncJitBackend.prepare
run_model = AsyncJitBackend.run_model
supports_device = AsyncJitBackend.supports_device
