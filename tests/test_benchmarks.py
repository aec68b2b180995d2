"""The benchmarks run, and say what they are asked for; what they measure is no test's business."""

from __future__ import annotations

import importlib
import json
import sys

import pytest

from asyncjit import plan
from asyncjit.placement import place
from benchmarks import _graphs, memory
from benchmarks.__main__ import NAMES, main, table


@pytest.mark.parametrize("name", NAMES)
def test_each_benchmark_is_a_module_with_a_run(name: str) -> None:
    assert callable(importlib.import_module(f"benchmarks.{name}").run)


def test_an_unknown_name_is_refused_with_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["nope"])
    assert caught.value.code == 2
    assert "overhead" in capsys.readouterr().err


def test_a_missing_package_is_named_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "benchmarks.placement", raising=False)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    assert main(["placement", "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    [line] = printed.err.splitlines()
    assert "scipy" in line


def test_json_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.lower.CALLS", (100,))
    monkeypatch.setattr("benchmarks.lower.ROUNDS", {100: 1})
    assert main(["lower", "--json"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    [row] = json.loads(line)["rows"]
    assert set(row) == {"calls", "ms"}
    assert "calls" in table({"rows": [row], "total": 1})


@pytest.mark.parametrize("streams", [1, 2])
def test_reuse_of_memory_adds_no_order(streams: int) -> None:
    row = memory.row(_graphs.mlp_step(layers=3), streams)
    assert (row["edges_added"], row["parallelism_lost"]) == (0, 0.0)
    assert set(row) == {
        "graph",
        "streams",
        "frame_bytes",
        "program_order_bytes",
        "edges_added",
        "parallelism_lost",
    }


def test_order_that_the_bytes_of_an_arena_add_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layout for one stream, run on two, orders calls that nothing else orders."""
    plan_memory = plan.plan_memory
    monkeypatch.setattr(plan, "plan_memory", lambda graph, _placement: plan_memory(graph, place(graph, streams_max=1)))
    row = memory.row(_graphs.wide_inference(branches=4, depth=4), 2)
    assert isinstance(row["edges_added"], int)
    assert row["edges_added"] > 0
    assert isinstance(row["parallelism_lost"], float)
    assert row["parallelism_lost"] > 0
