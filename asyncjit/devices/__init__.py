"""Devices: what runs plans. ``base`` is the protocol, every other module one device, made by its name here.

Law: a device module imports nothing of another device; nothing here imports a device before it is asked for, so that a
missing driver hurts only those who want it.
"""

from __future__ import annotations

from asyncjit.clock import Clock
from asyncjit.devices.base import Capabilities, Device, Executable, Frame, Memory, Runner, Submission
from asyncjit.errors import DeviceUnavailableError

__all__ = ["Capabilities", "Device", "Executable", "Frame", "Memory", "Runner", "Submission", "open_device"]


def open_device(name: str, *, clock: Clock | None = None) -> Device:
    """The device called ``name``: "cpu" or "null", and with a number, as "cpu:1", another one of the kind, which shares
    nothing with the first but the machine. ``clock`` gives the times of calls.

    A simulated device has a seed and a driver, so it is made by hand: ``asyncjit.devices.sim.SimDevice(...)``.

    Raises:
        DeviceUnavailableError: there is no such device here.
    """
    kind, colon, number = name.partition(":")
    if not colon or number.isdecimal():
        if kind == "cpu":
            from asyncjit.devices.cpu import CpuDevice

            return CpuDevice(name, clock=clock)
        if kind == "null":
            from asyncjit.devices.null import NullDevice

            return NullDevice(name, clock=clock)
    raise DeviceUnavailableError(
        f"there is no device {name!r} here; expected 'cpu' or 'null', alone or with a number as in 'cpu:1'",
        device=name,
    )
