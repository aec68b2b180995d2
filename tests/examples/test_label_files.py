"""The example runs as a user starts it, and the labels are right."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests._source import CHECKOUT
from tests.models.wheels import WHEELS, needed

SCRIPT = CHECKOUT / "examples" / "label_files.py"


def run(*words: str, folder: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=folder)


def test_files_are_labelled_by_what_is_in_them(tmp_path: Path) -> None:
    needed("magika", "magika/models/standard_v3_3/model.onnx")
    contents = {
        "notes.bin": (CHECKOUT / "CONTRIBUTING.md").read_bytes(),
        "code.txt": (CHECKOUT / "asyncjit" / "engine.py").read_bytes(),
        "settings": (CHECKOUT / "pyproject.toml").read_bytes(),
        "picture.py": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\10\2\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8",
        "few": b"ab\n",
        "none": b"",
        "noise": b"\xff\xfe",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    done = run("--magika", str(WHEELS["magika"].folder / "magika"), *contents, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    assert [tuple(line.split()[:2]) for line in lines] == [
        ("notes.bin", "markdown"),
        ("code.txt", "python"),
        ("settings", "toml"),
        ("picture.py", "png"),
        ("few", "txt"),
        ("none", "empty"),
        ("noise", "unknown"),
    ]
    assert re.fullmatch(r"4 requests, [1-4] replays", last)


#: Runs the script as if the package were not installed, whether it is or not.
WITHOUT_THE_PACKAGE = """
import importlib.util, runpy, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "magika" else find(name, package)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_where_the_model_is_not_there_it_says_how_to_get_it() -> None:
    command = [sys.executable, "-c", WITHOUT_THE_PACKAGE, str(SCRIPT), "README.md"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=CHECKOUT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "the model is not there: pip install --no-deps magika==1.0.3\n"
