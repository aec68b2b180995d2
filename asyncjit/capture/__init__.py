"""Capture: a function's array operations become a schedule.

Law: ``recorder`` takes calls while the function runs, ``finish`` makes a schedule of them, ``aliases`` knows which
bytes overlap. Nothing here knows what a call of a jitted function looks like; that is ``jit``.
"""

from __future__ import annotations

from asyncjit.capture.aliases import Pattern, pattern_of, region
from asyncjit.capture.finish import Captured, Output, Result, finish
from asyncjit.capture.recorder import Recorder, Traced, where_in_user_code

__all__ = [
    "Captured",
    "Output",
    "Pattern",
    "Recorder",
    "Result",
    "Traced",
    "finish",
    "pattern_of",
    "region",
    "where_in_user_code",
]
