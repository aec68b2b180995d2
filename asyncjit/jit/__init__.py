"""``jit`` and what goes with it: functions that are captured once and replayed, state, a user's own kernels.

Law: the surface; each module says what it is for.
"""

from __future__ import annotations

from asyncjit.jit.batching import Batched, BatchStatistics
from asyncjit.jit.checking import CheckReport, Difference
from asyncjit.jit.decorator import jit
from asyncjit.jit.function import JitFunction
from asyncjit.jit.kernel import UserKernel, kernel
from asyncjit.jit.options import Statistics
from asyncjit.jit.outside import not_captured
from asyncjit.jit.state import assign, snapshot, spec
from asyncjit.jit.tokens import ArgumentSpec

__all__ = [
    "ArgumentSpec",
    "BatchStatistics",
    "Batched",
    "CheckReport",
    "Difference",
    "JitFunction",
    "Statistics",
    "UserKernel",
    "assign",
    "jit",
    "kernel",
    "not_captured",
    "snapshot",
    "spec",
]
