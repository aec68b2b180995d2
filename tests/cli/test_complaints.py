"""What a user gets wrong: one line that says what and where, an exit code, no traceback, and nothing on stdout."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from asyncjit.cli import main


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and the one line of a command."""
    capsys.readouterr()
    code = main(list(words))
    printed = capsys.readouterr()
    [line] = printed.err.splitlines()
    assert printed.out == ""
    return code, line


@pytest.mark.parametrize("command", ["info", "run", "bench", "explain", "draw", "trace"])
def test_a_file_that_is_not_there(command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(tmp_path / "none.onnx")
    assert complaint(capsys, command, path) == (2, f"asyncjit {command}: {path}: No such file or directory")


def test_a_file_that_is_no_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("no model at all")
    code, line = complaint(capsys, "info", str(path))
    assert code == 1
    assert "text.onnx" in line
    assert "damaged or truncated" in line


def test_an_operator_that_there_is_not(capsys: pytest.CaptureFixture[str], unknown: Path) -> None:
    code, line = complaint(capsys, "run", str(unknown), "--input", "x=rand:1,4")
    assert code == 1
    assert "node 'the_node' (Nonsense) of opset 17 is not supported" in line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "inputs are missing: x float32[batch, 4], bias float32[3]"),
        (("--input", "z=1"), "the model has no input 'z'; it has x, bias"),
        (("--input", "data.npy"), "--input data.npy names no input"),
        (("--input", "x=nowhere.npy"), "nowhere.npy: No such file or directory"),
        (("--input", "x=broken.npy"), "broken.npy is not what numpy.save writes, or is damaged"),
        (("--input", "x=pickled.npy"), "pickled.npy is not what numpy.save writes, or is damaged"),
        (("--input", "x=some.npz"), "some.npz holds a, b; say which is meant: x=some.npz:KEY"),
        (("--input", "x=some.npz:c"), "some.npz holds no array 'c'; it holds a, b"),
        (("--input", "some.npz"), "the model has no input 'a'; it has x, bias"),
        (("--input", "x=what"), "x=what: that is neither a .npy or .npz file"),
        (("--input", "x=rand:1,b"), "x=rand:1,b: extents are numbers with commas between"),
        (("--input", "x=rand:-1,4"), "x=rand:-1,4: extents are not negative"),
        (("--input", 'x=["a"]'), 'x float32[batch, 4] cannot be made of ["a"]'),
        (("--input", "x=complex.npy"), "x float32[batch, 4] was given complex128"),
        (("--input", "x=rand:1,4", "--input", "x=rand:1,4"), "input 'x' is given twice"),
        (("--input", "x=rand:1,5", "--input", "bias=rand:3"), "was given the shape (1, 5)"),
        (("--input", "x=rand:1,4", "--input", "bias=rand:3", "--output", "text/out"), "text"),
    ],
)
def test_inputs_that_make_no_sense(
    words: tuple[str, ...],
    says: str,
    tiny: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY and then nothing")
    (tmp_path / "text").write_text("a file, not a folder")
    np.save(tmp_path / "pickled.npy", np.array([{}], object), allow_pickle=True)
    np.save(tmp_path / "complex.npy", np.ones((1, 4), complex))
    np.savez(tmp_path / "some.npz", a=np.ones(1), b=np.ones(2))
    capsys.readouterr()
    assert main(["run", str(tiny), *words]) in (1, 2)
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("asyncjit run: ")
    assert says in line


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("width=3", "--dim width=3: no dimension is called 'width'; there are batch"),
        ("batch=many", "--dim batch=many: write NAME=N"),
    ],
)
def test_dimensions_that_make_no_sense(word: str, says: str, tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = complaint(capsys, "explain", str(tiny), "--dim", word)
    assert code == 2
    assert says in line


@pytest.mark.parametrize(
    ("package", "words", "brings"),
    [
        ("onnx", ("info",), "pip install 'asyncjit[onnx]'"),
        ("onnx", ("run",), "pip install 'asyncjit[onnx]'"),
        ("onnxruntime", ("bench", "--compare", "onnxruntime"), "pip install onnxruntime"),
        ("matplotlib", ("bench", "--plot", "p.png"), "pip install matplotlib"),
    ],
)
def test_a_package_that_is_not_installed(
    package: str,
    words: tuple[str, ...],
    brings: str,
    tiny: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    loaded = (f"{package}.", "asyncjit.onnx", "asyncjit.cli._plot")
    for name in [name for name in sys.modules if name.startswith(loaded)]:
        monkeypatch.delitem(sys.modules, name)
        # An import afterwards sets the name in the package above as well: it is set back with the module.
        above, _, last = name.rpartition(".")
        if hasattr(sys.modules.get(above), last):
            monkeypatch.setattr(sys.modules[above], last, getattr(sys.modules[above], last))
    command, *options = words
    code, line = complaint(capsys, command, str(tiny), *options)
    assert code == 2
    assert line == f"asyncjit {command}: this needs the package {package}: {brings}"


def test_a_picture_of_no_known_format_is_refused_before_anything_is_measured(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, line = complaint(capsys, "bench", str(tiny), "--plot", "latency.doc")
    assert code == 2
    assert "--plot latency.doc: the suffix says the format, one of " in line


@pytest.mark.parametrize(
    "words", [[], ["nope"], ["bench", "m.onnx", "--concurrency", "0"], ["bench", "m.onnx", "--threads", "x"]]
)
def test_a_command_line_that_makes_no_sense_shows_how_it_is_used(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: asyncjit")


@pytest.mark.parametrize("command", ["", "info", "run", "bench", "explain", "draw", "trace", "doctor", "demo"])
def test_help_is_there(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*filter(None, [command]), "--help"])
    assert caught.value.code == 0
    assert "--help" in capsys.readouterr().out
