"""Faults to inject into the simulated device.

Law: data, and the counting that says whose turn it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from asyncjit.errors import DeviceLostError, DeviceOutOfMemoryError

__all__ = ["CallFault", "Fault", "Faults", "LossFault", "MemoryFault"]


@dataclass(frozen=True, slots=True)
class CallFault:
    """Call ``call`` of the submission number ``submission``, both from 0, raises ``error`` in place of computing."""

    submission: int
    call: int
    error: BaseException


@dataclass(frozen=True, slots=True)
class LossFault:
    """The device is lost at virtual time ``at_s``: what is in flight then fails, what is submitted later is refused."""

    at_s: float


@dataclass(frozen=True, slots=True)
class MemoryFault:
    """Allocation number ``allocation``, from 0, memory and frames counted together, finds no memory."""

    allocation: int


Fault = CallFault | LossFault | MemoryFault


class Faults:
    """The faults of one device."""

    def __init__(self, device: str, faults: Sequence[Fault]) -> None:
        self._device = device
        self._calls = {(fault.submission, fault.call): fault.error for fault in faults if isinstance(fault, CallFault)}
        self._allocations = {fault.allocation for fault in faults if isinstance(fault, MemoryFault)}
        self._count = itertools.count()
        #: When the device is lost; infinite for never.
        self.lost_at_s = min((fault.at_s for fault in faults if isinstance(fault, LossFault)), default=float("inf"))

    def of_call(self, submission: int, call: int) -> BaseException | None:
        return self._calls.get((submission, call))

    def count_allocation(self, nbytes: int) -> None:
        """Count an allocation, and fail it when it is its turn."""
        number = next(self._count)
        if number in self._allocations:
            raise DeviceOutOfMemoryError(
                f"allocation {number} of {nbytes} bytes on device {self._device!r} was told to find no memory",
                device=self._device,
                nbytes=nbytes,
            )

    def loss(self) -> DeviceLostError:
        return DeviceLostError(
            f"device {self._device!r} was told to be lost at {self.lost_at_s} s", device=self._device
        )
