"""For tests of code that uses asyncjit: a device in virtual time, orders decided by a seed, faults on demand.

Law: this page holds re-exports only; nothing else in asyncjit imports the package. ``Engine([SimDevice(seed=7)])``
computes real results, completes them in an order that the seed decides, and never waits.
"""

from __future__ import annotations

from asyncjit.clock import Clock, MonotonicClock, VirtualClock
from asyncjit.devices.sim import CallFault, LossFault, MemoryFault, SimDevice, TraceEntry
from asyncjit.testing.checks import assert_trace_respects
from asyncjit.testing.virtual_time import VirtualTime

__all__ = [
    "CallFault",
    "Clock",
    "LossFault",
    "MemoryFault",
    "MonotonicClock",
    "SimDevice",
    "TraceEntry",
    "VirtualClock",
    "VirtualTime",
    "assert_trace_respects",
]
