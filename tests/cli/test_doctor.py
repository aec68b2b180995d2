"""The doctor: what it finds on this machine, on made-up ones, and what it advises.

Law: machines that are not there are trees of files and plain numbers.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asyncjit.cli import _doctor, _machine, main


def test_this_machine_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) in (0, 1)
    found = {each["what"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["a replay"] == {
        "what": "a replay",
        "fact": "gives what NumPy gives",
        "verdict": "good",
        "advice": "",
    }
    for what in ("asyncjit", "python", "cores", "memory limit", "numpy", "devices", "event loops", "anyio", "onnx"):
        assert found[what]["fact"]
    assert all(each["advice"] for each in found.values() if each["verdict"] != "good")
    assert main(["doctor"]) in (0, 1)
    assert "ok  a replay" in capsys.readouterr().out


def tree(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_least_quota_on_the_way_up_counts(tmp_path: Path) -> None:
    root = tree(tmp_path, proc__self__cgroup="0::/pod/box\n")
    for folder, text in (("pod/box", "max 100000"), ("pod", "150000 100000"), ("", "800000 100000")):
        path = root / "sys/fs/cgroup" / folder
        path.mkdir(parents=True, exist_ok=True)
        (path / "cpu.max").write_text(text)
        (path / "memory.max").write_text("max" if folder == "pod/box" else str(len(folder) * 10**9 + 10**9))
    assert _machine.cgroup_cores(root) == 1.5
    assert _machine.cgroup_memory_bytes(root) == 10**9


def test_control_groups_of_version_1_are_read(tmp_path: Path) -> None:
    root = tree(tmp_path, proc__self__cgroup="4:cpu,cpuacct:/a\n3:memory:/a\n0::/\n")
    for folder, files in {
        "cpu/a": {"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"},
        "cpu": {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"},
        "memory/a": {"memory.limit_in_bytes": "9223372036854771712"},
    }.items():
        path = root / "sys/fs/cgroup" / folder
        path.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (path / name).write_text(text)
    assert _machine.cgroup_cores(root) == 0.5
    assert _machine.cgroup_memory_bytes(root) is None


def test_a_machine_without_control_groups_has_no_quota(tmp_path: Path) -> None:
    assert _machine.cgroup_cores(tmp_path) is None
    assert _machine.cgroup_memory_bytes(tmp_path) is None


@pytest.mark.parametrize(
    ("usable", "quota", "load", "verdicts", "says"),
    [
        (4, None, 1.0, ["good"], ""),
        (4, 4.0, 1.0, ["good"], ""),
        (16, 2.5, 1.0, ["problem"], "workers=2"),
        (16, 0.2, None, ["problem"], "workers=1"),
        (2, None, 7.5, ["good", "note"], "others use the cores"),
    ],
)
def test_workers_that_a_quota_would_stop_are_a_problem(
    usable: int, quota: float | None, load: float | None, verdicts: list[str], says: str
) -> None:
    found = list(_doctor._cores(usable, quota, load))
    assert [each.verdict for each in found] == verdicts
    assert says in found[-1].advice


def test_each_package_that_is_missing_comes_with_what_installs_it() -> None:
    found = {each.what: each for each in _doctor._packages(lambda name: None)}
    assert found["anyio"].verdict == "problem"
    assert "pip install anyio" in found["anyio"].advice
    for name, (purpose, brings) in _doctor.OPTIONAL.items():
        assert (found[name].verdict, found[name].fact) == ("note", "not installed")
        assert found[name].advice == f"for {purpose}: pip install {brings}"


def test_a_problem_makes_the_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_machine, "cgroup_cores", lambda: 0.1)
    monkeypatch.setattr(_machine, "cores_usable", lambda: 8)
    assert main(["doctor"]) == 1
    assert "!!  cores" in capsys.readouterr().out
