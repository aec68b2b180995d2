"""What can be recorded at once, and what is run in steps: control flow, sequences, optionals, text."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from asyncjit.errors import KernelError, OnnxError
from asyncjit.onnx import load
from tests.onnx._building import model, node, value

F = np.float32
I64 = np.int64


def branch(name: str, nodes: list[Any], outputs: list[str], dtype: Any = F) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [value(each, dtype, None) for each in outputs])


def by_sum() -> onnx.ModelProto:
    """The branch follows from what is computed: only the host can choose it."""
    nodes = [
        node("Mul", ["x", "three"], ["y"]),
        node("ReduceSum", ["y"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node(
            "If",
            ["c"],
            ["b"],
            then_branch=branch("then", [node("Add", ["y", "three"], ["t"])], ["t"]),
            else_branch=branch("else", [node("Neg", ["y"], ["e"])], ["e"]),
        ),
        node("Mul", ["b", "three"], ["z"]),
    ]
    return model(
        nodes, [value("x", F, ["n"])], [value("z", F, ["n"])], {"three": np.array(3, F), "zero": np.array(0, F)}
    )


async def test_a_branch_that_is_computed_is_chosen_by_the_host() -> None:
    loaded = load(by_sum())
    assert not loaded.is_recorded
    for x in (np.array([1, 2], F), np.array([-1, -2], F), np.array([5, 6], F)):
        y = x * 3
        outputs = await loaded(x=x)
        np.testing.assert_array_equal(np.asarray(outputs["z"]), (y + 3 if y.sum() > 0 else -y) * 3)
    assert loaded.statistics().captures == 4, "before, two branches, after"
    for call in (lambda: loaded.map([x]), lambda: loaded.batched(4, 0.1)):
        with pytest.raises(OnnxError, match=r"several steps.*\(If\)"):
            call()


def test_steps_run_in_plain_threads_too() -> None:
    outputs = load(by_sum()).run(x=np.array([1, 2], F))
    np.testing.assert_array_equal(np.asarray(outputs["z"]), [18, 27])


def collatz() -> onnx.ModelProto:
    """Counts until the value is small: how many rounds there are follows from values."""
    body = helper.make_graph(
        [
            node("Mul", ["v", "half"], ["v_out"]),
            node("Greater", ["v_out", "limit"], ["going"]),
            node("Identity", ["v_out"], ["kept"]),
        ],
        "body",
        [value("i", I64, []), value("cond", bool, []), value("v", F, [])],
        [value("going", bool, []), value("v_out", F, []), value("kept", F, [])],
    )
    nodes = [node("Loop", ["", "yes", "x"], ["last", "all"], body=body)]
    return model(
        nodes,
        [value("x", F, [])],
        [value("last", F, []), value("all", F, [None])],
        {"half": np.array(0.5, F), "limit": np.array(1, F), "yes": np.array(True)},
    )


async def test_a_loop_until_something_computed_holds_makes_as_many_rounds_as_it_takes() -> None:
    loaded = load(collatz())
    assert not loaded.is_recorded
    for start, rounds in [(10, 4), (100, 7), (3, 2)]:
        outputs = await loaded(x=F(start))
        assert np.asarray(outputs["last"]) == F(start) / 2**rounds
        np.testing.assert_array_equal(np.asarray(outputs["all"]), F(start) / 2.0 ** np.arange(1, rounds + 1))
    assert loaded.statistics().captures == 1, "the body is recorded once"


async def test_a_loop_that_collects_values_of_several_shapes_is_refused() -> None:
    body = helper.make_graph(
        [
            node("Concat", ["v", "x"], ["v_out"], axis=0),
            node("ReduceSum", ["v_out"], ["sum"], keepdims=0),
            node("Less", ["sum", "limit"], ["going"]),
            node("Identity", ["v_out"], ["kept"]),
        ],
        "body",
        [value("i", I64, []), value("cond", bool, []), value("v", F, [None])],
        [value("going", bool, []), value("v_out", F, [None]), value("kept", F, [None])],
    )
    proto = model(
        [node("Loop", ["", "yes", "x"], ["last", "all"], body=body, name="grow")],
        [value("x", F, ["n"])],
        [value("last", F, [None]), value("all", F, [None, None])],
        {"limit": np.array(2.5, F), "yes": np.array(True)},
    )
    with pytest.raises(OnnxError, match=r"node 'grow' \(Loop\) collects values of one shape.*\(2,\), \(3,\)"):
        await load(proto)(x=np.ones(1, F))


def counted(rounds_known: bool) -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", ["cond"], ["going"]), node("Add", ["v", "x"], ["v_out"]), node("Neg", ["v_out"], ["kept"])],
        "body",
        [value("i", I64, []), value("cond", bool, []), value("v", F, [2])],
        [value("going", bool, []), value("v_out", F, [2]), value("kept", F, [2])],
    )
    inputs = [value("x", F, [2])] + ([] if rounds_known else [value("n", I64, [])])
    return model(
        [node("Loop", ["n", "", "x"], ["last", "all"], body=body)],
        inputs,
        [value("last", F, [2]), value("all", F, [None, 2])],
        {"n": np.array(3)} if rounds_known else {},
    )


@pytest.mark.parametrize("rounds_known", [True, False])
async def test_a_loop_of_known_length_is_unrolled(rounds_known: bool) -> None:
    loaded = load(counted(rounds_known))
    assert loaded.is_recorded
    x = np.array([1, 2], F)
    outputs = await (loaded(x=x) if rounds_known else loaded(x=x, n=3))
    np.testing.assert_array_equal(np.asarray(outputs["last"]), x * 4)
    np.testing.assert_array_equal(np.asarray(outputs["all"]), -np.outer([2, 3, 4], x))
    if not rounds_known:
        empty = await loaded(x=x, n=0)
        assert empty["all"].shape == (0, 2)
        np.testing.assert_array_equal(np.asarray(empty["last"]), x)


async def test_a_loop_without_end_is_refused_when_it_is_unrolled() -> None:
    loaded = load(counted(False))
    with pytest.raises(OnnxError, match=r"\(Loop\).*more than 10000 rounds"):
        await loaded(x=np.zeros(2, F), n=2**62)


async def test_what_depends_on_values_runs_between_two_replays() -> None:
    nodes = [
        node("Mul", ["x", "two"], ["y"]),
        node("NonZero", ["y"], ["where"]),
        node("Transpose", ["where"], ["at"], perm=[1, 0]),
        node("GatherND", ["y", "at"], ["found"]),
        node("Add", ["found", "two"], ["z"]),
    ]
    proto = model(nodes, [value("x", F, ["n"])], [value("z", F, [None])], {"two": np.array(2, F)})
    loaded = load(proto)
    assert not loaded.is_recorded
    for x in ([0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 4, 0]):
        outputs = await loaded(x=np.array(x, F))
        np.testing.assert_array_equal(np.asarray(outputs["z"]), [2 * each + 2 for each in x if each])


async def test_shapes_follow_from_shapes_without_a_second_step() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["rows"]),
        node("Mul", ["rows", "two"], ["double"]),
        node("Concat", ["double", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["z"]),
    ]
    proto = model(
        nodes,
        [value("x", F, ["n", 4])],
        [value("z", F, [None, None])],
        {"zero": np.array([0]), "two": np.array(2), "rest": np.array([-1])},
    )
    loaded = load(proto)
    assert loaded.is_recorded
    assert loaded.static == ()
    for rows in (1, 3):
        outputs = await loaded(x=np.ones((rows, 4), F))
        assert outputs["z"].shape == (2 * rows, 2)


async def test_a_shape_that_is_computed_makes_a_second_step() -> None:
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=1),
        node("Cast", ["m"], ["n"], to=TensorProto.INT64),
        node("Expand", ["one", "n"], ["z"]),
    ]
    proto = model(nodes, [value("x", F, ["k"])], [value("z", F, [None])], {"one": np.array([1], F)})
    loaded = load(proto)
    assert not loaded.is_recorded
    for size in (2, 5):
        outputs = await loaded(x=np.array([1, size, 0], F))
        np.testing.assert_array_equal(np.asarray(outputs["z"]), np.ones(size))


async def test_sequences_go_in_and_out_and_are_known_by_their_structure() -> None:
    sequence = helper.make_tensor_sequence_value_info("xs", TensorProto.FLOAT, None)
    nodes = [
        node("SequenceLength", ["xs"], ["n"]),
        node("SequenceAt", ["xs", "last"], ["x"]),
        node("Neg", ["x"], ["y"]),
        node("SequenceInsert", ["xs", "y"], ["more"]),
        node("SequenceErase", ["more", "first"], ["rest"]),
        node("ConcatFromSequence", ["rest"], ["z"], axis=0),
    ]
    outputs = [value("z", F, [None]), value("n", I64, []), helper.make_tensor_sequence_value_info("rest", 1, None)]
    proto = model(nodes, [sequence], outputs, {"last": np.array(-1), "first": np.array(0)})
    loaded = load(proto)
    found = await loaded(xs=[np.array([1, 2], F), np.array([3], F)])
    np.testing.assert_array_equal(np.asarray(found["z"]), [3, -3])
    assert int(np.asarray(found["n"])) == 2
    assert [np.asarray(each).tolist() for each in found["rest"]] == [[3], [-3]]
    with pytest.raises(OnnxError, match="takes a list of arrays"):
        await loaded(xs=np.zeros(3, F))


async def test_text_stays_on_the_host() -> None:
    nodes = [
        node("StringConcat", ["a", "suffix"], ["b"]),
        node("Equal", ["b", "wanted"], ["same"]),
        node("Cast", ["same"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["f", "x"], ["z"]),
    ]
    proto = model(
        nodes,
        [value("a", object, ["n"]), value("x", F, ["n"])],
        [value("z", F, ["n"]), value("b", object, ["n"])],
        {"suffix": np.array(["!"], object), "wanted": np.array(["yes!"], object)},
    )
    loaded = load(proto)
    outputs = await loaded(a=np.array(["yes", "no", "yes"]), x=np.array([1, 2, 3], F))
    np.testing.assert_array_equal(np.asarray(outputs["z"]), [1, 0, 3])
    assert outputs["b"].tolist() == ["yes!", "no!", "yes!"]


async def test_outputs_that_are_inputs_or_weights_belong_to_the_caller() -> None:
    proto = model(
        [node("Identity", ["x"], ["y"])], [value("x", F, [2])], [value("y", F, [2]), value("w", F, [1])], {"w": F([7])}
    )
    loaded = load(proto)
    x = np.array([1, 2], F)
    outputs = await loaded(x=x)
    outputs["y"][...] = 5
    outputs["w"][...] = 5
    again = await loaded(x=x)
    await outputs["y"]
    assert np.asarray(again["y"]).tolist() == [1, 2]
    assert np.asarray(again["w"]).tolist() == [7]


async def test_an_error_at_run_time_names_the_operation() -> None:
    proto = model(
        [node("Gather", ["x", "i"], ["z"], name="pick")],
        [value("x", F, [3]), value("i", I64, ["k"])],
        [value("z", F, ["k"])],
    )
    loaded = load(proto)
    with pytest.raises(KernelError):
        await loaded(x=np.zeros(3, F), i=np.array([7]))
    outputs = await loaded(x=np.arange(3, dtype=F), i=np.array([-1]))
    assert np.asarray(outputs["z"]).tolist() == [2]


async def test_a_handler_that_cannot_do_it_names_the_node_and_what_it_was_given() -> None:
    proto = model(
        [node("Reshape", ["x", "shape"], ["z"], name="fold")],
        [value("x", F, ["n"]), value("shape", I64, [2])],
        [value("z", F, [None, None])],
    )
    with pytest.raises(
        OnnxError, match=r"node 'fold' \(Reshape\) of opset 21 with inputs \(float32\[5\], int64\[2\]\)"
    ):
        await load(proto)(x=np.zeros(5, F), shape=[2, 2])
