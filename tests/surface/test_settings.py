"""Settings: what the environment says, what a block changes, and that either makes a difference."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.plan import Plan


def test_the_environment_is_read_by_names_and_case_does_not_matter() -> None:
    read = aj.Settings.from_environment
    assert read({}) == aj.Settings(jit="on", graph_batch_size=None, log_level=None)
    environment = {"ASYNCJIT_JIT": "No_Graphs", "ASYNCJIT_GRAPH_BATCH_SIZE": " 32 ", "ASYNCJIT_LOG_LEVEL": "debug"}
    assert read(environment) == aj.Settings(jit="no_graphs", graph_batch_size=32, log_level="DEBUG")
    assert read({"ASYNCJIT_JIT": "", "OTHER": "1"}) == aj.Settings()


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("JIT", "maybe", "'on', 'off' or 'no_graphs', got 'maybe'"),
        ("GRAPH_BATCH_SIZE", "0", "at least 1, got 0"),
        ("GRAPH_BATCH_SIZE", "-3", "at least 1, got '-3'"),
        ("LOG_LEVEL", "loud", "DEBUG, INFO.*got 'LOUD'"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_its_variable(variable: str, value: str, expected: str) -> None:
    with pytest.raises(ValueError, match=rf"\(ASYNCJIT_{variable}\) must be .*{expected}"):
        aj.Settings.from_environment({f"ASYNCJIT_{variable}": value})


def test_a_variable_that_is_no_setting_is_told_of() -> None:
    with pytest.warns(UserWarning, match=r"ASYNCJIT_JITT is set.*there are ASYNCJIT_JIT, "):
        assert aj.Settings.from_environment({"ASYNCJIT_JITT": "off"}) == aj.Settings()


def test_a_block_changes_settings_for_itself_and_puts_them_back() -> None:
    before = aj.settings()
    with aj.override_settings(jit="off") as inner:
        assert aj.settings() is inner
        with aj.override_settings(graph_batch_size=4):
            assert aj.settings() == aj.Settings(jit="off", graph_batch_size=4, log_level=before.log_level)
        with pytest.raises(ValueError, match="setting jit"), aj.override_settings(jit="bogus"):
            pass
        assert aj.settings() is inner
    assert aj.settings() is before
    with pytest.raises(TypeError), aj.override_settings(colour="red"):
        pass


SCRIPT = """
import asyncjit as aj, asyncjit.numpy as anp
f = aj.jit(lambda x: x + 1)
f.run(anp.ones(2))
print(aj.settings().jit, len(f.captures))
"""


@pytest.mark.parametrize(("jit", "captures"), [("on", 1), ("off", 0)])
def test_a_process_takes_its_settings_from_its_environment(jit: str, captures: int) -> None:
    environment = {"ASYNCJIT_JIT": jit, "ASYNCJIT_LOG_LEVEL": "DEBUG", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == [jit, str(captures)]
    assert ("captured <lambda> as 1 calls" in done.stderr) is bool(captures)


async def test_off_runs_the_python_code_at_every_call_and_gives_replays_all_the_same() -> None:
    runs: list[int] = []
    total = anp.zeros(3)

    @aj.jit
    def inner(x: anp.Array) -> anp.Array:
        return x * 2

    @aj.jit
    async def f(x: Any, by: float) -> dict[str, anp.Array]:
        runs.append(1)
        total[...] = total + by
        return {"y": await inner(x) + by, "total": total}

    with aj.override_settings(jit="off"):
        for turn in range(1, 4):
            replay = f(np.ones(3), 1.5)
            assert isinstance(replay, aj.Replay)
            result = await replay
            assert np.asarray(result["y"]).tolist() == [3.5] * 3
            assert np.asarray(result["total"]).tolist() == [1.5 * turn] * 3
    assert len(runs) == 3
    assert f.captures == []
    # What is returned belongs to the caller, here too.
    total[...] = 0.0
    assert np.asarray(result["total"]).tolist() == [4.5] * 3
    await f(np.ones(3), 1.5)
    await f(np.ones(3), 1.5)
    assert len(runs) == 4


async def test_off_leaves_what_is_built_of_captures_alone() -> None:
    a, b = anp.zeros(2), anp.ones(2)
    with aj.override_settings(jit="off"):
        await aj.assign({a: b, b: a})
        copied, _ = await aj.snapshot(a, b)
    assert np.asarray(copied).tolist() == [1.0, 1.0]


@aj.jit
def chain(x: anp.Array) -> anp.Array:
    for _ in range(100):
        x = x + 1
    return x


async def plan_of_chain(**changes: Any) -> Plan:
    plans: list[Any] = []
    with aj.override_settings(**changes):
        async with aj.Engine():
            await chain.prepare(aj.spec(3))
            table = chain._table()
            plans += [entry.program.plan for entry in table]
            assert np.asarray(await chain(anp.zeros(3, dtype="float32"))).tolist() == [100.0] * 3
    (plan,) = plans
    assert isinstance(plan, Plan)
    return plan


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        ({}, [100]),
        ({"graph_batch_size": 32}, [32, 64, 4]),
        ({"graph_batch_size": 10}, [10, 20, 40, 30]),
        ({"jit": "no_graphs"}, [1] * 100),
    ],
)
async def test_calls_are_cut_into_segments_as_set(changes: Any, sizes: list[int]) -> None:
    plan = await plan_of_chain(**changes)
    assert [len(segment.calls) for segment in plan.segments] == sizes


def test_the_log_level_of_a_block_is_put_back() -> None:
    logger = logging.getLogger("asyncjit")
    before = logger.level
    with aj.override_settings(log_level="ERROR"):
        assert logger.level == logging.ERROR
    assert logger.level == before
