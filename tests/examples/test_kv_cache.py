"""The example runs as a user starts it, and what it computes is right."""

from __future__ import annotations

import subprocess
import sys

from tests._source import CHECKOUT


def test_one_capture_decodes_what_recomputing_everything_gives() -> None:
    script = CHECKOUT / "examples" / "kv_cache.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "128 tokens, 1 capture, equal to recomputing everything: True\n"
