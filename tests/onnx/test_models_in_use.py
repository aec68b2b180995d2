"""A model as users hold it: calls, signatures, static inputs, buckets, batches, pipelines, state of the engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
import asyncjit.numpy as anp
from asyncjit.errors import NothingCapturedError, OnnxError, WouldBlockError
from asyncjit.onnx import load
from tests.onnx._building import model, node, value

F = np.float32
W = np.arange(12, dtype=F).reshape(4, 3)


@pytest.fixture
def linear() -> Any:
    nodes = [node("MatMul", ["x", "w"], ["y"], name="product"), node("Relu", ["y"], ["z"])]
    return load(model(nodes, [value("x", F, ["batch", 4])], [value("z", F, ["batch", 3])], {"w": W}))


def rows(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((count, 4)).astype(F)


def expected(x: Any) -> Any:
    return np.maximum(x @ W, 0)


async def test_outputs_come_by_name_and_signatures_are_recorded_once(linear: Any) -> None:
    for count in (1, 2, 1, 2, 1):
        x = rows(count)
        outputs = await linear(x=x)
        assert list(outputs) == ["z"]
        np.testing.assert_allclose(np.asarray(outputs["z"]), expected(x), rtol=1e-6)
    counts = linear.statistics()
    assert (counts.captures, counts.captures_made, counts.replays) == (2, 2, 5)
    assert linear.captures == ["small(x: float32[1, 4])", "small(x: float32[2, 4])"]
    assert "node 'product' (MatMul)" in linear.explain()


async def test_a_call_is_a_replay_and_its_result_goes_on_without_waiting(linear: Any) -> None:
    x = rows(3)
    replay = linear(x)
    assert isinstance(replay, aj.Replay)
    doubled = replay.result["z"] * 2
    await doubled
    np.testing.assert_allclose(np.asarray(doubled), expected(x) * 2, rtol=1e-6)
    assert linear(anp.asarray(x)).ticket > replay.ticket


async def test_inputs_by_position_by_name_and_as_one_dict_are_one_signature(linear: Any) -> None:
    x = rows(2)
    for outputs in (await linear(x), await linear(x=x), await linear({"x": x}), await linear(x=x.tolist())):
        np.testing.assert_allclose(np.asarray(outputs["z"]), expected(x), rtol=1e-6)
    assert linear.statistics().captures == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m(), "needs the input 'x'; its inputs are x: float32\\[batch, 4\\]"),
        (lambda m: m(y=rows(1)), "needs the input 'x'"),
        (lambda m: m(x=rows(1), y=rows(1)), "has no input 'y'"),
        (lambda m: m(rows(1), x=rows(1)), "given twice"),
        (lambda m: m(rows(1), rows(1)), "takes 1 inputs"),
        (lambda m: m(x=rows(1).astype(float)), "was given float64; convert it with .astype\\('float32'\\)"),
        (lambda m: m(x=rows(1)[0]), r"was given the shape \(4,\)"),
        (lambda m: m(x=rows(1)[:, :3]), r"was given the shape \(1, 3\)"),
        (lambda m: m(x="text"), "cannot be made of an object of type str"),
        (lambda m: m(x=[[1, 2], [3]]), "cannot be made of an object of type list"),
        (lambda m: m(x=m(x=rows(1))), "pass `replay.result"),
    ],
)
async def test_inputs_that_do_not_fit_are_named(linear: Any, call: Any, message: str) -> None:
    with pytest.raises(OnnxError, match=message):
        await call(linear)


def test_equal_names_of_dimensions_stand_for_equal_extents() -> None:
    added = load(
        model(
            [node("Concat", ["a", "b"], ["z"], axis=1)],
            [value("a", F, ["n", 2]), value("b", F, ["n", 3])],
            [value("z", F, ["n", 5])],
        )
    )
    with pytest.raises(OnnxError, match="where 'n' is 3; in 'a' it is 2"):
        added.run(a=np.zeros((2, 2), F), b=np.zeros((3, 3), F))


def test_for_scripts_run_blocks_and_in_a_loop_it_refuses(linear: Any) -> None:
    x = rows(2)
    np.testing.assert_allclose(np.asarray(linear.run(x=x)["z"]), expected(x), rtol=1e-6)

    async def main() -> None:
        with pytest.raises(WouldBlockError, match="await model"):
            linear.run(x=x)

    asyncio.run(main())


async def test_prepare_records_before_the_first_call(linear: Any) -> None:
    await linear.prepare(aj.spec((5, 4), "float32"))
    assert linear.captures == ["small(x: float32[5, 4])"]
    x = rows(5)
    np.testing.assert_allclose(np.asarray((await linear(x))["z"]), expected(x), rtol=1e-6)
    assert linear.statistics().captures_made == 1
    report = await linear.check(x)
    assert not report.differences


async def test_reset_forgets_captures_and_draw_needs_one(linear: Any, tmp_path: Path) -> None:
    with pytest.raises(NothingCapturedError):
        linear.draw(tmp_path / "m.svg")
    await linear(rows(1))
    linear.draw(tmp_path / "m.svg")
    assert "matmul" in (tmp_path / "m.svg").read_text()
    linear.free_intermediates()
    linear.reset()
    assert linear.captures == []
    np.testing.assert_allclose(np.asarray((await linear(rows(1)))["z"]), expected(rows(1)), rtol=1e-6)


def shaped() -> Any:
    """``sr`` decides the branch, ``shape`` the shape."""
    then = _branch("then", [node("Add", ["x", "one"], ["t"])], "t")
    other = _branch("else", [node("Mul", ["x", "two"], ["e"])], "e")
    nodes = [
        node("Equal", ["sr", "rate"], ["c"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
        node("Reshape", ["y", "shape"], ["z"]),
    ]
    return model(
        nodes,
        [value("x", F, ["n"]), value("sr", np.int64, []), value("shape", np.int64, [2])],
        [value("z", F, [None, None])],
        {"one": np.array(1, F), "two": np.array(2, F), "rate": np.array(16000)},
    )


def _branch(name: str, nodes: list[Any], output: str) -> Any:
    from onnx import helper

    return helper.make_graph(nodes, name, [], [value(output, F, None)])


async def test_values_that_decide_are_part_of_the_signature() -> None:
    loaded = load(shaped())
    assert loaded.static == ("sr", "shape")
    assert loaded.is_recorded
    x = np.arange(6, dtype=F)
    for rate, shape in [(16000, [2, 3]), (8000, [3, 2]), (16000, [2, 3]), (16000, [-1, 2])]:
        outputs = await loaded(x=x, sr=rate, shape=shape)
        plain = x + 1 if rate == 16000 else x * 2
        np.testing.assert_array_equal(np.asarray(outputs["z"]), plain.reshape(shape))
    assert loaded.statistics().captures == 3
    assert "small(x: float32[6], sr=16000, shape=[2, 3])" in loaded.captures


async def test_an_input_can_be_made_static() -> None:
    nodes = [node("Mul", ["x", "by"], ["z"])]
    proto = model(nodes, [value("x", F, [2]), value("by", F, [])], [value("z", F, [2])])
    assert load(proto).static == ()
    loaded = load(proto, static="by")
    assert loaded.static == ("by",)
    for by in (2, 3, 2):
        outputs = await loaded(x=np.array([1, 2], F), by=by)
        np.testing.assert_array_equal(np.asarray(outputs["z"]), [by, 2 * by])
    assert loaded.statistics().captures == 2
    with pytest.raises(OnnxError, match="static= names"):
        load(proto, static="nothing")


async def test_captures_are_limited_by_count_and_by_bytes() -> None:
    nodes = [node("MatMul", ["x", "w"], ["y"]), node("Relu", ["y"], ["h"]), node("MatMul", ["h", "v"], ["z"])]
    proto = model(nodes, [value("x", F, ["n", 4])], [value("z", F, ["n", 4])], {"w": W, "v": np.ascontiguousarray(W.T)})
    counted = load(proto, captures_max=2)
    heavy = load(proto, captures_bytes_max=5000)
    for count in (100, 101, 102, 103):
        for each in (counted, heavy):
            x = rows(count)
            outputs = await each(x)
            np.testing.assert_allclose(np.asarray(outputs["z"]), expected(x) @ W.T, rtol=1e-5)
    assert counted.statistics().captures == 2
    assert heavy.statistics().captures < 4
    assert heavy.statistics().captures >= 1


@pytest.mark.parametrize("as_array", [False, True])
async def test_buckets_pad_inputs_and_cut_outputs(as_array: bool) -> None:
    nodes = [node("MatMul", ["x", "w"], ["z"])]
    proto = model(nodes, [value("x", F, ["batch", "width", 4])], [value("z", F, ["batch", "width", 3])], {"w": W})
    loaded = load(proto, bucket={"batch": (1, 4), "width": 8})
    for batch, width in [(1, 3), (2, 8), (3, 5), (4, 7), (5, 9)]:
        x = np.random.default_rng(batch).standard_normal((batch, width, 4)).astype(F)
        outputs = await loaded(anp.asarray(x) if as_array else x)
        assert outputs["z"].shape == (batch, width, 3)
        np.testing.assert_allclose(np.asarray(outputs["z"]), x @ W, rtol=1e-5, atol=1e-6)
    assert sorted(loaded.captures) == [
        "small(x: float32[1, 8, 4])",
        "small(x: float32[4, 8, 4])",
        "small(x: float32[8, 16, 4])",
    ]


def test_buckets_that_make_no_sense_are_refused(linear: Any) -> None:
    proto = model([node("Relu", ["x"], ["z"])], [value("x", F, ["n"])], [value("z", F, ["n"])])
    with pytest.raises(OnnxError, match="the dimensions that have names are n"):
        load(proto, bucket={"batch": 4})
    for sizes in (0, (), (2, -1), (1.5,)):
        with pytest.raises(OnnxError, match="positive integer"):
            load(proto, bucket={"n": sizes})  # type: ignore[dict-item]


async def test_map_runs_ahead_and_keeps_the_order(linear: Any) -> None:
    items = [rows(2, seed) for seed in range(7)]
    found = [np.asarray(outputs["z"]) async for outputs in linear.map(items, in_flight=3)]
    for x, z in zip(items, found, strict=True):
        np.testing.assert_allclose(z, expected(x), rtol=1e-6)
    named = [np.asarray(outputs["z"]) async for outputs in linear.map({"x": x} for x in items)]
    assert len(named) == 7


async def test_concurrent_calls_share_batches(linear: Any) -> None:
    batched = linear.batched(rows_max=8, wait_max_s=0.01)
    items = [rows(1 + seed % 2, seed) for seed in range(12)]
    found: list[Any] = [None] * 12

    async def call(index: int) -> None:
        found[index] = await batched(x=items[index])

    async with anyio.create_task_group() as tasks:
        for index in range(12):
            tasks.start_soon(call, index)
    for x, outputs in zip(items, found, strict=True):
        np.testing.assert_allclose(np.asarray(outputs["z"]), expected(x), rtol=1e-5)
    counts = batched.statistics()
    assert counts.rows == 18
    assert counts.batches < 12
    assert batched.buckets == (1, 2, 4, 8)
    with pytest.raises(OnnxError, match="shared= names"):
        linear.batched(8, 0.01, shared="nothing")


async def test_models_are_stages_of_a_pipeline(linear: Any) -> None:
    second = load(model([node("ReduceSum", ["z"], ["s"], keepdims=0)], [value("z", F, ["n", 3])], [value("s", F, [])]))
    items = [rows(2, seed) for seed in range(5)]
    sums = []
    async with aj.pipeline(linear, second, in_flight=3)(items) as outputs:
        async for each in outputs:
            sums.append(float(np.asarray(each["s"])))
    np.testing.assert_allclose(sums, [expected(x).sum() for x in items], rtol=1e-5)


async def test_a_model_called_in_a_jitted_function_is_part_of_it(linear: Any) -> None:
    @aj.jit
    def scaled(x: Any, by: float) -> Any:
        return linear(x)["z"] * by

    x = rows(2)
    np.testing.assert_allclose(np.asarray(await scaled(x, 3.0)), expected(x) * F(3), rtol=1e-6)
    assert scaled.statistics().captures == 1
    assert linear.statistics().replays == 0


async def test_weights_are_placed_once_an_engine_however_many_captures_there_are(linear: Any) -> None:
    async with aj.Engine() as engine:
        for count in range(1, 6):
            await linear(rows(count))
        (weight,) = linear._weights._placed[engine].values()
        assert weight.nbytes == linear.weight_bytes == W.nbytes
    async with aj.Engine():
        x = rows(2)
        np.testing.assert_allclose(np.asarray((await linear(x))["z"]), expected(x), rtol=1e-6)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_models_run_on_every_loop(linear: Any, backend: str) -> None:
    async def main() -> None:
        x = rows(2)
        np.testing.assert_allclose(np.asarray((await linear(x))["z"]), expected(x), rtol=1e-6)

    anyio.run(main, backend=backend)
