"""The trio example, as a user runs it."""

from __future__ import annotations

import subprocess
import sys

from tests._source import CHECKOUT


def test_every_client_gets_the_answer_to_its_own_question() -> None:
    done = subprocess.run(
        [sys.executable, str(CHECKOUT / "examples" / "trio_app.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=CHECKOUT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{[8.0 * number * number for number in range(16)]}\n"
