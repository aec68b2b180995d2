"""Capture: a function's array operations become a schedule.

Law: ``recorder`` takes calls while the function runs, ``finish`` makes a schedule of them, ``aliases`` knows which
bytes overlap. Nothing here knows what a call of a jitted function looks like; that is ``jit``.
"""

from __future__ import annotations

from asyncjit.capture.aliases import Pattern, bytes_of, pattern_of, region
from asyncjit.capture.finish import Captured, Output, Result, finish, touches_of
from asyncjit.capture.pruned import Pruned, split
from asyncjit.capture.recorder import Recorder
from asyncjit.capture.traced import Traced

__all__ = [
    "Captured",
    "Output",
    "Pattern",
    "Pruned",
    "Recorder",
    "Result",
    "Traced",
    "bytes_of",
    "finish",
    "pattern_of",
    "region",
    "split",
    "touches_of",
]
