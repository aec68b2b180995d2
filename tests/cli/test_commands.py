"""Every command, as a user types it: what it prints, what it writes, its exit code."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from asyncjit.cli import _run, main
from tests.cli.conftest import WEIGHTS

X = np.array([[1, 2, 3, 4], [-1, 0.5, 2, 0]], np.float32)
BIAS = np.array([10, 20, 30], np.float32)
Y = np.maximum(X @ WEIGHTS, 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "bias.npy", BIAS)
    np.savez(tmp_path / "both.npz", x=X, bias=BIAS)
    return tmp_path


def test_info_tells_what_a_model_takes_and_consists_of(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(tiny)]) == 0
    printed = capsys.readouterr().out
    for part in ("x: float32[batch, 4]", "bias: float32[3]", "scores/last:0: float32", "12 parameters", "1 MatMul"):
        assert part in printed
    assert main(["info", str(tiny), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["operators"] == {"MatMul": 1, "Relu": 1, "Add": 1}
    assert (facts["opsets"], facts["weight_bytes"], facts["unsupported"]) == ({"ai.onnx": 17}, 48, [])
    assert facts["is_one_replay"] is True


def test_info_names_the_operators_that_are_not_supported(unknown: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(unknown)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if line.startswith("unsupported")] == [["unsupported", "Nonsense"]]


@pytest.mark.parametrize(
    "words", [["x={0}/x.npy", "bias={0}/bias.npy"], ["{0}/both.npz"], ["x={0}/both.npz:x", "bias=[10,20,30]"]]
)
def test_run_stores_what_the_model_gives(tiny: Path, data: Path, words: list[str]) -> None:
    inputs = [part for word in words for part in ("--input", word.format(data))]
    assert main(["run", str(tiny), *inputs, "--output", str(data / "out")]) == 0
    assert sorted(path.name for path in (data / "out").iterdir()) == ["scores_last_0.npy", "y.npy"]
    np.testing.assert_allclose(np.load(data / "out" / "y.npy"), Y, rtol=1e-6)
    np.testing.assert_allclose(np.load(data / "out" / "scores_last_0.npy"), Y + BIAS, rtol=1e-6)


def test_run_stores_one_archive_under_the_names_of_the_outputs(tiny: Path, data: Path) -> None:
    assert main(["run", str(tiny), "--input", f"{data}/both.npz", "--output", str(data / "out.npz")]) == 0
    with np.load(data / "out.npz") as archive:
        assert archive.files == ["y", "scores/last:0"]
        np.testing.assert_allclose(archive["scores/last:0"], Y + BIAS, rtol=1e-6)


def test_outputs_whose_names_make_the_same_file_name_are_all_stored(tmp_path: Path) -> None:
    outputs = {
        "a:b": np.zeros(1),
        "a/b": np.ones(2),
        "../up": [np.ones(3), None],
        "text": np.array(["x", "yz"], object),
    }
    paths = _run._store(outputs, tmp_path / "out")
    assert [path.name for path in paths] == ["a_b.npy", "a_b-2.npy", "_up.0.npy", "text.npy"]
    assert [np.load(path).shape for path in paths] == [(1,), (2,), (3,), (2,)]
    assert {path.parent for path in paths} == {tmp_path / "out"}


def test_run_shows_small_outputs_and_sums_up_large_ones(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tiny), "--input", "x=[[1,2,3,4]]", "--input", "bias=[0,0,0]"]) == 0
    first, head, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("tiny(x float32[1, 4], bias float32[3]) took ")
    assert head.split() == ["output", "dtype", "shape", "values"]
    assert rows[0].split(maxsplit=2)[2] == "[1, 3]  [1., 2., 3.]"
    assert main(["run", str(tiny), "--input", "x=rand:5,4", "--input", "bias=[0,0,0]"]) == 0
    assert " to " in capsys.readouterr().out.splitlines()[2]


def test_what_is_made_of_a_seed_is_the_same_each_time(tiny: Path, data: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        words = ["--input", "x=rand:2,4", "--input", "bias=rand:3", "--seed", seed]
        assert main(["run", str(tiny), *words, "--output", str(data / f"{name}.npz")]) == 0
    stored = {name: np.load(data / f"{name}.npz")["y"] for name in "abc"}
    assert np.array_equal(stored["a"], stored["b"])
    assert not np.array_equal(stored["a"], stored["c"])


def test_another_float_is_converted_and_that_is_said(
    tiny: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(data / "wide.npy", X.astype(np.float64))
    words = ["--input", f"x={data}/wide.npy", "--input", f"bias={data}/bias.npy"]
    assert main(["run", str(tiny), *words]) == 0
    assert capsys.readouterr().err == "x: converted from float64 to float32\n"


def test_explain_draw_and_trace_look_at_a_model_with_made_inputs(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explain", str(tiny), "--dim", "batch=7"]) == 0
    printed = capsys.readouterr().out
    assert "matmul" in printed
    assert "float32[7, 3]" in printed
    assert main(["draw", str(tiny)]) == 0
    assert ElementTree.parse(tmp_path / "tiny.svg").getroot().tag.endswith("svg")
    assert main(["trace", str(tiny), "--calls", "3", "--output", "t.json"]) == 0
    events = json.loads((tmp_path / "t.json").read_text())
    assert sum(event["ph"] == "b" for event in events) == 3
    assert "tiny" in json.dumps(events)


def test_bench_measures_both_engines_and_says_how_far_they_differ(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--concurrency", "1,2", "--seconds", "0.03", "--threads", "1", "--compare", "onnxruntime"]
    assert main(["bench", str(tiny), *words, "--json", "--plot", str(tmp_path / "p.png")]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(row["engine"], row["concurrency"]) for row in result["rows"]] == [
        ("asyncjit", 1),
        ("onnxruntime", 1),
        ("asyncjit", 2),
        ("onnxruntime", 2),
    ]
    assert result["threads"] == 1
    assert result["max_rel_err"] < 1e-6
    for row in result["rows"]:
        assert row["calls"] >= 3 * row["concurrency"]
        assert 0 < row["min_ms"] <= row["p50_ms"] <= row["p90_ms"] <= row["p99_ms"]
        assert ("speed_ratio" in row) == (row["engine"] == "asyncjit")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_bench_prints_a_table(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(tiny), "--concurrency", "3", "--seconds", "0.01"]) == 0
    title, head, row = capsys.readouterr().out.splitlines()
    assert title.startswith("tiny(x float32[1, 4], bias float32[3]) on ")
    assert head.split()[:3] == ["engine", "concurrency", "calls"]
    assert row.split()[:2] == ["asyncjit", "3"]


def test_the_module_and_the_script_are_the_same_command(tiny: Path) -> None:
    command = [sys.executable, "-m", "asyncjit", "info", str(tiny), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["nodes"] == 3


@pytest.mark.skipif(sys.platform == "win32", reason="signals are another matter there")
def test_an_interrupted_command_ends_with_one_word(tiny: Path) -> None:
    # It says when it is at work: what is waited for is its warning about the conversion.
    np.save(tiny.parent / "x.npy", np.ones((1, 4)))
    words = ["--input", f"x={tiny.parent / 'x.npy'}", "--concurrency", "2", "--seconds", "600"]
    command = [sys.executable, "-m", "asyncjit", "bench", str(tiny), *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "converted" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")


def test_a_reader_that_leaves_is_no_error(tiny: Path) -> None:
    command = [sys.executable, "-m", "asyncjit", "info", str(tiny)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 1
