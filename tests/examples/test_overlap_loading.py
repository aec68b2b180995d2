"""The example runs as a user starts it, and what it computes is right."""

from __future__ import annotations

import subprocess
import sys

from tests._source import CHECKOUT


def test_loading_is_overlapped_and_changes_no_score() -> None:
    script = CHECKOUT / "examples" / "overlap_loading.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, third = done.stdout.splitlines()
    assert first.startswith("one after the other: ")
    assert second.startswith("40 files took ")
    assert third == "same scores: True"
