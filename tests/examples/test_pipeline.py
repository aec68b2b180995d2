"""The example runs as a user starts it, and what it computes is what NumPy computes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np

from tests._source import CHECKOUT


def expected() -> str:
    """The first line that it prints, without asyncjit."""
    rng = np.random.default_rng(3)
    filters, classes = rng.standard_normal((256, 64)), rng.standard_normal((64, 4))
    names = ("circle", "cross", "line", "dot")
    counts: Counter[str] = Counter()
    for _ in range(40):
        picture = rng.random((128, 128))
        patches = picture.reshape(8, 16, 8, 16).transpose(0, 2, 1, 3).reshape(64, 256)
        patch = patches[patches.sum(axis=1).argmax()]
        counts[names[int(np.argmax(np.maximum(patch @ filters, 0) @ classes))]] += 1
    return ", ".join(f"{counts[each]} {each}" for each in names if counts[each])


def test_pictures_are_named_as_without_a_pipeline() -> None:
    script = CHECKOUT / "examples" / "pipeline.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == expected()
    assert [line.partition(":")[0] for line in lines[1:4]] == ["detect", "classify", "name"]
    assert lines[4] == "at most 6 pictures on their way"
