"""What every test sees: the checkout, for ``benchmarks`` and ``tests``, behind the installed package; fixed examples.

Law: nothing but the import path, the profile of Hypothesis and a note of the threads that are there belong here;
fixtures live beside the tests that use them. Hypothesis makes the same examples in every run, so that a failure is the
change's and no chance; to look for new ones: ``pytest --hypothesis-profile=explore``.

The checkout goes to the *end* of ``sys.path``: where asyncjit is installed, the installed package is the one that is
tested, and a file that the wheel forgot makes a test fail here rather than at a user's.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("explore")
settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")

CHECKOUT = str(Path(__file__).resolve().parent.parent)

if CHECKOUT not in sys.path:
    sys.path.append(CHECKOUT)


@pytest.fixture(autouse=True)
def _threads_are_noted() -> None:
    # Here, because ``tests`` is importable only now.
    from tests._threads import note_threads

    note_threads()
