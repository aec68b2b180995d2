"""What the namespace says about itself, as the Python array API standard asks for it.

Law: the truth at the time of the question; inside a captured function nothing may depend on values.
"""

from __future__ import annotations

from typing import Any

from asyncjit.engine import current_engine
from asyncjit.numpy._dispatch import current_sink, recording
from asyncjit.numpy._handle import DType
from asyncjit.ops import DTYPES

__all__ = ["Info"]

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float16", "float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]

#: NumPy's limit, which kernels on the cpu have.
_NDIM_MAX = 64


class Info:
    """Capabilities, devices and dtypes of the namespace."""

    def capabilities(self) -> dict[str, Any]:
        """ "boolean indexing" and "data-dependent shapes": False inside a captured function, else True, for arrays that
        can be read; "max dimensions"."""
        free = recording.get() is None
        return {"boolean indexing": free, "data-dependent shapes": free, "max dimensions": _NDIM_MAX}

    def default_device(self) -> str:
        """Where arrays are made if no device is named."""
        return current_sink().device

    def devices(self) -> list[str]:
        """Devices of the engine in use here."""
        return list(current_engine().statistics().devices)

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Dtypes of arrays that are made from Python's numbers, by kind; the same on all devices."""
        chosen = {"real floating": "float64", "complex floating": "complex128", "integral": "int64"}
        return {kind: DTYPES[name] for kind, name in {**chosen, "indexing": "int64"}.items()}

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, DType]:
        """Dtypes by name, of one kind or of several in a tuple; the same on all devices.

        Raises:
            ValueError: an unknown kind.
        """
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names: list[str] = []
        for each in kinds:
            if each is not None and each not in _KINDS:
                raise ValueError(f"{each!r} is no kind of dtype; kinds are {', '.join(_KINDS)}")
            names += list(DTYPES) if each is None else _KINDS[each]
        return {name: DTYPES[name] for name in DTYPES if name in names}
