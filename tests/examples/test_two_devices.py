"""The example runs as a user starts it, and counts what NumPy counts."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from tests._source import CHECKOUT


def expected() -> str:
    """The first line that it prints, without asyncjit."""
    rng = np.random.default_rng(5)
    first = rng.standard_normal((2, 256, 256)).astype("float32") / 16
    second = rng.standard_normal((256, 10)).astype("float32")
    counts = np.zeros(10, int)
    for batch in rng.standard_normal((24, 256, 256)).astype("float32"):
        hidden = np.maximum(np.maximum(batch @ first[0], 0) @ first[1], 0)
        counts += np.bincount(np.argmax(hidden @ second, axis=1), minlength=10)
    return f"6144 rows on cpu:1, by class: {' '.join(map(str, counts))}"


def test_rows_are_classified_as_on_one_device() -> None:
    script = CHECKOUT / "examples" / "two_devices.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [expected(), "1 capture over cpu:0 and cpu:1"]
