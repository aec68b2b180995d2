"""What leaves the device: values as Python and NumPy objects, and waiting for them.

Law: the only module that reads a value. ``repr`` never waits; everything else raises WouldBlockError in a running event
loop before the array was awaited, and HostReadError during capture.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Self

import numpy as np

from asyncjit.errors import AsyncJitError
from asyncjit.numpy._dispatch import by_hand, refuse_reads
from asyncjit.numpy._operators import Operators

__all__ = ["Reading"]

#: DLPack's number for main memory.
_DLPACK_CPU = 1


class Reading(Operators):
    """Conversion to host objects, and ``await``."""

    __slots__ = ()

    def _host(self, what: str) -> np.ndarray:
        refuse_reads(self._spec, what)
        return super()._host(what)

    def __await__(self) -> Generator[Any, Any, Self]:
        """Wait until whoever writes the array has finished; gives the array. Errors of the writer are raised here.

        In the body of a captured function it gives the array at once: values cannot be read there.
        """
        body = by_hand.get()
        if body is not None and body.active:
            return self
        yield from self._storage.__await__()
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """For ``np.asarray``: a read-only view of an array that nobody writes in place, else a copy."""
        host = self._host("np.asarray")
        target = self._dtype if dtype is None else np.dtype(dtype)
        if copy is False and target != self._dtype:
            raise ValueError(f"converting {self._dtype} to {target} needs a copy")
        if copy:
            return np.array(host, dtype=target)
        return host if target == self._dtype else host.astype(target)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of the values; a copy where the consumer cannot be told that they are read-only."""
        host = self._host("__dlpack__")
        knows_read_only = max_version is not None and max_version >= (1, 0)
        if copy or (copy is None and not host.flags.writeable and not knows_read_only):
            host = host.copy()
        return host.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=None)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Main memory: values of other devices are copied there first."""
        return _DLPACK_CPU, 0

    def item(self, *index: int) -> Any:
        """One element as a Python number: the only one, or the one at ``index``."""
        return self._host("item()").item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._host("tolist()").tolist()

    def __bool__(self) -> bool:
        return bool(self._host("bool()"))

    def __int__(self) -> int:
        return int(self._single("int()"))

    def __float__(self) -> float:
        return float(self._single("float()"))

    def __complex__(self) -> complex:
        return complex(self._single("complex()"))

    def __index__(self) -> int:
        if self._dtype.kind not in "iu" or self._shape:
            raise TypeError(
                f"only a 0-d array of integers is an index, got shape {self._shape} and dtype {self._dtype}"
            )
        return int(self._host("an index").item())

    def _single(self, what: str) -> Any:
        if self.size != 1:
            raise TypeError(f"{what} takes an array with one element, got shape {self._shape}")
        return self._host(what).item()

    def __contains__(self, value: object) -> bool:
        return bool((self._host("in") == np.asarray(value)).any())

    def __format__(self, format_spec: str) -> str:
        return format(self.item(), format_spec) if format_spec else str(self)

    def __repr__(self) -> str:
        values = self._values_now()
        if values is None:
            return f"Array(shape={self._shape}, dtype={self._dtype}, device={self._spec.device!r}, pending)"
        text = np.array2string(values, separator=", ", prefix="Array(")
        shape = "" if self.size else f"shape={self._shape}, "
        return f"Array({text}, {shape}dtype={self._dtype})"

    def __str__(self) -> str:
        values = self._values_now()
        return repr(self) if values is None else str(values)

    def _values_now(self) -> np.ndarray | None:
        """The values if reading them can neither wait nor fail."""
        if not self._storage.is_ready:
            return None
        try:
            return self._host("repr")
        except AsyncJitError:
            return None
