"""``save``, ``load`` and pickling: captured functions in a file, with the arrays that they share.

Law: the format never holds code. ``container`` is bytes and checksums, ``values`` and ``names`` small things,
``recorded``, ``captures`` and ``functions`` what is in a function, ``pool`` the arrays, ``surface`` what users call.
"""

from __future__ import annotations

from asyncjit.saving import pickling as pickling
from asyncjit.saving.surface import load, save

__all__ = ["load", "save"]
