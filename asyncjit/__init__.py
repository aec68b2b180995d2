"""asyncjit: an asyncio-native execution engine for array programs.

``@jit`` records one run of an array function as a schedule of kernel calls; each call of it afterwards is a replay: it
has its place in the order of calls at once, runs on the device while the event loop goes on, and can be awaited.
Arrays and the functions on them are in ``asyncjit.numpy``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from asyncjit import nn, random
from asyncjit.engine import Engine, EngineStatistics, current_engine, default_engine
from asyncjit.errors import (
    AliasError,
    AsyncJitError,
    CaptureError,
    DependencyError,
    DeviceError,
    DeviceLostError,
    DeviceOutOfMemoryError,
    DeviceUnavailableError,
    EngineBusyError,
    EngineClosedError,
    HostReadError,
    InternalError,
    KernelError,
    LoadError,
    NothingCapturedError,
    OnnxError,
    ReplayCancelledError,
    ReplayMismatchError,
    SaveError,
    WouldBlockError,
)
from asyncjit.instruments import Instrument
from asyncjit.jit import (
    ArgumentSpec,
    Batched,
    BatchStatistics,
    CheckReport,
    Difference,
    JitFunction,
    assign,
    jit,
    kernel,
    not_captured,
    snapshot,
    spec,
)
from asyncjit.numpy import Array
from asyncjit.numpy._dispatch import set_eager_sink as _set_eager_sink
from asyncjit.numpy._eager import eager_sink as _eager_sink
from asyncjit.pipeline import PipelineStatistics, StageStatistics, pipeline
from asyncjit.prefetch import Prefetch, PrefetchStatistics, prefetch
from asyncjit.replay import Replay
from asyncjit.saving import load, save
from asyncjit.settings import Settings, override_settings, settings
from asyncjit.times import CallTimes, ReplayTimes
from asyncjit.tracing import Trace, trace
from asyncjit.variables import Bound, Variable

if TYPE_CHECKING:
    from asyncjit import onnx as onnx

__all__ = [
    "AliasError",
    "ArgumentSpec",
    "Array",
    "AsyncJitError",
    "BatchStatistics",
    "Batched",
    "Bound",
    "CallTimes",
    "CaptureError",
    "CheckReport",
    "DependencyError",
    "DeviceError",
    "DeviceLostError",
    "DeviceOutOfMemoryError",
    "DeviceUnavailableError",
    "Difference",
    "Engine",
    "EngineBusyError",
    "EngineClosedError",
    "EngineStatistics",
    "HostReadError",
    "Instrument",
    "InternalError",
    "JitFunction",
    "KernelError",
    "LoadError",
    "NothingCapturedError",
    "OnnxError",
    "PipelineStatistics",
    "Prefetch",
    "PrefetchStatistics",
    "Replay",
    "ReplayCancelledError",
    "ReplayMismatchError",
    "ReplayTimes",
    "SaveError",
    "Settings",
    "StageStatistics",
    "Trace",
    "Variable",
    "WouldBlockError",
    "assign",
    "current_engine",
    "default_engine",
    "jit",
    "kernel",
    "load",
    "nn",
    "not_captured",
    "override_settings",
    "pipeline",
    "prefetch",
    "random",
    "save",
    "settings",
    "snapshot",
    "spec",
    "trace",
]

__version__ = "0.1.0"

_set_eager_sink(_eager_sink)


def __getattr__(name: str) -> object:
    # Imported when it is asked for: it needs a package that not everybody has.
    if name == "onnx":
        return importlib.import_module("asyncjit.onnx")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
