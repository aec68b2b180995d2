"""Files as they come: what is read, and what is refused before anything is allocated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import convert_model_to_external_data

import asyncjit as aj
from asyncjit.errors import OnnxError
from asyncjit.onnx import load
from tests.onnx._building import model, node, value

F = np.float32


def linear(**more: Any) -> onnx.ModelProto:
    weights = {"w": np.arange(12, dtype=F).reshape(4, 3), "b": np.ones(3, F)}
    nodes = [node("MatMul", ["x", "w"], ["y"]), node("Add", ["y", "b"], ["z"])]
    return model(nodes, [value("x", F, ["batch", 4])], [value("z", F, ["batch", 3])], weights, **more)


X = np.arange(8, dtype=F).reshape(2, 4)
EXPECTED = X @ np.arange(12, dtype=F).reshape(4, 3) + 1


def answer(loaded: Any, **inputs: Any) -> Any:
    (only,) = loaded.run(**inputs).values()
    return np.asarray(only)


@pytest.mark.parametrize("form", ["path", "text", "bytes", "proto"])
def test_a_model_comes_as_a_path_as_bytes_or_as_a_proto(form: str, tmp_path: Path) -> None:
    path = tmp_path / "linear.onnx"
    path.write_bytes(linear().SerializeToString())
    given = {"path": path, "text": str(path), "bytes": path.read_bytes(), "proto": linear()}[form]
    loaded = load(given)
    assert loaded.name == ("linear" if form in ("path", "text") else "small")
    np.testing.assert_array_equal(answer(loaded, x=X), EXPECTED)


def test_aj_onnx_is_the_package() -> None:
    assert aj.onnx.load is load


def test_weights_may_lie_in_files_beside_the_model(tmp_path: Path) -> None:
    proto = linear()
    convert_model_to_external_data(proto, all_tensors_to_one_file=True, location="weights.bin", size_threshold=0)
    onnx.save(proto, tmp_path / "m.onnx")
    assert (tmp_path / "weights.bin").stat().st_size >= 60
    np.testing.assert_array_equal(answer(load(tmp_path / "m.onnx"), x=X), EXPECTED)
    data = (tmp_path / "m.onnx").read_bytes()
    with pytest.raises(OnnxError, match="has no folder; load it by its path"):
        load(data)
    (tmp_path / "weights.bin").write_bytes(b"short")
    with pytest.raises(OnnxError, match="truncated, or belongs to another model"):
        load(tmp_path / "m.onnx")
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(OnnxError, match="there is no such file"):
        load(tmp_path / "m.onnx")


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "a/../../secret.bin", "", "link.bin"])
def test_a_path_that_leaves_the_folder_is_not_read(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(48))
    folder = tmp_path / "model"
    (folder / "a").mkdir(parents=True)
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    proto = linear()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(OnnxError, match="outside of the model's folder"):
        load(folder / "m.onnx")


def test_what_is_no_model_says_so(tmp_path: Path) -> None:
    data = linear().SerializeToString()
    for bad in (b"", b"hello, this is no model", data[: len(data) // 2], data[:-1], b"\xff" * 100):
        with pytest.raises(OnnxError, match="damaged|truncated|no graph"):
            load(bad)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere.onnx")


@pytest.mark.parametrize(
    ("dims", "raw", "message"),
    [
        ([2**29], bytes(48), r"needs 2147483648 bytes and has 48"),
        ([2**40, 2**40], bytes(48), "needs .* bytes and has 48"),
        ([-4, 3], bytes(48), "extents are not negative"),
        ([4, 3], bytes(47), "needs 48 bytes and has 47"),
        ([4, 3], bytes(52), "needs 48 bytes and has 52"),
    ],
)
def test_a_tensor_that_promises_what_it_does_not_have_is_refused(dims: list[int], raw: bytes, message: str) -> None:
    proto = linear()
    tensor = proto.graph.initializer[0]
    tensor.dims[:] = dims
    tensor.raw_data = raw
    with pytest.raises(OnnxError, match=message):
        load(proto)


def test_a_small_file_cannot_ask_for_more_memory_than_it_may_have() -> None:
    shape = numpy_helper.from_array(np.array([2**31, 2**10]), "shape")
    graph = helper.make_graph(
        [node("ConstantOfShape", ["shape"], ["z"], name="huge")], "g", [], [value("z", F, None)], [shape]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    with pytest.raises(OnnxError, match="takes 8796093022208 bytes, more than 2147483648; raise value_bytes_max"):
        load(proto)
    with pytest.raises(OnnxError, match="more than 1000"):
        load(linear_of_shape(), value_bytes_max=1000)


def linear_of_shape() -> onnx.ModelProto:
    graph = helper.make_graph(
        [node("ConstantOfShape", ["shape"], ["z"])],
        "g",
        [],
        [value("z", F, None)],
        [numpy_helper.from_array(np.array([1000]), "shape")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def test_an_unsupported_operator_is_named_with_its_node() -> None:
    graph = helper.make_graph(
        [node("Frobnicate", ["x"], ["y"], name="odd"), node("Relu", ["y"], ["z"])],
        "g",
        [value("x", F, [1])],
        [value("z", F, [1])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    with pytest.raises(OnnxError, match=r"node 'odd' \(Frobnicate\) of opset 21 is not supported") as caught:
        load(proto)
    assert caught.value.details["node"] == "odd"
    assert caught.value.details["unsupported"] == ("Frobnicate",)


def test_a_domain_that_is_not_imported_is_refused() -> None:
    graph = helper.make_graph(
        [node("Gelu", ["x"], ["z"], domain="com.example")], "g", [value("x", F, [1])], [value("z", F, [1])]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    with pytest.raises(OnnxError, match=r"of the domain 'com.example', and the model imports no opset"):
        load(proto)


def test_values_that_nothing_makes_or_two_nodes_make_or_that_wait_for_each_other() -> None:
    def made(*nodes: onnx.NodeProto) -> onnx.ModelProto:
        graph = helper.make_graph(list(nodes), "g", [value("x", F, [1])], [value("z", F, [1])])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])

    with pytest.raises(OnnxError, match="uses values that nothing makes: 'ghost'"):
        load(made(node("Add", ["x", "ghost"], ["z"])))
    with pytest.raises(OnnxError, match="makes 'z', which is made elsewhere too"):
        load(made(node("Relu", ["x"], ["z"]), node("Neg", ["x"], ["z"])))
    with pytest.raises(OnnxError, match="wait for each other's results"):
        load(made(node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["z"])))


def test_nodes_in_any_order_are_put_in_order() -> None:
    graph = helper.make_graph(
        [node("Neg", ["y"], ["z"]), node("Relu", ["x"], ["y"])], "g", [value("x", F, [2])], [value("z", F, [2])]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    np.testing.assert_array_equal(answer(load(proto), x=np.array([-1, 2], F)), [0, -2])


def test_functions_of_the_model_are_put_in_the_place_of_their_calls() -> None:
    scale = helper.make_function(
        "own",
        "Scale",
        ["a"],
        ["b"],
        [
            helper.make_node("Constant", [], ["c"]),
            helper.make_node("Mul", ["a", "c"], ["b"]),
        ],
        [helper.make_opsetid("", 21)],
        ["factor"],
    )
    reference = scale.node[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "value_float", "factor", onnx.AttributeProto.FLOAT
    twice = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [
            helper.make_node("Scale", ["a"], ["h"], domain="own", factor=3.0),
            helper.make_node("Scale", ["h"], ["b"], domain="own", factor=5.0),
        ],
        [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)],
    )
    proto = model(
        [node("Twice", ["x"], ["y"], domain="own"), node("Twice", ["y"], ["z"], domain="own")],
        [value("x", F, [2])],
        [value("z", F, [2])],
        imports=[helper.make_opsetid("own", 1)],
        functions=[scale, twice],
    )
    np.testing.assert_array_equal(answer(load(proto), x=np.array([1, 2], F)), [225, 450])


def test_a_function_that_calls_itself_is_refused() -> None:
    loop = helper.make_function(
        "own",
        "Loop",
        ["a"],
        ["b"],
        [helper.make_node("Loop", ["a"], ["b"], domain="own")],
        [helper.make_opsetid("own", 1)],
    )
    graph = helper.make_graph(
        [node("Loop", ["x"], ["z"], domain="own")], "g", [value("x", F, [1])], [value("z", F, [1])]
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    with pytest.raises(OnnxError, match="calls itself, or nests too deeply"):
        load(helper.make_model(graph, opset_imports=imports, functions=[loop]))


def test_graphs_too_deep_for_the_stack_are_refused() -> None:
    inner = helper.make_graph([node("Identity", ["x"], ["y0"])], "g", [], [value("y0", F, [1])])
    for depth in range(1, 20):
        branch = node("If", ["c"], [f"y{depth}"], then_branch=inner, else_branch=inner)
        branch.attribute[1].g.CopyFrom(helper.make_graph([], "e", [], [value("x", F, [1])]))
        inner = helper.make_graph([branch], "g", [], [value(f"y{depth}", F, [1])])
    inner.input.extend([value("x", F, [1]), value("c", bool, [])])
    with pytest.raises(OnnxError, match="more than 16"):
        load(helper.make_model(inner, opset_imports=[helper.make_opsetid("", 21)]))


def test_constants_are_folded_and_what_nobody_reads_is_dropped() -> None:
    proto = model(
        [
            node("Transpose", ["w"], ["t"], perm=[1, 0]),
            node("Mul", ["t", "two"], ["u"]),
            node("MatMul", ["x", "u"], ["z"]),
        ],
        [value("x", F, [2, 3])],
        [value("z", F, [2, 4])],
        {"w": np.arange(12, dtype=F).reshape(4, 3), "two": np.array(2, F)},
    )
    loaded = load(proto)
    x = np.ones((2, 3), F)
    np.testing.assert_array_equal(answer(loaded, x=x), x @ (2 * np.arange(12, dtype=F).reshape(4, 3)).T)
    assert loaded.weight_bytes == 48, "one folded constant is left"
    assert "1 call," in loaded.explain()


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint16", "int32", "uint64", "bool", "complex64"])
def test_tensors_of_every_kind_are_read_from_bytes_and_from_numbers(dtype: str) -> None:
    expected = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for raw in (True, False):
        tensor = helper.make_tensor(
            "c", code, expected.shape, expected.tobytes() if raw else expected.reshape(-1), raw=raw
        )
        graph = helper.make_graph(
            [node("Identity", ["c"], ["z"])], "g", [], [helper.make_tensor_value_info("z", code, None)], [tensor]
        )
        found = answer(load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
