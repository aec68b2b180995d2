"""Captures with variables in files: one plan for all values there too, and the same refusals as before."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from tests.surface.saved_models import M as SIZE
from tests.surface.saved_models import T, again, decoder
from tests.surface.symbolic import POINTS, M, N
from tests.surface.test_save_processes import in_a_fresh_process
from tests.surface.test_variables import CASES


def listed(result: Any) -> list[np.ndarray]:
    if isinstance(result, dict):
        result = list(result.values())
    return [np.asarray(each) for each in (result if isinstance(result, tuple | list) else [result])]


def same(left: Any, right: Any) -> bool:
    """Equal in shape, dtype and every bit."""
    pairs = list(zip(listed(left), listed(right), strict=True))
    return all((a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes()) for a, b in pairs)


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_function_gives_the_same_for_every_value(name: str, file: Path) -> None:
    function = CASES[name]
    saved = aj.jit(lambda x, y, n, m: function(anp, x, y, n, m))
    host = np.arange(1.0, 49.0).reshape(8, 6)
    saved.run(anp.asarray(host), anp.asarray(host[:, 0]), N.bind(3), M.bind(1))
    loaded = again(file, saved)
    for n, m in POINTS:
        ours, theirs = ([anp.asarray(host), anp.asarray(host[:, 0])] for _ in range(2))
        before, after = (f.run(*a, N.bind(n), M.bind(m)) for f, a in ((saved, theirs), (loaded, ours)))
        assert same(before, after), (n, m)
        # What it writes in its arguments, too.
        assert same(theirs, ours), (n, m)
    assert loaded.captures == saved.captures


def test_a_kernel_with_a_symbolic_argument_and_a_cache_come_back(file: Path) -> None:
    decode, cache = decoder()
    for t in range(3):
        decode.run(np.full(4, t + 1.0), T.bind(t), SIZE.bind(2))
    loaded = again(file, decode=decode, cache=cache)
    for t in range(3, 8):
        x, m = np.full(4, t + 1.0), t % 4 + 1
        before, after = (f.run(x, T.bind(t), SIZE.bind(m)) for f in (decode, loaded["decode"]))
        assert same(before, after)
        assert np.asarray(after["sums"]).shape == (t + 1, 4)
    assert same(cache, loaded["cache"])
    assert len(decode.captures) == 1


def test_a_decode_loop_goes_on_in_a_fresh_process(tmp_path: Path) -> None:
    decode, _ = decoder()
    rows = [np.arange(4.0) * (t + 1) for t in range(8)]
    for t in range(4):
        decode.run(rows[t], T.bind(t), SIZE.bind(1))
    aj.save(tmp_path / "decode.aj", decode)
    code = """
import tests.surface.saved_models
decode = aj.load(sys.argv[1])
t, m = aj.Variable("t", 0, 7), aj.Variable("m", 1, 4)
report = []
for row in range(4, 8):
    result = decode.run(np.arange(4.0) * (row + 1), t.bind(row), m.bind(row % 4 + 1))
    report.append([np.asarray(each).tolist() for each in result.values()])
