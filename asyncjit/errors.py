"""What can go wrong, by whose act it was.

Law: every error that asyncjit raises on purpose is in this tree; nothing here imports anything of the
project. A message says what, where, expected, given, and what to do; the exception carries the same as
attributes (keyword arguments of the constructor), so that a program can act on them.

    AsyncJitError
    ├── CaptureError                    your function cannot be recorded as written
    │   ├── NothingCapturedError        it recorded no call
    │   └── HostReadError (ValueError)  it read a value that does not exist during capture
    ├── ReplayMismatchError             your inputs differ from what was captured
    ├── AliasError                      your inputs overlap in a way the capture did not have
    ├── WouldBlockError                 reading now would freeze the event loop
    ├── EngineBusyError                 a queue or memory limit is reached
    ├── EngineClosedError               the engine was closed
    ├── KernelError                     a call failed; the cause is chained
    ├── DependencyError                 a replay that this one reads from failed or was cancelled
    ├── ReplayCancelledError            you await a replay that was cancelled before it started
    ├── SaveError                       this cannot be stored
    ├── OnnxError                       a model cannot be read, or not be run like this
    ├── LoadError                       these bytes are not, or no longer, what was stored
    ├── DeviceError                     the world's fault
    │   ├── DeviceUnavailableError
    │   ├── DeviceLostError
    │   └── DeviceOutOfMemoryError (MemoryError)
    └── InternalError                   ours; carries the story of what led to it
"""

from __future__ import annotations

__all__ = [
    "AliasError",
    "AsyncJitError",
    "CaptureError",
    "DependencyError",
    "DeviceError",
    "DeviceLostError",
    "DeviceOutOfMemoryError",
    "DeviceUnavailableError",
    "EngineBusyError",
    "EngineClosedError",
    "HostReadError",
    "InternalError",
    "KernelError",
    "LoadError",
    "NothingCapturedError",
    "OnnxError",
    "ReplayCancelledError",
    "ReplayMismatchError",
    "SaveError",
    "WouldBlockError",
]


class AsyncJitError(Exception):
    """Base of every error of asyncjit. ``details`` holds the keyword arguments, also readable as attributes."""

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.details = details

    def __getattr__(self, name: str) -> object:
        details = self.__dict__.get("details", {})
        if name in details:
            return details[name]
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}; it carries {sorted(details)}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), str(self), self.details))


def _rebuild(kind: type[AsyncJitError], message: str, details: dict[str, object]) -> AsyncJitError:
    return kind(message, **details)


class CaptureError(AsyncJitError):
    """The function cannot be recorded as it is written; the message names the line and the remedy."""


class NothingCapturedError(CaptureError):
    """The function ran and recorded no call, so there is nothing to replay."""


class HostReadError(CaptureError, ValueError):
    """The function read a value (``if x > 0``, ``float(x)``, ``np.asarray(x)``) that does not exist during capture."""


class ReplayMismatchError(AsyncJitError):
    """An input differs from the capture in shape, dtype, device or structure, and a new capture was refused."""


class AliasError(AsyncJitError):
    """A written operand overlaps another operand in a way that the capture did not have."""


class WouldBlockError(AsyncJitError):
    """A value was read inside a running event loop before it was awaited."""


class EngineBusyError(AsyncJitError):
    """The engine's queue or memory limit is reached; nothing was enqueued."""


class EngineClosedError(AsyncJitError):
    """The engine was closed, or belongs to the process that this one was forked from."""


class KernelError(AsyncJitError):
    """A call of a replay failed. Carries ``kernel``, ``call_index``, ``shapes``; the cause is chained."""


class DependencyError(AsyncJitError):
    """This replay reads what another replay should have written, and that one failed or was cancelled."""


class ReplayCancelledError(AsyncJitError):
    """The replay was cancelled before it started, as if it had never been called; call the function again."""


class SaveError(AsyncJitError):
    """A function, or something in its captures, cannot be stored; nothing was written."""


class LoadError(AsyncJitError):
    """What is read was not written by ``save``, not by this version, is damaged, or needs what is not there."""


class OnnxError(AsyncJitError):
    """An ONNX model cannot be read, needs what is not supported, or was called with what it does not take.

    Carries ``node`` and ``operator`` where one is to blame.
    """


class DeviceError(AsyncJitError):
    """A device refused, failed or vanished."""


class DeviceUnavailableError(DeviceError):
    """The device does not exist here, or its driver cannot be loaded."""


class DeviceLostError(DeviceError):
    """The device failed for good: everything on it is lost, other devices stay usable."""


class DeviceOutOfMemoryError(DeviceError, MemoryError):
    """The device has no memory left for an allocation."""


class InternalError(AsyncJitError):
    """An invariant of asyncjit does not hold. Carries ``story``; please report it."""
