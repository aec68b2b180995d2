"""What every test sees: the checkout, for ``benchmarks`` and ``tests``, behind the installed package.

Law: nothing but the import path belongs here; fixtures live beside the tests that use them.

The checkout goes to the *end* of ``sys.path``: where asyncjit is installed, the installed package is the one that is
tested, and a file that the wheel forgot makes a test fail here rather than at a user's.
"""

from __future__ import annotations

import sys
from pathlib import Path

CHECKOUT = str(Path(__file__).resolve().parent.parent)

if CHECKOUT not in sys.path:
    sys.path.append(CHECKOUT)
