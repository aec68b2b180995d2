"""The benchmarks run, and say what they are asked for; what they measure is no test's business."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from asyncjit import plan
from asyncjit.placement import place
from benchmarks import _graphs, cancel_storm, memory, memory_endless, models, pickle_, pipeline3, server
from benchmarks.__main__ import NAMES, main, module_of, table
from tests.models.wheels import WHEELS


@pytest.mark.parametrize("name", NAMES)
def test_each_benchmark_is_a_module_with_a_run(name: str) -> None:
    assert callable(importlib.import_module(module_of(name)).run)


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


def test_a_pipeline_is_held_against_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, few in (("ITEMS", 4), ("ROUNDS", 1), ("ALONE", 1), ("WIDTHS", ((8, 16, 8), (8, 8), (8, 4, 8)))):
        monkeypatch.setattr(f"benchmarks.pipeline3.{name}", few)
    figures = pipeline3.run()
    assert set(figures) == {"stage_ms", "per_item_ms", "workers", "ratio_to_bound"}


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


def test_the_storm_says_what_it_found() -> None:
    figures = cancel_storm.run(replays=300)
    assert int(str(figures["cancelled"])) > 0
    assert {name: figures[name] for name in ("leaked_bytes", "leaked_threads", "wrong")} == {
        "leaked_bytes": 0,
        "leaked_threads": 0,
        "wrong": 0,
    }


def test_a_pickled_model_weighs_its_weights_and_little_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_, "ROUNDS", 1)
    monkeypatch.setattr(pickle_, "UNITS", (64, 128, 10))
    figures = pickle_.run()
    assert set(figures) == {"dump_ms", "load_ms", "bytes", "weight_bytes", "captures"}
    assert figures["captures"] == 2
    assert figures["weight_bytes"] == 4 * (64 * 128 + 128 * 10 + 128 + 10)
    assert int(str(figures["weight_bytes"])) < int(str(figures["bytes"])) < 2 * int(str(figures["weight_bytes"]))


def test_the_endless_run_counts_its_replays_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_endless, "SAMPLES", 4)
    figures = memory_endless.run(replays=2_000)
    assert set(figures) == {"replays", "resident_mib_warm", "resident_mib_max", "growth"}
    assert int(str(figures["replays"])) >= 2_000


def test_the_server_is_asked_in_every_way_and_answers_what_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CLIENTS": 4, "ROUNDS": 1, "SECONDS": 0.1, "WARM_UP_S": 0.0, "MODELS": ("digits",)}.items():
        monkeypatch.setattr(server, name, value)
    figures = server.run()
    rows: Any = figures["rows"]
    assert [row["case"] for row in rows] == list(server.CASES)
    assert all(row["requests_per_s"] > 0 and row["wrong"] == 0 for row in rows)
    assert "digits_batched_over_engine" in figures


def test_models_are_measured_on_both_engines_and_those_that_are_not_there_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few: dict[str, Any] = {"SECONDS": 0.02, "CALLS_MIN": 1, "WARM_UP_CALLS": 1, "CONCURRENCY": 2}
    for name, value in {**few, "ROWS": ("magika-1", models.OCR), "thread_counts": lambda: [1]}.items():
        monkeypatch.setattr(models, name, value)
    figures: Any = models.run()
    wheels = {"magika-1": "magika", models.OCR: "rapidocr-onnxruntime"}
    missing = [name for name, wheel in wheels.items() if not WHEELS[wheel].is_fetched]
    assert figures.get("missing", []) == missing
    for row in figures["rows"]:
        assert row["asyncjit_ms"] > 0
        assert row["onnxruntime_ms"] > 0
        assert row["max_rel_err"] < 1e-3
        assert row["ratio"] > 0
        assert row["concurrency4_ratio"] > 0
    monkeypatch.setenv("ASYNCJIT_MODELS", str(tmp_path))
    assert models.run() == {"rows": [], "missing": ["magika-1", "ocr"]}
