"""What commands tell their user instead of a traceback.

Law: words and codes; nothing is decided here.
"""

from __future__ import annotations

__all__ = ["EXIT_FAILED", "EXIT_GOOD", "EXIT_INTERRUPTED", "EXIT_UNUSABLE", "CommandError", "missing_package"]

EXIT_GOOD, EXIT_FAILED, EXIT_UNUSABLE, EXIT_INTERRUPTED = 0, 1, 2, 130

#: Packages that a command may want, and what brings them.
_PACKAGES = {
    "onnx": "'asyncjit[onnx]'",
    "onnxruntime": "onnxruntime",
    "matplotlib": "matplotlib",
}


class CommandError(Exception):
    """The command cannot be done as it was given. Never leaves ``main``, which prints it as one line."""


def missing_package(name: str | None) -> str | None:
    """What to do about a module that is not there; None for one that nobody is known to lack."""
    package = (name or "").partition(".")[0]
    brings = _PACKAGES.get(package)
    return None if brings is None else f"this needs the package {package}: pip install {brings}"
