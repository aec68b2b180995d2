"""Models in files of ``aj.save``: without the package onnx and the model's own file they answer the same."""

from __future__ import annotations

import copy
import io
import random
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import asyncjit as aj
from asyncjit.errors import OnnxError
from asyncjit.onnx import load
from asyncjit.saving.container import Container, pack
from tests.models.cases import CASES
from tests.models.wheels import needed
from tests.onnx._building import model, node, value
from tests.surface.saved_models import again
from tests.surface.test_save_damage import places
from tests.surface.test_save_processes import in_a_fresh_process

F = np.float32
W = np.arange(12, dtype=F).reshape(4, 3)
PRODUCT = node("MatMul", ["x", "w"], ["y"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.aj"


def shaped(**options: Any) -> Any:
    """Reshapes as a static input says; one input has a name that Python cannot have, one is read by nobody."""
    nodes = [
        node("MatMul", ["in:x", "w"], ["y"]),
        node("Reshape", ["y", "shape"], ["z"]),
        node("Relu", ["z"], ["out/z"]),
    ]
    inputs = [value("in:x", F, ["batch", 4]), value("shape", np.int64, [2]), value("unread", F, [1])]
    return load(model(nodes, inputs, [value("out/z", F, [None, None])], {"w": W}), name="shaped", **options)


def small(*nodes: Any, inputs: Any, outputs: Any, weight: Any = W, **options: Any) -> Any:
    return load(model(list(nodes), inputs, outputs, {"w": weight}), **options)


def arguments(rows: int, columns: int = 3) -> dict[str, Any]:
    x = np.linspace(-1, 1, rows * 4, dtype=F).reshape(rows, 4)
    return {"in:x": x, "shape": [-1, columns], "unread": [0.0]}


def answer(given: dict[str, Any]) -> np.ndarray:
    return np.maximum((given["in:x"] @ W).reshape(given["shape"]), 0)


def test_a_loaded_model_takes_inputs_by_name_and_gives_dicts(file: Path) -> None:
    original = shaped()
    for rows, columns in ((2, 3), (2, 6), (4, 3)):
        original.run(arguments(rows, columns))
    loaded = again(file, original)
    assert repr(loaded) == repr(original).replace("<onnx", "<model")
    assert (loaded.inputs, loaded.outputs, loaded.static) == (original.inputs, original.outputs, original.static)
    assert loaded.captures == original.captures
    for rows, columns in ((2, 3), (2, 6), (4, 3)):
        given = arguments(rows, columns)
        outputs = loaded.run(**given)
        assert list(outputs) == ["out/z"]
        np.testing.assert_array_equal(np.asarray(outputs["out/z"]), np.asarray(original.run(given)["out/z"]))
        np.testing.assert_allclose(np.asarray(outputs["out/z"]), answer(given), rtol=1e-6)
    assert loaded.statistics().captures_made == 3


def test_weights_are_stored_once_and_nothing_is_shared(file: Path) -> None:
    big = np.ones((4, 5000), F)
    original = small(PRODUCT, inputs=[value("x", F, ["n", 4])], outputs=[value("y", F, ["n", 5000])], weight=big)
    for rows in (1, 2, 3):
        original.run(np.ones((rows, 4), F))
    aj.save(file, first=original, second=original)
    assert file.stat().st_size < 1.3 * big.nbytes
    loaded = aj.load(file)
    assert np.asarray(loaded["second"].run(np.ones((3, 4), F))["y"]).shape == (3, 5000)


def test_a_fresh_process_needs_neither_onnx_nor_the_model(file: Path) -> None:
    original = shaped()
    original.run(arguments(2, 6))
    aj.save(file, model=original)
    code = """
sys.modules["onnx"] = sys.modules["ml_dtypes"] = None
model = aj.load(sys.argv[1])
x = np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)
outputs = model["model"].run({"in:x": x, "shape": [-1, 6], "unread": [0.0]})
print(json.dumps([{name: np.asarray(each).tolist() for name, each in outputs.items()}, "asyncjit.onnx" in sys.modules]))
"""
    outputs, is_imported = in_a_fresh_process(code, file)
    assert outputs == {"out/z": np.asarray(original.run(arguments(2, 6))["out/z"]).tolist()}
    assert not is_imported


def test_what_was_not_captured_is_refused_and_says_what_was(file: Path) -> None:
    original = shaped()
    original.run(arguments(2))
    loaded = again(file, original)
    with pytest.raises(aj.ReplayMismatchError, match=r"not its graph; .* shaped\(in_x: float32\[2, 4\], shape="):
        loaded.run(arguments(3))
    with pytest.raises(aj.ReplayMismatchError, match="not its graph"):
        loaded.run(arguments(2, 6))
    with pytest.raises(OnnxError, match=r"input in:x: float32\[batch, 4\] was given float64"):
        loaded.run({**arguments(2), "in:x": np.ones((2, 4))})
    with pytest.raises(OnnxError, match="needs the input 'shape'"):
        loaded.run({"in:x": np.ones((2, 4), F)})


def test_buckets_come_back(file: Path) -> None:
    x, y = [value("x", F, ["n", 4])], [value("y", F, ["n", 3])]
    original = small(PRODUCT, inputs=x, outputs=y, bucket={"n": (2, 8)})
    original.run(np.ones((5, 4), F))
    loaded = again(file, original)
    for rows in (3, 7):
        assert np.asarray(loaded.run(np.ones((rows, 4), F))["y"]).tolist() == (np.ones((rows, 4), F) @ W).tolist()
    with pytest.raises(aj.ReplayMismatchError, match=r"\[2, 4\]"):
        loaded.run(np.ones((1, 4), F))


async def test_a_loaded_model_maps_and_chains(file: Path) -> None:
    original = load(model([node("Relu", ["x"], ["y"])], [value("x", F, ["n"])], [value("y", F, ["n"])]))
    await original(np.ones(3, F))
    await anyio.to_thread.run_sync(aj.save, file, original)
    loaded = aj.load(file)
    items = [np.full(3, each, F) for each in (-1, 2)]
    assert [np.asarray(each["y"]).tolist() async for each in loaded.map(items)] == [[0.0] * 3, [2.0] * 3]
    async with aj.pipeline(loaded, rename, loaded)(items) as outputs:
        assert [np.asarray(each["y"]).tolist() async for each in outputs] == [[0.0] * 3, [2.0] * 3]


def rename(outputs: dict[str, Any]) -> dict[str, Any]:
    return {"x": outputs["y"]}


def test_a_model_of_several_steps_is_refused(file: Path) -> None:
    graph = model([node("NonZero", ["x"], ["y"])], [value("x", F, ["n"])], [value("y", np.int64, [1, None])])
    steps = load(graph, name="steps")
    with pytest.raises(aj.SaveError, match=r"'steps' is run in several steps.*NonZero.*keep the \.onnx file"):
        aj.save(file, steps)
    with pytest.raises(aj.SaveError, match="'shaped' has no captures on this engine"):
        aj.save(file, shaped())
    assert not file.exists()


REAL = ("magika-1", "silero-16k", "captcha-1", "read-letters-int8-160", "spindles-1")


@pytest.mark.parametrize("case", [case for case in CASES if case.name in REAL], ids=lambda case: case.name)
def test_real_models_answer_the_same(case: Any, file: Path) -> None:
    needed(case.wheel.name, case.path)
    original = load(case.file)
    wanted = original.run(case.inputs(0))
    loaded = again(file, original)
    found = loaded.run(case.inputs(0))
    assert list(found) == list(wanted)
    for name, each in wanted.items():
        assert np.asarray(found[name]).tobytes() == np.asarray(each).tobytes()


def test_what_operations_are_told_can_be_stored(file: Path) -> None:
    """Parameters that are more than plain values."""
    given = np.arange(8, dtype=F).reshape(1, 1, 2, 4)
    graph = model(
        [node("Resize", ["x", "", "scales"], ["y"], mode="linear")],
        [value("x", F, [1, 1, 2, 4])],
        [value("y", F, [1, 1, 4, 8])],
        {"scales": np.array([1, 1, 2, 2], F)},
    )
    original = load(graph)
    wanted = np.asarray(original.run(given)["y"])
    assert np.asarray(again(file, original).run(given)["y"]).tolist() == wanted.tolist()


# Files that somebody has changed.

MODEL = ("things", "", "model")
WRONG: list[tuple[tuple[str | int, ...], object, str]] = [
    (("parameters",), ["in:x"], "those of the function"),
    (("parameters", 0), "shape", "names of inputs, each once"),
    (("static",), [], "the static parameters of the function"),
    (("static",), ["unread"], "all that are static"),
    (("inputs", 0, 2), "O", "a dtype"),
    (("inputs", 0, 3, 0), -1, "0 or more"),
    (("bucket",), {"width": [2]}, "sizes of dimensions that have names"),
    (("bucket",), {"batch": [0]}, "sizes of dimensions that have names"),
    (("function", "captures", 0, "key", 1, "value", "known", "shape"), [3], "16 bytes of int64"),
    (("function", "captures", 0, "key", 1, "value", "known", "data"), "zz", "a known word"),
]


def content(file: Path) -> tuple[Any, list[memoryview]]:
    original = shaped(bucket={"batch": 2})
    original.run(arguments(2))
    aj.save(file, original)
    data = file.read_bytes()
    container = Container(io.BytesIO(data), len(data), "file")
    return container.content.data, [memoryview(container.array(index)) for index in range(len(container.arrays_nbytes))]


@pytest.mark.parametrize(("path", "given", "words"), WRONG, ids=[".".join(map(str, path)) for path, _, _ in WRONG])
def test_what_is_wrong_with_a_piece_is_said(file: Path, path: tuple[str | int, ...], given: object, words: str) -> None:
    data, arrays = content(file)
    holder = data
    for key in (*MODEL, *path[:-1]):
        holder = holder[key]
    assert holder[path[-1]] != given
    holder[path[-1]] = given
    file.write_bytes(b"".join(pack(data, arrays)))
    with pytest.raises(aj.LoadError, match=words):
        aj.load(file)


@pytest.mark.parametrize("given", [None, -1, 1, "x", [], {}], ids=repr)
def test_no_piece_changed_does_more_than_be_refused(file: Path, given: object) -> None:
    data, arrays = content(file)
    for path in random.Random(repr(given)).sample(list(places(data)), 60):
        changed = copy.deepcopy(data)
        holder = changed
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = given
        file.write_bytes(b"".join(pack(changed, arrays)))
        try:
            loaded = aj.load(file)
            if hasattr(loaded, "inputs"):
                loaded.run(arguments(2))
        except (aj.AsyncJitError, TypeError) as error:
            assert isinstance(error, aj.AsyncJitError) or "argument" in str(error)  # noqa: PT017
