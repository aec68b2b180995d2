"""Functions of others that take arrays of any namespace take ours, and give what they give for NumPy's."""

from __future__ import annotations

import subprocess
import sys

from tests._source import CHECKOUT


def test_functions_of_scipy_and_scikit_learn_give_the_same_as_with_numpy() -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.surface.array_api_users"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=CHECKOUT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["13 called"]