print(json.dumps([report, decode.captures]))
"""
    wanted = [decode.run(rows[t], T.bind(t), SIZE.bind(t % 4 + 1)).values() for t in range(4, 8)]
    report, captures = in_a_fresh_process(code, tmp_path / "decode.aj")
    assert report == [[np.asarray(each).tolist() for each in result] for result in wanted]
    assert captures == decode.captures
    assert report[-1][0] == [0.0, 18.0, 36.0, 54.0]


def test_a_pickle_holds_them_too_and_may_be_saved_again(file: Path) -> None:
    f = aj.jit(lambda x, n: (x[:n] * n, x[n:].sum()))
    x = np.arange(8.0)
    f.run(x, N.bind(2))
    back = again(file, pickle.loads(pickle.dumps(f)))
    for n in range(1, 7):
        assert same(back.run(x, N.bind(n)), (x[:n] * n, np.array(x[n:].sum())))


def test_results_take_no_more_memory_than_they_need(file: Path) -> None:
    f = aj.jit(lambda x, n: x[:n] * 2)
    f.run(np.arange(8.0), N.bind(6))
    result = again(file, f)(np.arange(8.0), N.bind(2)).result
    storage: Any = result._storage
    assert (result.shape, storage.nbytes, storage.memory.nbytes) == ((2,), 16, 16)


@pytest.mark.parametrize("prune", [False, True], ids=["whole", "pruned"])
async def test_a_lowered_plan_over_two_devices_comes_back(file: Path, prune: bool) -> None:
    async with aj.Engine(devices=("cpu", "cpu:1")):
        table = anp.asarray(np.arange(6.0))

        @aj.jit(prune=prune)
        def f(x: anp.Array, n: Any) -> Any:
            scaled = anp.exp(table) * 2
            return x[:n] * scaled[:n], scaled[n - 1 :].sum(), x[:n].to_device("cpu:1") + n

        x = anp.asarray(np.arange(8.0))
        await f.prepare(aj.spec((8,), "float64"), N)
        await f(x, N.bind(2))
        await asyncio.to_thread(aj.save, file, f)
        loaded = aj.load(file)
        for n in (6, 1, 3):
            assert same(await f(x, N.bind(n)), await loaded(x, N.bind(n)))


# What is refused.


def messages(f: Any, x: np.ndarray, calls: list[Callable[[Any, np.ndarray], object]]) -> list[str]:
    found = []
    for call in calls:
        with pytest.raises(ValueError, match=r".") as caught:
            call(f, x)
        found.append(str(caught.value))
    return found


def test_values_out_of_range_missing_or_twice_are_refused_as_before(file: Path) -> None:
    f = aj.jit(lambda x, n, m: x[:n] * m)
    f.run(np.arange(8.0), N.bind(2), M.bind(1))
    loaded = again(file, f)
    calls: list[Callable[[Any, np.ndarray], object]] = [
        lambda f, x: f.run(x, N.bind(7), M.bind(1)),
        lambda f, x: f.run(x, N, M.bind(1)),
        lambda f, x: f.run(x, N.bind(2), N.bind(3)),
        lambda f, x: f.run(x, N.bind(2), aj.Variable("n", 0, 9).bind(2)),
    ]
    x = np.arange(8.0)
    assert messages(loaded, x, calls) == messages(f, x, calls)
    with pytest.raises(TypeError, match="missing a required argument: 'm'"):
        loaded(x, N.bind(2))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "n: 3"),
        (aj.Variable("n", 1, 5).bind(3), "n: n from 1 to 5"),
        (aj.Variable("k", 1, 6).bind(3), "n: k from 1 to 6"),
    ],
    ids=["an integer", "another range", "another name"],
)
def test_another_variable_is_another_signature(file: Path, given: int, words: str) -> None:
    f = aj.jit(lambda x, n: x[:n] * 2)
    x = np.arange(8.0)
    f.run(x, N.bind(2))
    loaded = again(file, f)
    with pytest.raises(aj.ReplayMismatchError, match=rf"{words}\).*captured are .*n: n from 1 to 6"):
        loaded.run(x, given)
    equal = aj.Variable("n", 1, 6)
    assert np.asarray(loaded.run(x, equal.bind(3))).tolist() == [0.0, 2.0, 4.0]


def test_a_default_value_of_a_variable_comes_back(file: Path) -> None:
    def f(x: anp.Array, n: Any = N.bind(2)) -> anp.Array:  # noqa: B008
        return x[:n] + n

    captured: Any = aj.jit(f)
    captured.run(np.arange(8.0))
    loaded = again(file, captured)
    assert same(loaded.run(np.arange(8.0)), captured.run(np.arange(8.0)))
    assert np.asarray(loaded.run(np.arange(8.0), N.bind(5))).shape == (5,)


def test_an_expression_that_is_too_long_to_be_read_again_is_not_written(file: Path) -> None:
    f = aj.jit(lambda x, ns: x + sum(ns) * sum(ns[:12]))
    f.run(np.arange(8.0), [aj.Variable(f"v{index}", 0, 9).bind(1) for index in range(24)])
    with pytest.raises(aj.SaveError, match="a symbolic integer.* has more than 64 terms"):
        aj.save(file, f)
    assert not file.exists()
